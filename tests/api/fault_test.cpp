// How it fails: each mode makes one thing go wrong, and the test looks for the message (ctest's PASS_REGULAR_EXPRESSION). A rank that
// gets past the point where it should have ended prints SURVIVED.
#include <farpage/dsm.hpp>
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

template <class T>
T* from_rank(T* mine, int root) {
  auto pointer = reinterpret_cast<uint64_t>(mine);
  MPI_Bcast(&pointer, 1, MPI_UINT64_T, root, MPI_COMM_WORLD);
  return reinterpret_cast<T*>(pointer);
}

[[noreturn]] void survived(const char* what) {
  std::printf("SURVIVED %s\n", what);
  std::fflush(stdout);
  std::_Exit(9);
}

// Returns when the process stands still (state T of /proc).
void wait_until_stopped(pid_t process) {
  for (char state = 0; state != 'T'; std::this_thread::yield()) {
    FILE* stat = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
    if (stat == nullptr || std::fscanf(stat, "%*d %*s %c", &state) != 1) survived("the process that was to be stopped");
    std::fclose(stat);
  }
}

// The others wait in a barrier that cannot end well: it must end all the same.
void wait_for_the_end() {
  const dsm_status_t status = dsm_barrier();
  std::printf("rank %d: barrier: %s: %s\n", dsm_rank(), dsm_strerror(status), dsm_last_error());
  std::fflush(stdout);
  std::_Exit(status == DSM_OK ? 9 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "init") {  // what dsm_init has to say
    const dsm_status_t status = dsm_init(nullptr);
    if (status == DSM_OK) survived("dsm_init");
    std::printf("rank ?: dsm_init: %s: %s\n", dsm_strerror(status), dsm_last_error());
    return 0;
  }
  MPI_Init(&argc, &argv);
  dsm::check(dsm_init(nullptr), "dsm_init");
  const int rank = dsm_rank(), last = dsm_size() - 1;
  auto* memory = from_rank(rank == 0 ? static_cast<volatile uint64_t*>(dsm_malloc(100'000)) : nullptr, 0);
  const auto read = [](volatile uint64_t* at) { return *at; };
  if (mode == "outside" && rank == last) {
    (void)read(memory + (uint64_t{64} << 20));
    survived("a load from an address of no region");
  }
  if (mode == "past-end" && rank == last) {
    (void)read(memory + 20 * 4096);
    survived("a load past the end");
  }
  if (mode == "freed") {
    (void)read(memory);
    dsm::barrier();
    if (rank == 0) dsm::check(dsm_free(const_cast<uint64_t*>(memory)), "dsm_free");
    dsm::barrier();
    if (rank == last) {
      (void)read(memory);
      survived("a load from freed memory");
    }
  }
  if (mode == "published") {
    dsm_alloc_params_t params = DSM_ALLOC_INIT;
    params.bytes = 1 << 20;
    params.consistency = DSM_IMMUTABLE;
    void* fixed = nullptr;
    if (rank == 0) dsm::check(dsm_alloc(&params, &fixed), "dsm_alloc");
    auto* region = from_rank(static_cast<volatile uint64_t*>(fixed), 0);
    if (rank == 0) {
      region[0] = 1;
      dsm::publish(fixed);
    }
    dsm::barrier();
    if (rank == last) {
      if (region[0] != 1) survived("with wrong bytes");
      region[0] = 2;
      survived("a store to a published region");
    }
  }
  if (mode == "kill-leader") {
    if (rank == 0) raise(SIGKILL);
    wait_for_the_end();
  }
  // Rank 0 stands still in the modes below. Rank 1 ends it after a while, so that mpirun can end.
  pid_t still = getpid();
  MPI_Bcast(&still, sizeof still, MPI_BYTE, 0, MPI_COMM_WORLD);
  const auto later = [still](int seconds) {
    std::thread([=] {
      const timespec patience{seconds, 0};
      nanosleep(&patience, nullptr);
      kill(still, SIGKILL);
      std::_Exit(0);
    }).detach();
  };
  if (mode == "kill-leader-in-fault") {
    // The last rank waits in a page fault that its leader will never answer: the home stands still, then the leader dies.
    if (rank == 0) raise(SIGSTOP);
    if (rank == 1) later(3);
    if (rank == 2) {
      const timespec patience{0, 400'000'000};
      nanosleep(&patience, nullptr);
      raise(SIGKILL);
    }
    if (rank == last) {
      (void)read(memory + 4096);
      survived("a load whose leader has died");
    }
    for (;;) pause();
  }
  if (mode == "stop-home" || mode == "get-from-stopped-home") {
    (void)read(memory);  // the region is known, the blocks read below are not here
    dsm::barrier();
    if (rank == 0) raise(SIGSTOP);
    wait_until_stopped(still);
    if (rank == 1) later(4);
    if (rank == last && mode == "stop-home") {
      (void)read(memory + 1024);
      survived("a load whose home stands still");
    }
    if (rank == last) {
      uint64_t word = 0;
      const dsm_status_t status = dsm_get(&word, const_cast<uint64_t*>(memory) + 1024, 8);
      std::printf("rank %d: get: %s\n", rank, dsm_strerror(status));
      std::fflush(stdout);
      std::_Exit(0);
    }
    for (;;) pause();
  }
  wait_for_the_end();
}
