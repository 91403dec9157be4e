// The whole engine in one process: domains as lanes over the loopback transport, real userfaultfd, threads as ranks. Messages are delayed
// and reordered by a seed. What sanitizers can see of the runtime they see here.
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/engine/call.hpp"
#include "runtime/engine/lane.hpp"
#include "runtime/memory/window.hpp"
#include "transport/faulty.hpp"
#include "transport/loopback.hpp"

namespace farpage::engine {
namespace {

constexpr uint64_t kWindowBytes = 1_GiB;
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kFirstBase = 0x40'0000'0000;  // what ThreadSanitizer leaves free is AddressSanitizer's shadow
#else
constexpr uint64_t kFirstBase = 0x2000'0000'0000;
#endif
constexpr WindowOffset kRegion = 2_MiB;

struct Domain {
  JobShape shape;
  Fd file, doorbell, faults;
  std::optional<memory::StateSegment> segment;
  std::optional<memory::RegionTable> regions;
  std::optional<memory::Window> window;
  std::unique_ptr<memory::PageTables> pages;
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Lane> lane;

  std::byte* at(WindowOffset offset) const { return window->at(offset); }
};

template <class T>
T must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.failure().message));
  return std::move(result).value();
}

class Cluster {
 public:
  Cluster(uint32_t domains, Options options, const transport::Mischief& mischief) : options_(std::move(options)) {
    auto transports = transport::make_loopback(domains);
    for (uint16_t d = 0; d < domains; d++) {
      Domain& domain = *domains_.emplace_back(std::make_unique<Domain>());
      domain.shape.rank = RankId{d};
      domain.shape.ranks = domain.shape.domains = domains;
      domain.shape.domain = AgentId{d};
      for (uint16_t r = 0; r < domains; r++) {
        domain.shape.domain_of.push_back(AgentId{r});
        domain.shape.slot_of.push_back(0);
        domain.shape.leader_of.push_back(RankId{r});
        domain.shape.host_of_domain.push_back(0);
      }
      const memory::WindowChoice choice{kFirstBase + d * 2 * kWindowBytes, kWindowBytes};
      domain.file = must(memory::create_window_file(kWindowBytes));
      domain.doorbell = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      domain.segment.emplace(must(memory::StateSegment::create({kWindowBytes, options_.cache_bytes, 1, 99})));
      domain.segment->header().home_bytes_limit = kWindowBytes;
      domain.regions.emplace(*domain.segment);
      domain.window.emplace(must(memory::Window::map(choice, domain.file.get())));
      domain.faults = must(memory::open_fault_descriptor(domain.window->base(), kWindowBytes));
      domain.pages = must(memory::make_uffd_page_tables(domain.file.get(), domain.window->base(), kWindowBytes));
      domain.pages->add_rank(0, Fd(::dup(domain.faults.get())));
      transport::Mischief seeded = mischief;
      seeded.seed += d;
      domain.transport = transport::make_faulty(std::move(transports[d]), seeded);
      const LaneContext context{options_,        domain.shape,           *domain.segment, *domain.regions,
                                *domain.pages,   domain.transport.get(), clock_,          kWindowBytes / 2 / domains / kRunBytes * kRunBytes};
      domain.lane = std::make_unique<Lane>(context, domain.doorbell.get(), std::vector<Lane::Member>{{0, -1}});
      REQUIRE(domain.lane->start().ok());
    }
  }
  ~Cluster() {
    for (auto& domain : domains_) domain->window->forbid();
    for (auto& domain : domains_) domain->lane->stop();
  }

  /// A region of rank 0's arena, known everywhere, chunks of 4 KiB at the ranks in turn.
  void add_region(uint64_t bytes) {
    memory::RegionDescriptor region;
    region.offset = kRegion;
    region.bytes = bytes;
    region.placement = memory::Placement::Interleave;
    region.interleave_bytes = 4096;
    region.ranks = static_cast<uint32_t>(domains_.size());
    region.state = memory::RegionState::Live;
    for (auto& domain : domains_) must(domain->regions->insert(region))->domain_set = (uint64_t{1} << domains_.size()) - 1;
  }

  Domain& operator[](size_t domain) { return *domains_[domain]; }
  size_t size() const { return domains_.size(); }
  uint64_t counter(Counter counter) const {
    uint64_t sum = 0;
    for (const auto& domain : domains_) sum += domain->segment->counters().get(counter);
    return sum;
  }

 private:
  Options options_;
  SteadyClock clock_;
  std::vector<std::unique_ptr<Domain>> domains_;
};

