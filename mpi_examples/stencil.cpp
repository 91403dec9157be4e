// stencil: heat on a rod, the rod in COHERENT global memory, each rank's part at home in its own memory. The halo is read by plain
// loads of the neighbours' cells: no messages in the program. The result must equal a serial run exactly.
//
//   mpirun -np 4 stencil [cells] [steps]
//   DSM_DOMAIN=rank mpirun -np 4 stencil      the halo travels by page fault
#include <farpage/dsm.hpp>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

double initial(std::size_t cell) { return cell % 97 == 0 ? 100.0 : static_cast<double>(cell % 13); }
double relaxed(double left, double here, double right) { return here + 0.25 * (left - 2 * here + right); }

std::vector<double> serial(std::size_t cells, int steps) {
  std::vector<double> now(cells), next(cells);
  for (std::size_t i = 0; i < cells; i++) now[i] = initial(i);
  for (int step = 0; step < steps; step++) {
    for (std::size_t i = 0; i < cells; i++) next[i] = relaxed(now[i == 0 ? 0 : i - 1], now[i], now[i + 1 == cells ? i : i + 1]);
    std::swap(now, next);
  }
  return now;
}

int run(std::size_t cells, int steps) {
  const dsm::Session session;
  const auto rank = static_cast<std::size_t>(session.rank()), size = static_cast<std::size_t>(session.size());

  // Slices of whole blocks, so that no two ranks write the same one.
  constexpr std::size_t kBlockCells = 4096 / sizeof(double);
  const std::size_t share = ((cells + size - 1) / size + kBlockCells - 1) / kBlockCells * kBlockCells;
  std::vector<dsm_slice_t> slices;
  for (std::size_t r = 0, at = 0; r < size && at < cells; r++, at += share)
    slices.push_back({static_cast<int>(r), std::min(share, cells - at) * sizeof(double)});
  dsm::Array<double> rods[2];
  uint64_t pointers[2] = {};
  if (rank == 0)
    for (int i = 0; i < 2; i++) {
      rods[i] = dsm::Array<double>(cells, {.placement = DSM_PLACE_SLICES, .slices = slices});
      pointers[i] = reinterpret_cast<uint64_t>(rods[i].data());
    }
  MPI_Bcast(pointers, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  double *now = reinterpret_cast<double*>(pointers[0]), *next = reinterpret_cast<double*>(pointers[1]);

  const std::size_t begin = std::min(rank * share, cells);
  const std::size_t end = std::min(begin + share, cells);
  for (std::size_t i = begin; i < end; i++) now[i] = initial(i);
  dsm::barrier();
  const double start = MPI_Wtime();
  for (int step = 0; step < steps; step++) {
    for (std::size_t i = begin; i < end; i++) next[i] = relaxed(now[i == 0 ? 0 : i - 1], now[i], now[i + 1 == cells ? i : i + 1]);
    dsm::barrier();
    std::swap(now, next);
  }
  const double elapsed = MPI_Wtime() - start;

  int wrong = 0;
  if (rank == 0) {
    const std::vector<double> expected = serial(cells, steps);
    for (std::size_t i = 0; i < cells; i++) wrong += now[i] != expected[i];
    std::printf("stencil: %zu cells, %d steps, %zu ranks, %d domains: %.3f s, %d cells differ from the serial run\n", cells, steps, size, session.domains(), elapsed, wrong);
  }
  MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
  dsm::barrier();
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long cells = argc > 1 ? std::atol(argv[1]) : 100000;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  if (cells < 1 || steps < 0) {
    std::fprintf(stderr, "stencil: cells and steps must be positive\n");
    return 2;
  }
  const int code = run(static_cast<std::size_t>(cells), steps);
  MPI_Finalize();
  return code;
}
