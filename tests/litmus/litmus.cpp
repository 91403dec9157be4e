// Litmus programs on real processes: small races on COHERENT memory whose outcomes x86-TSO allows or forbids. Every claim of
// docs/memory-model.md about plain loads and stores names one of these.
//
//   DSM_DOMAIN=rank mpirun -np 4 litmus [--rounds N] [--program NAME] [--place same|two|edge] [--pressure] [--expect-forbidden]
//
// Variables rotate through 32 cache lines and values carry the round, so nothing has to be reset. Results and the rounds'
// barrier live in an MPI shared window, outside the memory under test. Consecutive roles of a program lie in different domains
// where there are several; ranks without a role sleep. A round is racy when the accesses of two roles overlap in time.
// Exit 0: no forbidden outcome, and at least 100 racy rounds (a twentieth of the rounds when there are fewer than 2,000).
// --expect-forbidden turns the verdict round (for a library with a planted mistake).
#include <farpage/dsm.h>
#include <immintrin.h>
#include <mpi.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

enum Program { kSB, kSBFence, kSBXchg, kMP, kLB, kCoRR, kCoWW, k2W, kIRIW, kWRC, kPrograms };
constexpr const char* kNames[] = {"SB", "SB+mfence", "SB+xchg", "MP", "LB", "CoRR", "CoWW", "2+2W", "IRIW", "WRC"};
enum Place { kSame, kTwo, kEdge, kPlaces };
constexpr int kRoles[] = {2, 2, 2, 3, 2, 4, 4, 2, 4, 3};
constexpr const char* kPlaceNames[] = {"same", "two", "edge"};
constexpr size_t kBlock = 4096;
constexpr int kMaxRounds = 200000;
constexpr int kBatch = 4096;  // rounds whose results are kept

struct Shared {
  std::atomic<int> arrived, generation, stop_at;
  uint64_t result[kBatch][8];
  uint64_t begin_ns[kBatch][4], end_ns[kBatch][4];  // of each role's accesses
};

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

struct World {
  int rank, size;
  int role, roles;  // of the program at hand; role >= roles: none
  Shared* shared;
  char* base;      // the blocks under test
  char* pressure;  // blocks that push others out
  uint64_t seed;

  uint64_t random() {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
  }
  void spin_a_little() {
    const int turns = random() % 8 ? static_cast<int>(random() % 32) : static_cast<int>(random() % 2000);
    for (int i = 0; i < turns; i++) asm volatile("");
  }
  void barrier() {
    const int generation = shared->generation.load();
    if (shared->arrived.fetch_add(1) + 1 == roles) {
      shared->arrived = 0;
      shared->generation.fetch_add(1);
      return;
    }
    for (int turn = 0; shared->generation.load() == generation; turn++) turn < 200 ? _mm_pause() : (void)sched_yield();
  }
};

// Accesses of the edge variant are locked instructions over two blocks: plain ones are not atomic there, on any machine.
struct Access {
  bool locked;
  uint64_t load(char* at) const {
    auto* word = reinterpret_cast<volatile uint64_t*>(at);
    if (!locked) return *word;
    uint64_t zero = 0;
    asm volatile("lock xaddq %0, %1" : "+r"(zero), "+m"(*word) : : "memory");
    return zero;
  }
  void store(char* at, uint64_t value) const {
    auto* word = reinterpret_cast<volatile uint64_t*>(at);
    if (locked)
      asm volatile("xchgq %0, %1" : "+r"(value), "+m"(*word) : : "memory");
    else
      *word = value;
  }
};

