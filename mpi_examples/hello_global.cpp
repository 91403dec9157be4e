// hello_global: one pointer, valid on every rank. Rank 0 allocates, every rank stores its greeting with plain stores, every
// rank reads all of them with plain loads.
//
//   mpirun -np 4 hello_global              the ranks share one copy
//   DSM_DOMAIN=rank mpirun -np 4 hello_global   each rank keeps its own: the greetings travel by page fault
#include <farpage/dsm.hpp>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int wrong = 0;
  {
    const dsm::Session session;
    const int rank = session.rank(), size = session.size();
    constexpr std::size_t kGreeting = 64;

    // A pointer may be handed over by any means: here by MPI.
    std::uint64_t pointer = 0;
    dsm::Array<char> board;
    if (rank == 0) {
      board = dsm::Array<char>(kGreeting * static_cast<std::size_t>(size));
      pointer = reinterpret_cast<std::uint64_t>(board.data());
    }
    MPI_Bcast(&pointer, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    char* greetings = reinterpret_cast<char*>(pointer);

    std::snprintf(greetings + kGreeting * static_cast<std::size_t>(rank), kGreeting, "hello from rank %d, domain %d", rank, session.domain());
    dsm::barrier();

    for (int r = 0; r < size; r++) {
      const char* text = greetings + kGreeting * static_cast<std::size_t>(r);
      char expected[kGreeting];
      std::snprintf(expected, sizeof expected, "hello from rank %d, domain %d", r, dsm_domain_of(r));
      wrong += std::strcmp(text, expected) != 0;
      if (rank == 0) std::printf("%p: %s\n", static_cast<const void*>(text), text);
    }
    dsm::barrier();
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
