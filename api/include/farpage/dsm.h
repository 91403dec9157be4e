/* Farpage, C interface: one address space over the memory of all ranks of a job.
 *
 * Conventions
 * - Every call returns dsm_status_t, except dsm_malloc and dsm_calloc (NULL on failure). dsm_last_error() has the sentence.
 * - Calls are thread-safe unless they say otherwise. None may be called from a signal handler or a CUDA callback.
 * - "Collective" calls are made by all ranks, in the same order. All others need nobody else's cooperation.
 * - Sizes are bytes. Pointers into global memory are valid, and equal, on every rank.
 * - Every wait has a deadline (DSM_FAULT_TIMEOUT). A load or store that cannot be served ends in SIGBUS, after one line on
 *   stderr that names address, region, block and cause.
 * - Parameter structs begin with struct_size and are filled by their DSM_*_INIT macro.
 */
#ifndef FARPAGE_DSM_H
#define FARPAGE_DSM_H

#include <stddef.h>
#include <stdint.h>

#define DSM_VERSION_MAJOR 0
#define DSM_VERSION_MINOR 1
#define DSM_VERSION_PATCH 0

#if defined(__GNUC__)
#define DSM_API __attribute__((visibility("default")))
#else
#define DSM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dsm_status {
  DSM_OK = 0,
  DSM_ERR_INVALID_ARGUMENT = 1,
  DSM_ERR_OUT_OF_MEMORY = 2,
  DSM_ERR_NOT_INITIALIZED = 3,
  DSM_ERR_ALREADY_INITIALIZED = 4,
  DSM_ERR_UNSUPPORTED = 5,
  DSM_ERR_OUT_OF_RANGE = 6, /* pointer outside global memory, or range past the end of its region */
  DSM_ERR_FREED = 7,        /* the region was freed, or is being freed */
  DSM_ERR_TIMED_OUT = 8,
  DSM_ERR_PEER_LOST = 9,
  DSM_ERR_MISMATCH = 10, /* ranks disagree: version, options, collective arguments */
  DSM_ERR_IO = 11,       /* a file is missing, short or malformed */
  DSM_ERR_NOT_FOUND = 12,
  DSM_ERR_BUSY = 13,
  DSM_ERR_INTERNAL = 14
} dsm_status_t;

/* ---- life ---------------------------------------------------------------------------------------------------------- */

typedef struct dsm_params {
  size_t struct_size;
  int abi_version; /* DSM_ABI_VERSION of the header the program was built with */
} dsm_params_t;

#define DSM_ABI_VERSION 1
#define DSM_PARAMS_INIT {sizeof(dsm_params_t), DSM_ABI_VERSION}

/* Starts the runtime in this process. Collective. `params` may be NULL. Before or after MPI_Init; where the application
 * never calls MPI_Init the runtime does so itself; without mpirun the job is one rank. Options come from DSM_* variables.
 * A failure on one rank is a failure on all. MPI cannot start twice: where the runtime has started it, a failed dsm_init
 * or dsm_finalize is the end of both in this process.
 * Errors: INVALID_ARGUMENT (malformed option, ABI of another version), ALREADY_INITIALIZED, MISMATCH (ranks of another
 * version or with other options), UNSUPPORTED (several domains but no userfaultfd), OUT_OF_MEMORY (no free window; memory
 * limit below DSM_CACHE_BYTES), TIMED_OUT. */
DSM_API dsm_status_t dsm_init(const dsm_params_t* params);

/* Ends the runtime. Collective; waits for all ranks. Global memory is gone afterwards; pointers into it must not be used.
 * No other thread of the process may be inside a call or touch global memory. */
DSM_API dsm_status_t dsm_finalize(void);

DSM_API int dsm_rank(void);        /* 0 .. dsm_size()-1; -1 before dsm_init */
DSM_API int dsm_size(void);        /* ranks of the job; -1 before dsm_init */
DSM_API int dsm_domain(void);      /* the domain of this rank, 0 .. dsm_domains()-1; -1 before dsm_init */
DSM_API int dsm_domains(void);     /* domains of the job; -1 before dsm_init */
DSM_API int dsm_domain_of(int rank); /* the domain of another rank; -1 when there is no such rank */

/* Ends the whole job with `exit_code` after printing `message` (may be NULL) with the rank. Does not return. */
DSM_API void dsm_abort(int exit_code, const char* message);

DSM_API const char* dsm_strerror(dsm_status_t status); /* a constant text */
/* What the last failed call of this thread had to say; "" if none failed. Valid until the next failing call of the thread. */
DSM_API const char* dsm_last_error(void);
DSM_API const char* dsm_version(void); /* "0.1.0" of the library that is loaded */