void run_round(World& w, Program program, Place place, bool pressure, int round) {
  const size_t line = static_cast<size_t>(round % 32) * 64;
  char *x, *y;
  switch (place) {
    case kSame: x = w.base + line, y = w.base + kBlock / 2 + line; break;
    case kTwo: x = w.base + line, y = w.base + kBlock + kBlock / 2 + line; break;
    default:  // each variable lies over the edge of two blocks; eight pairs of blocks
      x = w.base + (2 * (round % 8) + 1) * kBlock - 4, y = w.base + (16 + 2 * (round % 8) + 1) * kBlock - 4;
  }
  const Access m{place == kEdge};
  const uint64_t v = static_cast<uint64_t>(round) * 4;
  uint64_t* out = w.shared->result[round % kBatch];
  const auto fresh = [v](uint64_t got) { return got >= v ? got - v : 0; };
  if (w.role == 0) std::memset(out, 0, sizeof w.shared->result[0]);
  const uint64_t e = w.random();
  if (e & 1) (void)m.load(x);
  if (e & 2) (void)m.load(y);
  if (pressure)
    for (int i = 0; i < 6; i++) {
      char* other = w.pressure + (e >> (8 + 5 * i)) % 24 * kBlock;
      (void)*reinterpret_cast<volatile uint64_t*>(other);
      if (i % 2) *reinterpret_cast<volatile uint64_t*>(other + 8 * (1 + w.role)) = e;
    }
  w.barrier();
  w.spin_a_little();
  uint64_t a, b;
  w.shared->begin_ns[round % kBatch][w.role] = now_ns();
  switch (program * 4 + w.role) {
    case kSB * 4 + 0: m.store(x, v + 1); a = m.load(y); out[0] = fresh(a); break;
    case kSB * 4 + 1: m.store(y, v + 1); a = m.load(x); out[1] = fresh(a); break;
    case kSBFence * 4 + 0: m.store(x, v + 1); _mm_mfence(); a = m.load(y); out[0] = fresh(a); break;
    case kSBFence * 4 + 1: m.store(y, v + 1); _mm_mfence(); a = m.load(x); out[1] = fresh(a); break;
    case kSBXchg * 4 + 0: Access{true}.store(x, v + 1); a = m.load(y); out[0] = fresh(a); break;
    case kSBXchg * 4 + 1: Access{true}.store(y, v + 1); a = m.load(x); out[1] = fresh(a); break;
    case kMP * 4 + 0: m.store(x, v + 1); m.store(y, v + 1); break;
    case kMP * 4 + 1:
    case kMP * 4 + 2:
      a = m.load(y); b = m.load(x);
      out[w.role * 2] = fresh(a), out[w.role * 2 + 1] = fresh(b);
      break;
    case kLB * 4 + 0: a = m.load(x); m.store(y, v + 1); out[0] = fresh(a); break;
    case kLB * 4 + 1: a = m.load(y); m.store(x, v + 1); out[1] = fresh(a); break;
    case kCoRR * 4 + 0: m.store(x, v + 1); break;
    case kCoWW * 4 + 0: m.store(x, v + 1); m.store(x, v + 2); break;
    case kCoRR * 4 + 1:
    case kCoRR * 4 + 2:
    case kCoRR * 4 + 3:
    case kCoWW * 4 + 1:
    case kCoWW * 4 + 2:
    case kCoWW * 4 + 3:
      a = m.load(x); w.spin_a_little(); b = m.load(x);
      out[w.role * 2] = fresh(a), out[w.role * 2 + 1] = fresh(b);
      break;
    case k2W * 4 + 0: m.store(x, v + 1); m.store(y, v + 2); break;
    case k2W * 4 + 1: m.store(y, v + 1); m.store(x, v + 2); break;
    case kIRIW * 4 + 0: m.store(x, v + 1); break;
    case kIRIW * 4 + 1: m.store(y, v + 1); break;
    case kIRIW * 4 + 2: a = m.load(x); b = m.load(y); out[0] = fresh(a), out[1] = fresh(b); break;
    case kIRIW * 4 + 3: a = m.load(y); b = m.load(x); out[2] = fresh(a), out[3] = fresh(b); break;
    case kWRC * 4 + 0: m.store(x, v + 1); break;
    case kWRC * 4 + 1: a = m.load(x); m.store(y, v + 1); out[0] = fresh(a); break;
    case kWRC * 4 + 2: a = m.load(y); b = m.load(x); out[1] = fresh(a), out[2] = fresh(b); break;
    default: break;
  }
  w.shared->end_ns[round % kBatch][w.role] = now_ns();
  w.barrier();
  if (program == k2W) {  // the final state is the outcome
    if (w.role == 0) out[0] = fresh(m.load(x)), out[1] = fresh(m.load(y));
    w.barrier();
  }
}

