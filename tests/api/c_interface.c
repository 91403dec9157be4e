/* The interface from C: everything that dsm.h declares compiles, links and answers. Run with any number of ranks.
 * `c_interface abi`: one rank was built for another ABI; dsm_init must end with that error on all ranks.
 * `c_interface options`: rank 1 has another DSM_HOLD; all ranks are told both values. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include <farpage/dsm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define EXPECT(condition) \
  do {                    \
    if (!(condition)) failures++, fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, dsm_last_error()); \
  } while (0)

static void before_init(void) {
  int value = 0;
  EXPECT(dsm_rank() == -1 && dsm_size() == -1 && dsm_domain() == -1 && dsm_domains() == -1 && dsm_domain_of(0) == -1);
  EXPECT(dsm_malloc(1) == NULL && dsm_calloc(1, 1) == NULL);
  EXPECT(dsm_barrier() == DSM_ERR_NOT_INITIALIZED);
  EXPECT(dsm_free(&value) == DSM_ERR_NOT_INITIALIZED);
  EXPECT(dsm_put(&value, &value, sizeof value) == DSM_ERR_NOT_INITIALIZED);
  EXPECT(strstr(dsm_last_error(), "dsm_init") != NULL);
}

/* A small object that was used before is clear again. */
static void reused_objects_are_zero(void) {
  int turn;
  for (turn = 0; turn < 3; turn++) {
    unsigned char* object = dsm_malloc(3000);
    size_t i, set = 0;
    EXPECT(object != NULL);
    if (object == NULL) return;
    for (i = 0; i < 3000; i++) set += object[i] != 0;
    EXPECT(set == 0);
    memset(object, 0xff, 3000);
    EXPECT(dsm_free(object) == DSM_OK);
  }
}

static void weights_and_counters(void) {
  dsm_weights_t* weights = NULL;
  dsm_tensor_t tensor = DSM_TENSOR_INIT;
  uint64_t values[4] = {0, 0, 0, 0}, one = 0;
  EXPECT(dsm_counter_count() > 4 && dsm_counter_name(0) != NULL);
  EXPECT(dsm_stats(values, 4) == DSM_OK);
  EXPECT(dsm_counter(dsm_counter_name(0), &one) == DSM_OK);
  EXPECT(dsm_weights_open("no/such/folder", &weights) == DSM_ERR_IO && weights == NULL);
  EXPECT(strstr(dsm_last_error(), "no/such/folder") != NULL);
  EXPECT(dsm_weights_close(NULL) == DSM_OK && dsm_weights_count(NULL) == 0);
  EXPECT(dsm_weights_tensor(NULL, "name", &tensor) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_weights_tensor_at(NULL, 0, &tensor) == DSM_ERR_INVALID_ARGUMENT);
}

static void regions(void) {
  dsm_alloc_params_t params = DSM_ALLOC_INIT;
  dsm_info_t info = DSM_INFO_INIT;
  void* memory = NULL;
  int in = 7, out = 0;
  params.bytes = 5000;
  EXPECT(dsm_alloc(&params, &memory) == DSM_OK);
  EXPECT(dsm_put(memory, &in, sizeof in) == DSM_OK);
  EXPECT(dsm_get(&out, memory, sizeof out) == DSM_OK && out == 7);
  EXPECT(dsm_prefetch(memory, 5000) == DSM_OK);
  EXPECT(dsm_prefetch(memory, 5001) == DSM_ERR_OUT_OF_RANGE);
  EXPECT(dsm_query(memory, &info) == DSM_OK && info.region == memory && info.region_bytes == 5000 && info.owner_rank == dsm_rank());
  info.struct_size = 3;
  EXPECT(dsm_query(memory, &info) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_publish(memory) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_free(memory) == DSM_OK);
  EXPECT(dsm_query(memory, NULL) == DSM_ERR_INVALID_ARGUMENT);
}

static int another_abi(void) {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  dsm_params_t params = DSM_PARAMS_INIT;
  if (rank == NULL || strcmp(rank, "1") == 0) params.abi_version++;
  EXPECT(dsm_init(&params) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(strstr(dsm_last_error(), "the program was built for ABI 2, the library has ABI 1") != NULL);
  if (params.abi_version == DSM_ABI_VERSION) EXPECT(strstr(dsm_last_error(), "rank 1: ") != NULL);
  EXPECT(dsm_rank() == -1);
  return failures != 0;
}

static int other_options(void) {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  setenv("DSM_HOLD", rank != NULL && strcmp(rank, "1") == 0 ? "70" : "60", 1);
  EXPECT(dsm_init(NULL) == DSM_ERR_MISMATCH);
  EXPECT(strstr(dsm_last_error(), "rank 0 has DSM_HOLD=60, rank 1 has DSM_HOLD=70") != NULL);
  EXPECT(dsm_rank() == -1);
  return failures != 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "abi") == 0) return another_abi();
  if (argc > 1 && strcmp(argv[1], "options") == 0) return other_options();
  before_init();
  if (dsm_init(NULL) != DSM_OK) return fprintf(stderr, "dsm_init: %s\n", dsm_last_error()), 1;
  EXPECT(dsm_rank() < dsm_size() && dsm_domain_of(dsm_rank()) == dsm_domain() && dsm_domain_of(dsm_size()) == -1);
  EXPECT(dsm_domain() < dsm_domains() && strcmp(dsm_version(), "0.1.0") == 0);
  EXPECT(strcmp(dsm_strerror(DSM_ERR_FREED), "freed") == 0 && dsm_strerror((dsm_status_t)99) != NULL);
  reused_objects_are_zero();
  regions();
  weights_and_counters();
  EXPECT(dsm_barrier() == DSM_OK);
  EXPECT(dsm_finalize() == DSM_OK);
  EXPECT(dsm_finalize() == DSM_ERR_NOT_INITIALIZED);
  before_init();
  if (failures == 0) printf("ok\n");
  return failures != 0;
}