Options small_cache() {
  Options options;
  options.cache_bytes = 64_KiB;
  options.fault_timeout = 20'000;
  return options;
}

std::atomic_ref<uint64_t> word(const Domain& domain, uint64_t block, uint64_t index) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(domain.at(kRegion + block * 4096 + index * 8)));
}

// `threads` in each domain add to words all over `blocks` blocks; the sums must be exact.
void add_everywhere(Cluster& cluster, int threads, uint64_t blocks, int additions) {
  std::vector<std::thread> workers;
  for (size_t d = 0; d < cluster.size(); d++)
    for (int t = 0; t < threads; t++)
      workers.emplace_back([&, d, t] {
        uint64_t state = d * 100 + static_cast<uint64_t>(t) + 1;
        for (int i = 0; i < additions; i++) {
          state = state * 6364136223846793005ull + 1442695040888963407ull;
          word(cluster[d], state >> 33 & (blocks - 1), state >> 50 & 7).fetch_add(1);
        }
      });
  for (std::thread& worker : workers) worker.join();
  uint64_t sum = 0;
  for (uint64_t block = 0; block < blocks; block++)
    for (uint64_t index = 0; index < 8; index++) sum += word(cluster[0], block, index).load();
  CHECK(sum == cluster.size() * static_cast<uint64_t>(threads) * static_cast<uint64_t>(additions));
}

}  // namespace

TEST_CASE("engine: locked additions of 3 domains are exact with messages delayed and reordered") {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    INFO("seed " << seed);
    Cluster cluster(3, {}, {.seed = seed, .delay_percent = 30, .reorder = true, .sticky_payloads = true});
    cluster.add_region(64 * 4096);
    add_everywhere(cluster, 2, 16, 400);
    CHECK(cluster.counter(Counter::fetches) > 0);
  }
}

TEST_CASE("engine: nothing is lost when blocks are evicted all the time") {
  Cluster cluster(2, small_cache(), {.seed = 9, .delay_percent = 20, .reorder = true});
  cluster.add_region(256 * 4096);
  add_everywhere(cluster, 2, 128, 1500);
  CHECK(cluster.counter(Counter::evicted_dirty) > 0);
  CHECK(cluster.counter(Counter::evicted_clean) > 0);
}

TEST_CASE("engine: a message passed through two blocks is seen in order") {
  Cluster cluster(2, {}, {.seed = 4, .delay_percent = 30, .reorder = true});
  cluster.add_region(16 * 4096);
  constexpr uint64_t kRounds = 300;
  std::thread writer([&] {
    for (uint64_t round = 1; round <= kRounds; round++) {
      word(cluster[0], 2, 0).store(round * 10, std::memory_order_relaxed);
      word(cluster[0], 5, 0).store(round, std::memory_order_release);
      while (word(cluster[0], 7, 0).load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  uint64_t wrong = 0;
  for (uint64_t round = 1; round <= kRounds; round++) {
    while (word(cluster[1], 5, 0).load(std::memory_order_acquire) != round) std::this_thread::yield();
    wrong += word(cluster[1], 2, 0).load(std::memory_order_relaxed) != round * 10;
    word(cluster[1], 7, 0).store(round, std::memory_order_release);
  }
  writer.join();
  CHECK(wrong == 0);
}

TEST_CASE("engine: an unknown address is resolved by its owner, and calls find the end of a region") {
  Cluster cluster(2, {}, {.seed = 1});
  memory::RegionDescriptor region;
  region.offset = kRegion;
  region.bytes = 3 * 4096;
  region.ranks = 2;
  region.state = memory::RegionState::Live;
  must(cluster[0].regions->insert(region));
  word(cluster[0], 1, 3).store(4711);
  // Domain 1 has never heard of it: the fault asks, then fetches.
  CHECK(word(cluster[1], 1, 3).load() == 4711);
  CHECK(cluster[1].regions->find(kRegion) != nullptr);
  const CallPort port(*cluster[1].segment, cluster[1].doorbell.get(), 0);
  CHECK(port.call(CallOp::Resolve, kRegion + 8192, 0, 5000).ok());
  CHECK(port.call(CallOp::Resolve, 64_MiB, 0, 5000).status() == Status::OutOfRange);
  CHECK(port.call(CallOp::FreeRegion, kRegion, 0, 5000).ok());
  CHECK(cluster[0].regions->find(kRegion) == nullptr);
  CHECK(cluster[1].regions->find(kRegion) == nullptr);
  CHECK_FALSE(port.call(CallOp::FreeRegion, kRegion, 0, 5000).ok());
}

}  // namespace farpage::engine