struct Verdict {
  long forbidden = 0, racy = 0, weak = 0;
};

void judge(Program program, const Shared& shared, int round, Verdict& verdict) {
  const uint64_t* o = shared.result[round % kBatch];
  // Saw the newer first, then the older.
  const auto back = [o](int a, int b) { return o[a] > o[b]; };
  switch (program) {
    case kSB: verdict.weak += !o[0] && !o[1]; break;
    case kSBFence:
    case kSBXchg: verdict.forbidden += !o[0] && !o[1]; break;
    case kMP: verdict.forbidden += (o[2] && !o[3]) + (o[4] && !o[5]); break;
    case kLB: verdict.forbidden += o[0] && o[1]; break;
    case kCoRR:
    case kCoWW: verdict.forbidden += back(2, 3) + back(4, 5) + back(6, 7); break;
    case k2W: verdict.forbidden += o[0] == 1 && o[1] == 1; break;
    case kIRIW: verdict.forbidden += o[0] && !o[1] && o[2] && !o[3]; break;
    case kWRC: verdict.forbidden += o[0] && o[1] && !o[2]; break;
    case kPrograms: break;
  }
  const uint64_t *begin = shared.begin_ns[round % kBatch], *end = shared.end_ns[round % kBatch];
  bool overlap = false;
  for (int i = 0; i < kRoles[program]; i++)
    for (int j = 0; j < i; j++) overlap = overlap || (begin[i] < end[j] && begin[j] < end[i]);
  verdict.racy += overlap;
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "litmus: %s: %s\n", what, dsm_last_error());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