/* ---- memory -------------------------------------------------------------------------------------------------------- */

typedef enum dsm_consistency {
  DSM_COHERENT = 0,  /* plain loads and stores, x86-TSO over all ranks; locked instructions are atomic over all ranks */
  DSM_RELEASE = 1,   /* returns UNSUPPORTED in this version */
  DSM_IMMUTABLE = 2, /* written by the ranks of each home, their own blocks, until dsm_publish; then read by everybody */
  DSM_UNCACHED = 3   /* returns UNSUPPORTED in this version */
} dsm_consistency_t;

typedef enum dsm_placement {
  DSM_PLACE_LOCAL = 0,      /* home memory at the calling rank */
  DSM_PLACE_AT_RANK = 1,    /* at `rank` */
  DSM_PLACE_INTERLEAVE = 2, /* chunk i of `interleave_bytes` at rank i mod dsm_size() */
  DSM_PLACE_SLICES = 3      /* consecutive slices, each at its own rank */
} dsm_placement_t;

typedef struct dsm_slice {
  int rank;
  size_t bytes; /* a multiple of the block size, except in the last slice */
} dsm_slice_t;

typedef struct dsm_alloc_params {
  size_t struct_size;
  size_t bytes;
  dsm_consistency_t consistency;
  dsm_placement_t placement;
  int rank;                /* DSM_PLACE_AT_RANK */
  size_t interleave_bytes; /* DSM_PLACE_INTERLEAVE: a multiple of the block size; 0: 2 MiB */
  const dsm_slice_t* slices; /* DSM_PLACE_SLICES: at most 64, bytes sum up to `bytes` */
  size_t slice_count;
  size_t block_bytes; /* unit of coherence: a power of two, 4 KiB to 2 MiB; 0: the default of the consistency */
} dsm_alloc_params_t;

#define DSM_ALLOC_INIT {sizeof(dsm_alloc_params_t), 0, DSM_COHERENT, DSM_PLACE_LOCAL, 0, 0, NULL, 0, 0}

/* Allocates `bytes` of zero-filled COHERENT global memory whose home is this rank; aligned to 16 bytes, from 4 KiB on to
 * 4 KiB. Sends no message, except that a small object in memory freed before is cleared by stores; not collective.
 * NULL: bytes == 0, or no memory (dsm_last_error). Free with dsm_free on any rank. */
DSM_API void* dsm_malloc(size_t bytes);
/* dsm_malloc(count * bytes); NULL also when the product overflows. */
DSM_API void* dsm_calloc(size_t count, size_t bytes);

/* Allocates one region as `params` says. Sends no message; not collective. Aligned to 2 MiB, zero-filled.
 * Errors: INVALID_ARGUMENT (bytes 0 or too large, block size, placement), OUT_OF_MEMORY (home memory beyond DSM_HOME_BYTES
 * or the memory limit, arena full), UNSUPPORTED (RELEASE, UNCACHED). */
DSM_API dsm_status_t dsm_alloc(const dsm_alloc_params_t* params, void** out);

/* Frees what dsm_malloc, dsm_calloc or dsm_alloc returned, on any rank; NULL is a no-op. Regions: returns when no domain
 * maps the memory any more; accesses afterwards end in SIGBUS, calls in DSM_ERR_FREED. Objects below 32 KiB share regions:
 * a load from one after its free cannot be caught. Errors: OUT_OF_RANGE (not from dsm_malloc), FREED (twice), TIMED_OUT. */
DSM_API dsm_status_t dsm_free(void* ptr);

/* ---- access -------------------------------------------------------------------------------------------------------- */

/* Copies `bytes` from global memory at `src` to private memory at `dst` (or the other way round). Blocking; the range must
 * lie in one region; zero bytes is a no-op. Agrees with loads and stores. `dst`/`src` may be global memory too.
 * Errors: INVALID_ARGUMENT (NULL), OUT_OF_RANGE, FREED (also when freed meanwhile), UNSUPPORTED (put into a published
 * region), TIMED_OUT, PEER_LOST. After an error part of the range may have been copied. */
DSM_API dsm_status_t dsm_get(void* dst, const void* src, size_t bytes);
DSM_API dsm_status_t dsm_put(void* dst, const void* src, size_t bytes);

/* Asks for the blocks of a range ahead of use (read copies) and returns at once. Bounded by a quarter of the cache: what
 * does not fit is left out and counted. Errors: OUT_OF_RANGE, FREED. */
DSM_API dsm_status_t dsm_prefetch(const void* ptr, size_t bytes);

