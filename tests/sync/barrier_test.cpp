// The barrier in one domain's shared state, with threads as its ranks and a node that only knows its shape: nobody leaves
// before all have come, the other domains are met once a round, and a missing rank or leader ends in a status that stays.
#include "runtime/sync/barrier.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

using namespace farpage;

namespace {

class RankNode : public engine::Node {
 public:
  RankNode(const memory::StateSegment& segment, uint32_t ranks, uint32_t domains, uint64_t timeout_ms) : segment_(segment) {
    options_.fault_timeout = timeout_ms;
    shape_.ranks_here = ranks;
    shape_.domains = domains;
  }
  std::atomic<int>* met = nullptr;
  Status others = Status::Ok;  // what the other domains answer

  const Options& options() const override { return options_; }
  const engine::JobShape& shape() const override { return shape_; }
  const memory::StateSegment& segment() const override { return segment_; }
  Result<> domain_barrier() override {
    if (met != nullptr) met->fetch_add(1);
    return others == Status::Ok ? success() : Result<>(error(others, "the other domains did not come"));
  }

  // The barrier asks for none of these.
  Result<> close() override { return none(); }
  const memory::Window& window() const override { return *window_; }
  const memory::RegionTable& regions() const override { return *regions_; }
  const memory::FaultMechanism& mechanism() const override { return *mechanism_; }
  int fault_descriptor() const override { return -1; }
  int leader_connection() const override { return -1; }
  int32_t leader_pid() const override { return 0; }
  memory::Range arena(RankId) const override { return {}; }
  RankId arena_owner(WindowOffset) const override { return {}; }
  Result<memory::RegionDescriptor*> resolve(WindowOffset) override { return none().failure(); }
  Result<memory::RegionDescriptor*> create_region(const memory::RegionDescriptor&) override { return none().failure(); }
  Result<> free_region(WindowOffset) override { return none(); }
  Result<> free_object(WindowOffset) override { return none(); }
  Result<> publish(WindowOffset) override { return none(); }
  Result<> prefetch(memory::Range) override { return none(); }
  std::vector<transport::PeerInfo> peers() const override { return {}; }
  std::string transport_text() const override { return {}; }

 private:
  static Result<> none() { return error(Status::Unsupported, "a node without memory"); }
  const memory::StateSegment& segment_;
  Options options_;
  engine::JobShape shape_;
  std::optional<memory::Window> window_;
  std::optional<memory::RegionTable> regions_;
  std::optional<memory::FaultMechanism> mechanism_;
};

memory::StateSegment make_segment(uint32_t ranks) {
  auto segment = memory::StateSegment::create({1_GiB, 1_MiB, ranks, 1});
  REQUIRE(segment.ok());
  return std::move(segment).value();
}

}  // namespace

TEST_CASE("barrier: nobody leaves a round before all have come, and the other domains are met once a round") {
  constexpr uint32_t kRanks = 5;
  constexpr int kRounds = 300;
  const memory::StateSegment segment = make_segment(kRanks);
  std::atomic<int> arrived[kRounds] = {}, early{0}, failed{0}, met{0};
  std::vector<std::thread> ranks;
  for (uint32_t r = 0; r < kRanks; r++)
    ranks.emplace_back([&] {
      RankNode node(segment, kRanks, 3, 20000);
      node.met = &met;
      for (int round = 0; round < kRounds; round++) {
        arrived[round].fetch_add(1);
        if (!sync::barrier(node).ok()) failed++;
        if (arrived[round].load() != static_cast<int>(kRanks)) early++;
      }
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(early == 0);
  CHECK(failed == 0);
  CHECK(met == kRounds);
}

TEST_CASE("barrier: alone in the job it returns at once and meets nobody") {
  const memory::StateSegment segment = make_segment(1);
  std::atomic<int> met{0};
  RankNode node(segment, 1, 1, 20000);
  node.met = &met;
  CHECK(sync::barrier(node).ok());
  CHECK(sync::barrier(node).ok());
  CHECK(met == 0);
}

TEST_CASE("barrier: a rank that does not come ends it in TimedOut, for whoever comes later too") {
  const memory::StateSegment segment = make_segment(2);
  RankNode first(segment, 2, 1, 30), late(segment, 2, 1, 30);
  CHECK(sync::barrier(first).status() == Status::TimedOut);
  CHECK(sync::barrier(late).status() == Status::TimedOut);
  CHECK(sync::barrier(first).status() == Status::TimedOut);
}

TEST_CASE("barrier: a leader that has ended is told as PeerLost, before the deadline") {
  const memory::StateSegment segment = make_segment(2);
  segment.header().lane_ended.store(2);
  RankNode node(segment, 2, 1, 3'600'000);
  CHECK(sync::barrier(node).status() == Status::PeerLost);
  CHECK(sync::barrier(node).status() == Status::PeerLost);
}

TEST_CASE("barrier: what the other domains answer reaches every rank of this one") {
  const memory::StateSegment segment = make_segment(2);
  Status of_other = Status::Ok;
  std::thread other([&] {
    RankNode node(segment, 2, 2, 20000);
    node.others = Status::TimedOut;
    of_other = sync::barrier(node).status();
  });
  RankNode node(segment, 2, 2, 20000);
  node.others = Status::TimedOut;
  CHECK(sync::barrier(node).status() == Status::TimedOut);
  other.join();
  CHECK(of_other == Status::TimedOut);
}
