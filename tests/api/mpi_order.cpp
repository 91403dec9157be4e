// The application's MPI_Init may come before dsm_init, after it, or never, and its MPI_Finalize before
// dsm_finalize or after it: mpi_order before|around|after|never.
#include <farpage/dsm.h>
#include <mpi.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  const char* when = argc > 1 ? argv[1] : "never";
  const bool around = std::strcmp(when, "around") == 0, before = around || std::strcmp(when, "before") == 0, after = std::strcmp(when, "after") == 0;
  if (before && MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
  if (dsm_init(nullptr) != DSM_OK) return std::fprintf(stderr, "dsm_init: %s\n", dsm_last_error()), 1;
  if (after && MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
  const int rank = dsm_rank(), size = dsm_size();
  if (before || after) {
    int mpi_rank = -1, sum = 0, one = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (mpi_rank != rank || sum != size) return 1;
  }
  if (dsm_barrier() != DSM_OK) return 1;
  if (after || (before && !around)) {  // MPI may end before the runtime does
    MPI_Finalize();
    if (dsm_finalize() != DSM_OK) return 1;
  } else {
    if (dsm_finalize() != DSM_OK) return 1;
    if (around) MPI_Finalize();
  }
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised && !finalised) return std::fprintf(stderr, "MPI was left running\n"), 1;
  if (rank == 0) std::printf("MPI_Init %s: ok with %d ranks\n", when, size);
  return 0;
}
