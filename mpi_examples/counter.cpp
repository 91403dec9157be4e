// counter: all ranks add to one word, and to words of one block, with locked instructions on COHERENT memory. They are atomic over all
// ranks, in whatever domain: the sums are exact.
//
//   mpirun -np 4 counter [additions]
//   DSM_DOMAIN=rank mpirun -np 4 counter
#include <farpage/dsm.hpp>
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

int run(uint64_t additions) {
  const dsm::Session session;
  dsm::Array<uint64_t> memory;
  uint64_t pointer = 0;
  if (session.rank() == 0) {
    memory = dsm::Array<uint64_t>(512);
    pointer = reinterpret_cast<uint64_t>(memory.data());
  }
  MPI_Bcast(&pointer, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  auto* words = reinterpret_cast<uint64_t*>(pointer);
  const auto own = static_cast<std::size_t>(64 + session.rank() % 448);

  dsm::barrier();
  const double start = MPI_Wtime();
  for (uint64_t i = 0; i < additions; i++) {
    std::atomic_ref<uint64_t>(words[0]).fetch_add(1);    // one word, all ranks
    std::atomic_ref<uint64_t>(words[own]).fetch_add(i);  // a word of each rank, one block
  }
  dsm::barrier();
  const double elapsed = MPI_Wtime() - start;

  const auto ranks = static_cast<uint64_t>(session.size());
  const bool exact = words[0] == additions * ranks && words[own] == additions * (additions - 1) / 2;
  if (session.rank() == 0)
    std::printf("counter: %llu of %llu additions by %d ranks in %d domains, %.3f s: %s\n", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(additions * ranks), session.size(), session.domains(), elapsed, exact ? "exact" : "WRONG");
  dsm::barrier();
  return exact ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long additions = argc > 1 ? std::atol(argv[1]) : 20000;
  if (additions < 1) {
    std::fprintf(stderr, "counter: the number of additions must be positive\n");
    return 2;
  }
  const int code = run(static_cast<uint64_t>(additions));
  MPI_Finalize();
  return code;
}
