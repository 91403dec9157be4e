// What the interface promises, on real ranks: run under mpirun with any number of ranks and any DSM_DOMAIN. Each check names
// itself when it fails; exit 0 when all ranks are content.
#include <farpage/dsm.hpp>
#include <fcntl.h>
#include <mpi.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

int failures = 0, rank_here, ranks;

#define EXPECT(condition)                                                                                                     \
  do {                                                                                                                        \
    if (!(condition)) {                                                                                                       \
      failures++;                                                                                                             \
      std::fprintf(stderr, "rank %d: %s:%d: %s (last error: %s)\n", rank_here, __FILE__, __LINE__, #condition, dsm_last_error()); \
    }                                                                                                                         \
  } while (0)

template <class T>
T* from_rank(T* mine, int root) {
  auto pointer = reinterpret_cast<uint64_t>(mine);
  MPI_Bcast(&pointer, 1, MPI_UINT64_T, root, MPI_COMM_WORLD);
  return reinterpret_cast<T*>(pointer);
}

void* allocate(const dsm_alloc_params_t& params) {
  void* memory = nullptr;
  const dsm_status_t status = dsm_alloc(&params, &memory);
  EXPECT(status == DSM_OK);
  return memory;
}

uint8_t pattern(size_t at, int turn) { return static_cast<uint8_t>(at * 7 + at / 4096 * 13 + static_cast<size_t>(turn)); }

// Every rank writes its part, every rank reads all of it, with loads and with get; then the parts change hands.
void every_placement() {
  const size_t bytes = 40 * 4096 + 777;
  for (int placement = 0; placement < 4; placement++) {
    dsm_alloc_params_t params = DSM_ALLOC_INIT;
    params.bytes = bytes;
    params.placement = static_cast<dsm_placement_t>(placement);
    params.rank = ranks - 1;
    params.interleave_bytes = 8192;
    const size_t first = (bytes / static_cast<size_t>(ranks)) / 4096 * 4096;
    std::vector<dsm_slice_t> slices;
    for (int r = 0; r < ranks; r++) slices.push_back({r, r + 1 < ranks ? first : bytes - first * static_cast<size_t>(ranks - 1)});
    params.slices = slices.data();
    params.slice_count = slices.size();
    auto* memory = from_rank(rank_here == 0 ? static_cast<uint8_t*>(allocate(params)) : nullptr, 0);
    std::vector<uint8_t> copy(bytes);
    for (int turn = 0; turn < 3; turn++) {
      for (size_t at = 0; at < bytes; at++)
        if (static_cast<int>(at / 1000) % ranks == (rank_here + turn) % ranks) memory[at] = pattern(at, turn);
      dsm::barrier();
      size_t wrong = 0;
      for (size_t at = 0; at < bytes; at++) wrong += memory[at] != pattern(at, turn);
      EXPECT(wrong == 0);
      EXPECT(dsm_get(copy.data(), memory, bytes) == DSM_OK);
      for (size_t at = 0; at < bytes; at++) wrong += copy[at] != pattern(at, turn);
      EXPECT(wrong == 0);
      dsm::barrier();
    }
    dsm_info_t info = DSM_INFO_INIT;
    EXPECT(dsm_query(memory + bytes - 1, &info) == DSM_OK);
    EXPECT(info.region == memory);
    EXPECT(info.region_bytes == bytes);
    EXPECT(info.block == (bytes - 1) / info.block_bytes);
    if (placement == DSM_PLACE_AT_RANK || placement == DSM_PLACE_SLICES) EXPECT(info.home_rank == ranks - 1);
    dsm::barrier();
    if (rank_here == ranks - 1) EXPECT(dsm_free(memory) == DSM_OK);
    dsm::barrier();
    EXPECT(dsm_get(copy.data(), memory, 1) == DSM_ERR_OUT_OF_RANGE || dsm_get(copy.data(), memory, 1) == DSM_ERR_FREED);
    dsm::barrier();
  }
}

void fresh_memory_is_zero() {
  for (int turn = 0; turn < 3; turn++) {
    auto* memory = from_rank(rank_here == 0 ? static_cast<uint64_t*>(dsm_malloc(1 << 20)) : nullptr, 0);
    uint64_t sum = 0;
    if (rank_here == ranks - 1)
      for (size_t i = 0; i < (1 << 20) / 8; i++) sum |= memory[i];
    EXPECT(sum == 0);
    dsm::barrier();
    if (rank_here == 0) std::memset(memory, 0xff, 1 << 20);
    dsm::barrier();
    if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
    dsm::barrier();
  }
}

void put_and_get_across_ranks() {
  constexpr size_t kWords = 20000;
  auto* memory = from_rank(rank_here == ranks - 1 ? static_cast<uint64_t*>(dsm_malloc(kWords * 8)) : nullptr, ranks - 1);
  std::vector<uint64_t> mine(kWords, 0), all(kWords);
  for (size_t i = 0; i < kWords; i++) mine[i] = i * 3 + static_cast<size_t>(rank_here);
  for (int writer = 0; writer < ranks; writer++) {
    if (rank_here == writer) EXPECT(dsm_put(memory, mine.data(), kWords * 8) == DSM_OK);
    dsm::barrier();
    EXPECT(dsm_get(all.data(), memory, kWords * 8) == DSM_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < kWords; i++) wrong += all[i] != i * 3 + static_cast<size_t>(writer);
    EXPECT(wrong == 0);
    dsm::barrier();
  }
  EXPECT(dsm_prefetch(memory, kWords * 8) == DSM_OK);
  dsm::barrier();
  if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
  dsm::barrier();
}

void immutable_regions() {
  dsm_alloc_params_t params = DSM_ALLOC_INIT;
  params.bytes = static_cast<size_t>(ranks) * 256 * 1024;
  params.consistency = DSM_IMMUTABLE;
  params.placement = DSM_PLACE_INTERLEAVE;
  params.interleave_bytes = 256 * 1024;
  auto* memory = from_rank(rank_here == 0 ? static_cast<uint8_t*>(allocate(params)) : nullptr, 0);
  uint8_t* mine = memory + static_cast<size_t>(rank_here) * 256 * 1024;
  for (size_t i = 0; i < 256 * 1024; i++) mine[i] = pattern(i, rank_here);
  EXPECT(dsm_publish(memory) == DSM_OK);
  size_t wrong = 0;
  for (int r = 0; r < ranks; r++)
    for (size_t i = 0; i < 256 * 1024; i++) wrong += memory[static_cast<size_t>(r) * 256 * 1024 + i] != pattern(i, r);
  EXPECT(wrong == 0);
  uint8_t byte = 0;
  EXPECT(dsm_put(memory, &byte, 1) == DSM_ERR_UNSUPPORTED);
  EXPECT(dsm_publish(memory) == DSM_ERR_INVALID_ARGUMENT);
  dsm::barrier();
  if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
  dsm::barrier();
}

void small_objects() {
  std::vector<void*> objects;
  for (size_t bytes = 1; bytes <= 40000; bytes = bytes * 3 / 2 + 1)
    for (int i = 0; i < 5; i++) {
      void* object = dsm_malloc(bytes);
      EXPECT(object != nullptr);
      EXPECT(reinterpret_cast<uintptr_t>(object) % (bytes >= 4096 ? 4096 : 16) == 0);
      std::memset(object, i, bytes);
      objects.push_back(object);
    }
  for (void* object : objects) EXPECT(dsm_free(object) == DSM_OK);
  EXPECT(dsm_free(objects[0]) != DSM_OK);
  // Freed by another rank.
  void* mine = dsm_malloc(64);
  std::vector<uint64_t> all(static_cast<size_t>(ranks));
  auto pointer = reinterpret_cast<uint64_t>(mine);
  MPI_Allgather(&pointer, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  EXPECT(dsm_free(reinterpret_cast<void*>(all[static_cast<size_t>((rank_here + 1) % ranks)])) == DSM_OK);
  dsm::barrier();
  auto* counted = static_cast<uint64_t*>(dsm_calloc(100, 8));
  EXPECT(counted != nullptr);
  for (int i = 0; i < 100; i++) EXPECT(counted[i] == 0);
  EXPECT(dsm_free(counted) == DSM_OK);
  dsm::barrier();
}

void bad_arguments() {
  int local = 0;
  void* out = nullptr;
  EXPECT(dsm_malloc(0) == nullptr);
  EXPECT(std::strlen(dsm_last_error()) > 0);
  EXPECT(dsm_malloc(static_cast<size_t>(1) << 60) == nullptr);
  EXPECT(dsm_calloc(static_cast<size_t>(-1), 16) == nullptr);
  EXPECT(dsm_free(&local) == DSM_ERR_OUT_OF_RANGE);
  EXPECT(dsm_free(nullptr) == DSM_OK);
  EXPECT(dsm_get(nullptr, &local, 4) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_get(&local, nullptr, 4) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_get(&local, &local, 4) == DSM_ERR_OUT_OF_RANGE);
  EXPECT(dsm_get(&local, &local, 0) == DSM_OK);
  EXPECT(dsm_alloc(nullptr, &out) == DSM_ERR_INVALID_ARGUMENT);
  dsm_alloc_params_t params = DSM_ALLOC_INIT;
  EXPECT(dsm_alloc(&params, &out) == DSM_ERR_INVALID_ARGUMENT);
  params.bytes = 4096;
  params.block_bytes = 5000;
  EXPECT(dsm_alloc(&params, &out) == DSM_ERR_INVALID_ARGUMENT);
  params.block_bytes = 0;
  params.consistency = DSM_RELEASE;
  EXPECT(dsm_alloc(&params, &out) == DSM_ERR_UNSUPPORTED);
  params.consistency = DSM_COHERENT;
  params.placement = DSM_PLACE_AT_RANK;
  params.rank = ranks;
  EXPECT(dsm_alloc(&params, &out) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(std::strstr(dsm_last_error(), "there are ranks") != nullptr);
  params.placement = DSM_PLACE_LOCAL;
  params.bytes = static_cast<size_t>(1) << 42;  // fits the window, not the machine
  EXPECT(dsm_alloc(&params, &out) == DSM_ERR_OUT_OF_MEMORY);
  if (ranks > 1) {
    params.placement = DSM_PLACE_AT_RANK;
    params.rank = (rank_here + 1) % ranks;
    EXPECT(dsm_alloc(&params, &out) == DSM_ERR_OUT_OF_MEMORY);
  }
  auto* memory = static_cast<char*>(dsm_malloc(100000));
  char buffer[64];
  EXPECT(dsm_get(buffer, memory + 100000 - 32, 64) == DSM_ERR_OUT_OF_RANGE);
  EXPECT(dsm_get(buffer, memory + 100000 - 32, 32) == DSM_OK);
  EXPECT(dsm_free(memory + 4096) == DSM_ERR_OUT_OF_RANGE);
  EXPECT(dsm_publish(memory) == DSM_ERR_INVALID_ARGUMENT);
  EXPECT(dsm_free(memory) == DSM_OK);
  EXPECT(dsm_free(memory) != DSM_OK);
  EXPECT(dsm_init(nullptr) == DSM_ERR_ALREADY_INITIALIZED);
  uint64_t value;
  EXPECT(dsm_counter("no such counter", &value) == DSM_ERR_NOT_FOUND);
  EXPECT(dsm_counter("faults_read", &value) == DSM_OK);
  EXPECT(dsm_counter_name(dsm_counter_count()) == nullptr);
  dsm::barrier();
}

// read(2), write(2) and MPI_Send straight from and into global memory that is not here yet.
void system_calls_and_mpi() {
  constexpr size_t kBytes = 300 * 1024;
  auto* memory = from_rank(rank_here == 0 ? static_cast<uint8_t*>(dsm_malloc(2 * kBytes)) : nullptr, 0);
  if (rank_here == 0)
    for (size_t i = 0; i < kBytes; i++) memory[i] = pattern(i, 1);
  dsm::barrier();
  if (rank_here == ranks - 1) {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    std::thread writer([&] {
      for (size_t done = 0; done < kBytes;) {
        const ssize_t wrote = write(ends[0], memory + done, kBytes - done);
        if (wrote <= 0) break;
        done += static_cast<size_t>(wrote);
      }
    });
    size_t done = 0;
    while (done < kBytes) {
      const ssize_t got = read(ends[1], memory + kBytes + done, kBytes - done);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    writer.join();
    close(ends[0]), close(ends[1]);
    EXPECT(done == kBytes);
  }
  dsm::barrier();
  size_t wrong = 0;
  for (size_t i = 0; i < kBytes; i++) wrong += memory[kBytes + i] != pattern(i, 1);
  EXPECT(wrong == 0);
  dsm::barrier();
  if (ranks > 1) {
    auto* theirs = from_rank(rank_here == 0 ? static_cast<uint8_t*>(dsm_malloc(kBytes)) : nullptr, 0);
    if (rank_here == ranks - 1) MPI_Send(memory, kBytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
    if (rank_here == 0) MPI_Recv(theirs, kBytes, MPI_BYTE, ranks - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    dsm::barrier();
    for (size_t i = 0; i < kBytes; i++) wrong += theirs[i] != pattern(i, 1);
    EXPECT(wrong == 0);
    dsm::barrier();
    if (rank_here == 0) EXPECT(dsm_free(theirs) == DSM_OK);
  }
  if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
  dsm::barrier();
}

// A child has no global memory: its access ends it, and nobody else notices.
void fork_is_harmless() {
  auto* memory = from_rank(rank_here == 0 ? static_cast<uint64_t*>(dsm_malloc(8192)) : nullptr, 0);
  if (rank_here == 0) memory[0] = 42;
  dsm::barrier();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (dsm_rank() != -1) _exit(3);
    memory[0] = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT(memory[0] == 42);
  dsm::barrier();
  if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
  dsm::barrier();
}

// A get under way while the region is freed ends in a status, not in a signal.
void get_while_freed() {
  for (int turn = 0; turn < 5; turn++) {
    constexpr size_t kBytes = 8 << 20;
    auto* memory = from_rank(rank_here == 0 ? static_cast<uint8_t*>(dsm_malloc(kBytes)) : nullptr, 0);
    dsm::barrier();
    if (rank_here == ranks - 1 && ranks > 1) {
      std::vector<uint8_t> copy(kBytes);
      dsm_status_t status = DSM_OK;
      for (int i = 0; i < 50 && status == DSM_OK; i++) status = dsm_get(copy.data(), memory, kBytes);
      EXPECT(status == DSM_OK || status == DSM_ERR_FREED || status == DSM_ERR_OUT_OF_RANGE);
    }
    if (rank_here == 0) EXPECT(dsm_free(memory) == DSM_OK);
    dsm::barrier();
  }
}

// The C++ owners and templates mean what the C calls mean; failures throw with status and sentence.
void owners_and_spans() {
  {
    const dsm::Array<uint32_t> array(5000, {.placement = DSM_PLACE_AT_RANK, .rank = ranks - 1});
    EXPECT(dsm::query(array.data()).home_rank == ranks - 1);
    std::vector<uint32_t> values(array.size()), copy(array.size());
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<uint32_t>(i * 3);
    dsm::put(array.data(), values);
    dsm::prefetch(array.span());
    dsm::get(copy, array.data());
    EXPECT(copy == values);
    EXPECT(array[4999] == 4999 * 3);
    dsm::Array<uint32_t> other(1);
    other = dsm::Array<uint32_t>(7);
    EXPECT(other.size() == 7);
    EXPECT(dsm::counters().count("faults_read") == 1);
  }
  dsm_status_t status = DSM_OK;
  try {
    const dsm::Array<uint64_t> none(0);
  } catch (const dsm::Error& failure) {
    status = failure.status();
    EXPECT(std::strstr(failure.what(), "dsm_alloc") != nullptr);
  }
  EXPECT(status == DSM_ERR_INVALID_ARGUMENT);
  dsm::barrier();
}

void threads_of_one_rank() {
  auto* words = from_rank(rank_here == 0 ? static_cast<uint64_t*>(dsm_malloc(65536)) : nullptr, 0);
  std::vector<std::thread> threads;
  constexpr int kThreads = 3, kAdds = 500;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kAdds; i++) std::atomic_ref<uint64_t>(words[(i + t) % 16 * 512]).fetch_add(1);
    });
  for (std::thread& thread : threads) thread.join();
  dsm::barrier();
  uint64_t sum = 0;
  for (int i = 0; i < 16; i++) sum += words[i * 512];
  EXPECT(sum == static_cast<uint64_t>(kThreads) * kAdds * static_cast<uint64_t>(ranks));
  dsm::barrier();
  if (rank_here == 0) EXPECT(dsm_free(words) == DSM_OK);
  dsm::barrier();
}

}  // namespace

int main(int argc, char** argv) {
  char byte;
  if (dsm_finalize() != DSM_ERR_NOT_INITIALIZED || dsm_malloc(8) != nullptr || dsm_get(&byte, &byte, 1) != DSM_ERR_NOT_INITIALIZED || dsm_rank() != -1)
    failures++;
  MPI_Init(&argc, &argv);
  {
    const dsm::Session session;
    rank_here = session.rank(), ranks = session.size();
    const std::pair<const char*, void (*)()> parts[] = {{"every placement", every_placement},
                                                        {"fresh memory", fresh_memory_is_zero},
                                                        {"put and get", put_and_get_across_ranks},
                                                        {"immutable", immutable_regions},
                                                        {"small objects", small_objects},
                                                        {"bad arguments", bad_arguments},
                                                        {"system calls and MPI", system_calls_and_mpi},
                                                        {"fork", fork_is_harmless},
                                                        {"get while freed", get_while_freed},
                                                        {"owners and spans", owners_and_spans},
                                                        {"threads", threads_of_one_rank}};
    for (const auto& [name, part] : parts) {
      const double begin = MPI_Wtime();
      part();
      if (rank_here == 0) std::printf("%-22s %.2f s\n", name, MPI_Wtime() - begin), std::fflush(stdout);
    }
  }
  if (dsm_barrier() != DSM_ERR_NOT_INITIALIZED) failures++;
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank_here == 0) std::printf("%s: %d failures\n", all == 0 ? "ok" : "FAILED", all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
