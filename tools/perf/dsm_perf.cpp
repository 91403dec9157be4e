// dsm-perf: the figures of docs/performance.md, each beside its floor in the same run.
//
//   DSM_DOMAIN=rank mpirun -np 2 dsm-perf miss        read misses of 4 KiB blocks, by home state; back to back and 1 ms apart
//   DSM_DOMAIN=2    mpirun -np 4 dsm-perf miss        the same for a rank that is not a leader
//   DSM_DOMAIN=rank mpirun -np 2 dsm-perf stream      cold sequential reads, COHERENT 4 KiB and IMMUTABLE 64 KiB blocks
//   DSM_DOMAIN=rank mpirun -np 2 dsm-perf warm        re-reading memory that is here, against a plain memfd
//   DSM_DOMAIN=2    mpirun -np 4 dsm-perf contend     two domains adding to words of one block
//   DSM_DOMAIN=rank mpirun -np 2 dsm-perf busy        misses while the home's application computes
//   DSM_DOMAIN=rank mpirun -np 2 dsm-perf idle        cores used by doing nothing, before and after traffic
//
// Times are microseconds, medians with p99; rates MiB/s. Several names may be given; "all" means all of them.
#include <farpage/dsm.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "tools/perf/floors.hpp"
#include "transport/bare_ping.hpp"