/* Makes an IMMUTABLE region readable by everybody and read-only for everybody. Collective over the ranks that are a home of
 * it; `ptr` is any address of the region. Returns when all of them have published. Readers that come earlier wait.
 * Errors: OUT_OF_RANGE, INVALID_ARGUMENT (not IMMUTABLE, or this rank is no home of it, or published already), TIMED_OUT. */
DSM_API dsm_status_t dsm_publish(void* ptr);

/* ---- order --------------------------------------------------------------------------------------------------------- */

/* Waits for all ranks. Collective; one thread per rank at a time. What was stored before is visible after it. Sleeps, does
 * not spin. Errors: TIMED_OUT, PEER_LOST. */
DSM_API dsm_status_t dsm_barrier(void);

/* ---- observe ------------------------------------------------------------------------------------------------------- */

typedef struct dsm_info {
  size_t struct_size;
  void* region;        /* begin of the region */
  size_t region_bytes; /* as asked for */
  size_t block_bytes;
  uint64_t block;      /* index of the block that holds the address */
  int home_rank;       /* rank whose memory is its home */
  int home_domain;
  int owner_rank;      /* rank that allocated the region */
  dsm_consistency_t consistency;
  dsm_placement_t placement;
  int published;       /* IMMUTABLE: 1 when published, as far as this domain knows */
  int present;         /* 1: the domain of this rank holds the block; 2: it may write it; a snapshot */
  uint32_t generation; /* of the address range */
} dsm_info_t;

#define DSM_INFO_INIT {sizeof(dsm_info_t), NULL, 0, 0, 0, 0, 0, 0, DSM_COHERENT, DSM_PLACE_LOCAL, 0, 0, 0}

/* Describes the region and block of an address. May ask the region's owner (deadline). Errors: OUT_OF_RANGE, FREED. */
DSM_API dsm_status_t dsm_query(const void* ptr, dsm_info_t* info);

/* Counters of this rank's domain: names and meanings in docs/counters.md. `values` receives min(count, dsm_counter_count())
 * numbers; they only grow, except those that say "now". */
DSM_API size_t dsm_counter_count(void);
DSM_API const char* dsm_counter_name(size_t index); /* NULL beyond the last */
DSM_API dsm_status_t dsm_stats(uint64_t* values, size_t count);
/* One counter by name. Errors: NOT_FOUND. */
DSM_API dsm_status_t dsm_counter(const char* name, uint64_t* value);

/* ---- weights ------------------------------------------------------------------------------------------------------- */

typedef struct dsm_weights dsm_weights_t;

typedef enum dsm_dtype {
  DSM_F64, DSM_F32, DSM_F16, DSM_BF16, DSM_F8_E4M3, DSM_F8_E5M2, DSM_I64, DSM_I32, DSM_I16, DSM_I8, DSM_U64, DSM_U32, DSM_U16,
  DSM_U8, DSM_BOOL
} dsm_dtype_t;

#define DSM_MAX_DIMENSIONS 8

typedef struct dsm_tensor {
  size_t struct_size;
  const char* name; /* owned by the dsm_weights_t */
  dsm_dtype_t dtype;
  int dimensions;
  int64_t shape[DSM_MAX_DIMENSIONS]; /* row-major, outermost first */
  const void* data; /* global memory, IMMUTABLE */
  size_t bytes;
} dsm_tensor_t;

#define DSM_TENSOR_INIT {sizeof(dsm_tensor_t), NULL, DSM_F32, 0, {0, 0, 0, 0, 0, 0, 0, 0}, NULL, 0}

/* Opens a hub-style folder: model.safetensors, or shards named by model.safetensors.index.json. Collective; returns with the
 * tensors published. Each byte of the files is read from disk once per job, by the rank that is its home, all ranks in
 * parallel. Errors: IO (file and byte named), INVALID_ARGUMENT, OUT_OF_MEMORY, TIMED_OUT; the same on all ranks. */
DSM_API dsm_status_t dsm_weights_open(const char* directory, dsm_weights_t** out);
/* Frees the tensors. Collective. NULL is a no-op. */
DSM_API dsm_status_t dsm_weights_close(dsm_weights_t* weights);
DSM_API size_t dsm_weights_count(const dsm_weights_t* weights);
/* The tensor with this name / the i-th by offset in its file. Errors: NOT_FOUND. No message. */
DSM_API dsm_status_t dsm_weights_tensor(const dsm_weights_t* weights, const char* name, dsm_tensor_t* out);
DSM_API dsm_status_t dsm_weights_tensor_at(const dsm_weights_t* weights, size_t index, dsm_tensor_t* out);

#ifdef __cplusplus
}
#endif
#endif /* FARPAGE_DSM_H */