void* allocate_interleaved(size_t bytes) {
  dsm_alloc_params_t params = DSM_ALLOC_INIT;
  params.bytes = bytes;
  params.placement = DSM_PLACE_INTERLEAVE;
  params.interleave_bytes = kBlock;
  params.block_bytes = kBlock;
  void* memory = nullptr;
  if (dsm_alloc(&params, &memory) != DSM_OK) die("dsm_alloc");
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World w{};
  MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &w.size);
  int rounds = 2000, only_program = -1, only_place = -1;
  bool pressure = false, expect_forbidden = false;
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    const auto pick = [&](const char* const* names, int count) {
      for (int k = 0; i + 1 < argc && k < count; k++)
        if (std::strcmp(argv[i + 1], names[k]) == 0) return i++, k;
      std::fprintf(stderr, "litmus: %s: unknown value\n", option.c_str());
      std::exit(2);
    };
    if (option == "--rounds" && i + 1 < argc)
      rounds = std::atoi(argv[++i]);
    else if (option == "--program")
      only_program = pick(kNames, kPrograms);
    else if (option == "--place")
      only_place = pick(kPlaceNames, kPlaces);
    else if (option == "--pressure")
      pressure = true;
    else if (option == "--expect-forbidden")
      expect_forbidden = true;
    else {
      std::fprintf(stderr, "litmus: unknown option %s\n", option.c_str());
      return 2;
    }
  }
  if (w.size != 4 || rounds < 1 || rounds > kMaxRounds) {
    std::fprintf(stderr, "litmus: needs 4 ranks and 1 to %d rounds\n", kMaxRounds);
    return 2;
  }
  MPI_Win window;
  void* mine = nullptr;
  MPI_Win_allocate_shared(w.rank == 0 ? sizeof(Shared) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
  MPI_Aint bytes;
  int unit;
  MPI_Win_shared_query(window, 0, &bytes, &unit, &w.shared);
  if (w.rank == 0) std::memset(static_cast<void*>(w.shared), 0, sizeof *w.shared);
  if (dsm_init(nullptr) != DSM_OK) die("dsm_init");
  uint64_t pointers[2] = {};
  if (w.rank == 0) {
    pointers[0] = reinterpret_cast<uint64_t>(allocate_interleaved(64 * kBlock));
    pointers[1] = reinterpret_cast<uint64_t>(allocate_interleaved(24 * kBlock));
  }
  MPI_Bcast(pointers, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  w.base = reinterpret_cast<char*>(pointers[0]);
  w.pressure = reinterpret_cast<char*>(pointers[1]);
  // Roles go round the domains: first the first rank of each, then the second of each.
  int role = 0;
  const auto place_in_domain = [&](int rank) {
    int before = 0;
    for (int r = 0; r < rank; r++) before += dsm_domain_of(r) == dsm_domain_of(rank);
    return before;
  };
  for (int r = 0; r < w.size; r++) {
    const int there = place_in_domain(r), here = place_in_domain(w.rank);
    role += there < here || (there == here && r < w.rank);
  }
  w.role = role;
  if (dsm_domains() == 1) {  // no misses slow the ranks down: they overlap only when they run at the same time
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(static_cast<size_t>(role % 2), &core);
    (void)sched_setaffinity(0, sizeof core, &core);  // refused where there is one core: fewer races, no harm
  }
  int failures = 0;
  long found = 0;
  int base_round = 1;
  for (int p = 0; p < kPrograms; p++) {
    if (only_program >= 0 && p != only_program) continue;
    for (int place = 0; place < kPlaces; place++) {
      if (only_place >= 0 && place != only_place) continue;
      w.seed = 88172645463325252ull ^ static_cast<uint64_t>(w.rank + 1) * 0x9e3779b97f4a7c15ull ^ static_cast<uint64_t>(p * 16 + place);
      Verdict verdict;
      const double begin = MPI_Wtime();
      w.roles = kRoles[p];
      if (dsm_barrier() != DSM_OK) die("dsm_barrier");
      // Where races are rare, in one domain, there are up to 100 times more rounds, until 100 were racy.
      const long wanted = std::min(100, rounds / 20);
      const int most = std::min(rounds * 100, kMaxRounds);
      if (w.role == 0) w.shared->stop_at = most;
      if (dsm_barrier() != DSM_OK) die("dsm_barrier");
      int done = 0;
      for (; w.role < w.roles && done < w.shared->stop_at.load(); done++) {
        run_round(w, static_cast<Program>(p), static_cast<Place>(place), pressure, base_round + done);
        if (w.role != 0) continue;
        judge(static_cast<Program>(p), *w.shared, base_round + done, verdict);
        // The others are at most in the next round, which they cannot finish without this rank.
        if (done + 1 >= rounds && verdict.racy >= wanted && w.shared->stop_at.load() == most) w.shared->stop_at = done + 2;
      }
      base_round += most;
      if (dsm_barrier() != DSM_OK) die("dsm_barrier");
      if (w.role == 0) {
        // The locked accesses of the edge variant are sequentially consistent: no weak outcome is left to be seen.
        if (place == kEdge && p == kSB) verdict.forbidden += verdict.weak;
        const bool enough = verdict.racy >= wanted;
        std::printf("%-10s %-5s %s rounds %d forbidden %ld racy %ld weak %ld  %.1f s%s\n", kNames[p], kPlaceNames[place],
                    pressure ? "pressure" : "free    ", done, verdict.forbidden, verdict.racy, verdict.weak, MPI_Wtime() - begin,
                    verdict.forbidden ? "  FORBIDDEN" : enough ? "" : "  TOO FEW RACES");
        std::fflush(stdout);
        failures += verdict.forbidden != 0 || !enough;
        found += verdict.forbidden;
      }
    }
  }
  if (w.role == 0) std::printf("litmus: %s\n", failures == 0 ? "ok" : "failed");
  int exit_code = expect_forbidden ? (found > 0 ? 0 : 1) : (failures == 0 ? 0 : 1);
  MPI_Bcast(&exit_code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (dsm_finalize() != DSM_OK) die("dsm_finalize");
  MPI_Win_free(&window);
  MPI_Finalize();
  return exit_code;
}