namespace {

using farpage::perf::median;
using farpage::perf::percentile;

constexpr size_t kBlock = 4096;
int rank_here, ranks;

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "dsm-perf: rank %d: %s: %s\n", rank_here, what, dsm_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void check(dsm_status_t status, const char* what) {
  if (status != DSM_OK) die(what);
}

// MPI_Barrier polls, and would take the cores that the lanes need: every wait here sleeps.
void meet() { check(dsm_barrier(), "dsm_barrier"); }

uint64_t counter(const char* name) {
  uint64_t value = 0;
  check(dsm_counter(name, &value), name);
  return value;
}

char* allocate(size_t bytes, dsm_consistency_t consistency, int home, size_t block) {
  uint64_t pointer = 0;
  if (rank_here == 0) {
    dsm_alloc_params_t params = DSM_ALLOC_INIT;
    params.bytes = bytes;
    params.consistency = consistency;
    params.placement = DSM_PLACE_AT_RANK;
    params.rank = home;
    params.block_bytes = block;
    void* memory = nullptr;
    check(dsm_alloc(&params, &memory), "dsm_alloc");
    pointer = reinterpret_cast<uint64_t>(memory);
  }
  MPI_Bcast(&pointer, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return reinterpret_cast<char*>(pointer);
}

void release(char* memory) {
  meet();
  if (rank_here == 0) check(dsm_free(memory), "dsm_free");
  meet();
}

int first_rank_of(int domain) {
  for (int r = 0; r < ranks; r++)
    if (dsm_domain_of(r) == domain) return r;
  return -1;
}
int last_rank_of(int domain) {
  int last = -1;
  for (int r = 0; r < ranks; r++)
    if (dsm_domain_of(r) == domain) last = r;
  return last;
}

void row(const char* what, const std::vector<double>& us, const char* note = "") {
  std::printf("  %-58s p50 %8.1f  p99 %8.1f us  %s\n", what, median(us), percentile(us, 0.99), note);
  std::fflush(stdout);
}

std::vector<double> to_us(std::vector<double> ns) {
  for (double& value : ns) value /= 1e3;
  return ns;
}

// --- floors -------------------------------------------------------------------------------------------------------------

// Measured by rank 0 before dsm_init, while the others nap: forking beside a lane's thread is not safe, and polling ranks
// would take the cores.
struct Floors {
  double fault_near = 0, fault_far = 0, fault_isolated = 0;  // us
  double wire_polling[2] = {}, wire_asleep[2] = {};          // us, 8 B there and 4 KiB back; shm, tcp
  double wire_64k[2] = {};                                   // us, 8 B there and 64 KiB back, polling
};
Floors floors;

int tcp_index() {
  const char* wanted = std::getenv("DSM_TRANSPORT");
  return wanted != nullptr && std::strcmp(wanted, "tcp") == 0 ? 1 : 0;
}

void measure_floors() {
  if (rank_here == 0) {
    std::printf("floors\n");
    const auto near = to_us(farpage::perf::cross_process_fault_ns({true, true}, 1000));
    const auto far = to_us(farpage::perf::cross_process_fault_ns({false, false}, 1000));
    const auto isolated = to_us(farpage::perf::isolated_cross_process_fault_ns({false, false}, 300));
    row("fault served by another process: same core, polling", near);
    row("... other core, asleep", far);
    row("... other core, asleep, 1 ms apart", isolated);
    floors.fault_near = median(near), floors.fault_far = median(far), floors.fault_isolated = median(isolated);
    for (const int tcp : {0, 1}) {
      const auto polling = farpage::transport::bare_round_trip_us(tcp == 1, true, 8, kBlock, 2000);
      const auto asleep = farpage::transport::bare_round_trip_us(tcp == 1, false, 8, kBlock, 1000);
      const auto large = farpage::transport::bare_round_trip_us(tcp == 1, true, 8, 65536, 500);
      row(tcp ? "bare UCX round trip, 8 B and 4 KiB, tcp, polling" : "bare UCX round trip, 8 B and 4 KiB, shm, polling", polling);
      row("... asleep", asleep);
      row("... 8 B and 64 KiB, polling", large);
      floors.wire_polling[tcp] = median(polling), floors.wire_asleep[tcp] = median(asleep), floors.wire_64k[tcp] = median(large);
    }
  }
  MPI_Request request;
  MPI_Ibcast(&floors, sizeof floors, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) {
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
}

// --- miss ---------------------------------------------------------------------------------------------------------------

// Reads one word of each block, in an order that no stream detection follows.
std::vector<double> read_blocks(char* memory, size_t blocks, long pause_us) {
  std::vector<double> samples;
  for (size_t i = 0; i < blocks; i++) {
    const size_t block = i * 97 % blocks;
    if (pause_us != 0) {
      const timespec pause{0, pause_us * 1000};
      nanosleep(&pause, nullptr);
    }
    const double begin = now_us();
    (void)*reinterpret_cast<volatile uint64_t*>(memory + block * kBlock);
    samples.push_back(now_us() - begin);
  }
  return samples;
}

void measure_miss() {
  const int reader = last_rank_of(0), home = first_rank_of(1), third = dsm_domains() > 2 ? first_rank_of(2) : -1;
  const size_t blocks = 1021;
  const double wire_polling = floors.wire_polling[tcp_index()], wire_asleep = floors.wire_asleep[tcp_index()];
  if (rank_here == reader)
    std::printf("read miss, 4 KiB, reader: rank %d (%s of domain 0), home: rank %d, over %s\n", reader,
                reader == first_rank_of(0) ? "leader" : "not leader", home, tcp_index() ? "tcp" : "shm");
  meet();
  enum Home { kClean, kWrittenAtHome, kOwnedElsewhere };
  for (const Home state : {kClean, kWrittenAtHome, kOwnedElsewhere}) {
    if (state == kOwnedElsewhere && third < 0) continue;
    for (const long pause_us : {0L, 1000L}) {
      char* memory = allocate(blocks * kBlock, DSM_COHERENT, home, kBlock);
      // Fresh memory is clean at its home, and no rank there maps it.
      if (rank_here == home && state == kWrittenAtHome) std::memset(memory, 1, blocks * kBlock);
      if (rank_here == third && state == kOwnedElsewhere) std::memset(memory, 2, blocks * kBlock);
      meet();
      if (rank_here == reader) {
        const auto samples = read_blocks(memory, blocks, pause_us);
        const char* names[] = {"clean at home", "written by the home's ranks", "owned by a third domain"};
        char text[96];
        std::snprintf(text, sizeof text, "%s, %s", names[state], pause_us == 0 ? "back to back" : "1 ms apart, home asleep");
        char note[96];
        const double near = floors.fault_near + wire_polling;
        const double far = (pause_us == 0 ? floors.fault_far : floors.fault_isolated) + wire_asleep;
        std::snprintf(note, sizeof note, "x%.2f of the polling floor %.1f, x%.2f of the sleeping floor %.1f", median(samples) / near, near,
                      median(samples) / far, far);
        row(text, samples, note);
      }
      release(memory);
    }
  }
}

// --- stream -------------------------------------------------------------------------------------------------------------

double read_all(const char* memory, size_t bytes) {
  uint64_t sum = 0;
  const double begin = now_us();
  for (size_t at = 0; at < bytes; at += 64) sum += *reinterpret_cast<const volatile uint64_t*>(memory + at);
  const double elapsed = now_us() - begin;
  if (sum == 0x123456789abcdef) std::printf("\n");
  return static_cast<double>(bytes) / (1 << 20) / elapsed * 1e6;
}

void measure_stream() {
  const int reader = last_rank_of(0), home = first_rank_of(1);
  for (const bool immutable : {false, true}) {
    std::vector<double> rates;
    const size_t bytes = immutable ? size_t{128} << 20 : size_t{64} << 20;
    for (int turn = 0; turn < 5; turn++) {
      char* memory = allocate(bytes, immutable ? DSM_IMMUTABLE : DSM_COHERENT, home, immutable ? 65536 : kBlock);
      if (rank_here == home) {
        std::memset(memory, turn + 1, bytes);
        if (immutable) check(dsm_publish(memory), "dsm_publish");
      }
      meet();
      if (rank_here == reader) rates.push_back(read_all(memory, bytes));
      release(memory);
    }
    if (rank_here == reader)
      std::printf("  cold sequential read, %s: %.0f MiB/s (min %.0f, max %.0f)\n",
                  immutable ? "IMMUTABLE 64 KiB blocks" : "COHERENT 4 KiB blocks", median(rates), percentile(rates, 0),
                  percentile(rates, 1));
  }
  if (rank_here == reader)
    std::printf("  floor: bare UCX round trip with 64 KiB %.1f us = %.0f MiB/s one at a time\n", floors.wire_64k[tcp_index()],
                62500.0 / floors.wire_64k[tcp_index()]);
}

// --- warm ---------------------------------------------------------------------------------------------------------------

void measure_warm() {
  const int reader = last_rank_of(0), home = dsm_domains() > 1 ? first_rank_of(1) : 0;
  const size_t bytes = size_t{64} << 20;
  char* memory = allocate(bytes, DSM_COHERENT, home, kBlock);
  if (rank_here == home) std::memset(memory, 1, bytes);
  meet();
  if (rank_here == reader) {
    const farpage::perf::PlainMemory beside(bytes);
    for (const bool write_it : {false, true}) {
      if (write_it && dsm_domains() > 1) break;  // stores to read copies are upgrades, not warm memory
      // In turns, so that whatever else the machine does meets both.
      std::vector<double> ours, plain;
      for (int turn = 0; turn < 15; turn++) {
        const double rate = farpage::perf::walk_rate(memory, bytes, write_it);
        const double floor = farpage::perf::walk_rate(beside.data(), bytes, write_it);
        if (turn > 0) ours.push_back(rate / 1e6), plain.push_back(floor / 1e6);
      }
      std::printf("  warm %s: %.0f MB/s, plain memfd %.0f MB/s, ratio %.3f\n", write_it ? "stores" : "loads", median(ours), median(plain),
                  median(ours) / median(plain));
    }
  }
  release(memory);
}

// --- contend ------------------------------------------------------------------------------------------------------------

void measure_contend() {
  char* memory = allocate(kBlock, DSM_COHERENT, 0, kBlock);
  auto* words = reinterpret_cast<uint64_t*>(memory);
  const uint64_t grants = counter("grants"), wasted = counter("grants_wasted");
  meet();
  const double begin = now_us(), end = begin + 3e6;
  uint64_t adds = 0;
  while (now_us() < end)
    for (int i = 0; i < 256; i++) {
      std::atomic_ref<uint64_t>(words[rank_here]).fetch_add(1);
      adds++;
    }
  meet();
  std::vector<uint64_t> all(static_cast<size_t>(ranks));
  MPI_Gather(&adds, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  uint64_t mine[2] = {counter("grants") - grants, counter("grants_wasted") - wasted};
  if (rank_here != first_rank_of(dsm_domain())) mine[0] = mine[1] = 0;
  uint64_t sum[2] = {};
  MPI_Reduce(mine, sum, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank_here == 0) {
    uint64_t total = 0;
    for (const uint64_t a : all) total += a;
    std::printf("  %d ranks of %d domains, one block, 3 s: %.2f M adds/s; share of the fair one:", ranks, dsm_domains(),
                static_cast<double>(total) / 3e6);
    for (const uint64_t a : all) std::printf(" %.0f%%", 100.0 * static_cast<double>(a) * ranks / static_cast<double>(total));
    bool exact = true;
    for (int r = 0; r < ranks; r++) exact = exact && words[r] == all[static_cast<size_t>(r)];
    std::printf("; grants wasted %.1f%% of %lu; sums %s\n",
                sum[0] == 0 ? 0 : 100.0 * static_cast<double>(sum[1]) / static_cast<double>(sum[0]),
                static_cast<unsigned long>(sum[0]), exact ? "exact" : "WRONG");
  }
  release(memory);
}

// --- busy ---------------------------------------------------------------------------------------------------------------

void measure_busy() {
  const int reader = last_rank_of(0), home = first_rank_of(1);
  const size_t blocks = 509;
  char* memory = allocate(blocks * kBlock, DSM_COHERENT, home, kBlock);
  if (rank_here == home) std::memset(memory, 1, blocks * kBlock);
  meet();
  if (rank_here == home) {
    const double end = now_us() + 1e6;
    volatile double x = 1;
    while (now_us() < end)
      for (int i = 0; i < 1000; i++) x = x * 1.0000001;
  }
  if (rank_here == reader) row("read miss while the home's application computes for 1 s", read_blocks(memory, blocks, 1000));
  release(memory);
}

// --- idle ---------------------------------------------------------------------------------------------------------------

void measure_idle() {
  const auto cpu_us = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  for (const char* when : {"before traffic", "after traffic"}) {
    meet();
    const double begin = cpu_us();
    const timespec pause{10, 0};
    nanosleep(&pause, nullptr);
    const double share = (cpu_us() - begin) / 10e6 * 100;
    double most = 0;
    MPI_Reduce(&share, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank_here == 0) std::printf("  idle for 10 s, %s: at most %.2f %% of a core per rank\n", when, most);
    if (std::strcmp(when, "before traffic") == 0) {
      char* memory = allocate(size_t{16} << 20, DSM_COHERENT, ranks - 1, kBlock);
      (void)read_all(memory, size_t{16} << 20);
      release(memory);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_here);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct Figure {
    const char* name;
    void (*measure)();
    int domains;  // at least
  };
  const Figure figures[] = {{"miss", measure_miss, 2},       {"stream", measure_stream, 2}, {"warm", measure_warm, 1},
                            {"contend", measure_contend, 1}, {"busy", measure_busy, 2},     {"idle", measure_idle, 1}};
  std::vector<const Figure*> wanted;
  for (int i = 1; i < argc; i++) {
    bool known = false;
    for (const Figure& figure : figures) {
      if (std::strcmp(argv[i], figure.name) != 0 && std::strcmp(argv[i], "all") != 0) continue;
      wanted.push_back(&figure);
      known = true;
    }
    if (!known) {
      if (rank_here == 0) std::fprintf(stderr, "dsm-perf: unknown figure %s (miss stream warm contend busy idle all)\n", argv[i]);
      MPI_Finalize();
      return 2;
    }
  }
  if (wanted.empty()) {
    if (rank_here == 0) std::fprintf(stderr, "dsm-perf: name a figure: miss stream warm contend busy idle all\n");
    MPI_Finalize();
    return 2;
  }
  measure_floors();
  check(dsm_init(nullptr), "dsm_init");
  for (const Figure* figure : wanted) {
    if (dsm_domains() < figure->domains) {
      if (rank_here == 0) std::printf("%s: needs %d domains, there are %d (DSM_DOMAIN)\n", figure->name, figure->domains, dsm_domains());
      continue;
    }
    if (rank_here == 0) std::printf("%s\n", figure->name), std::fflush(stdout);
    meet();
    figure->measure();
    meet();
  }
  check(dsm_finalize(), "dsm_finalize");
  MPI_Finalize();
  return 0;
}
