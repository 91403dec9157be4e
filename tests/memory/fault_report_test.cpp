// What becomes of an access that cannot be served: a status for copies made by a call, a line and the signal for the rest.
#include "runtime/memory/fault_report.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "remote_rank.hpp"
#include "runtime/memory/poison_log.hpp"
#include "runtime/memory/region_table.hpp"

namespace farpage::memory {
namespace {

constexpr Range kBlock{2 * kRunBytes, 4 * kPageBytes};

Status status_of(const std::optional<Answer>& answer) {
  REQUIRE(answer.has_value());
  CHECK(answer->signal == 0);
  return static_cast<Status>(answer->error);
}

void poison(TestDomain& domain, RankSlot rank, Range range, Status status, const char* reason) {
  log_poison(domain.segment(), rank, range, status, reason);
  domain.pages().poison(rank, range);
}

TEST_CASE("guarded copy: the bytes and Ok where the memory is there") {
  TestDomain domain(1);
  domain.pages().fill_zeros(kBlock);
  domain.pages().map(1, kBlock, Access::Write);
  CHECK(status_of(domain.call(1, Op::GuardedStore, kBlock.offset, 17)) == Status::Ok);
  const auto copied = domain.call(1, Op::GuardedCopy, kBlock.offset);
  CHECK(status_of(copied) == Status::Ok);
  CHECK(copied->value == 17);
}

TEST_CASE("guarded copy: poison becomes the status that the lane wrote down, as source and as destination") {
  TestDomain domain(1);
  int which = 0;
  for (const Status status : {Status::Freed, Status::TimedOut, Status::PeerLost, Status::OutOfRange}) {
    const Range block{kBlock.offset + static_cast<uint64_t>(which++) * kBlock.bytes, kBlock.bytes};
    poison(domain, 1, block, status, "for a test");
    CHECK(status_of(domain.call(1, Op::GuardedCopy, block.offset + kPageBytes)) == status);
    CHECK(status_of(domain.call(1, Op::GuardedStore, block.offset + kPageBytes, 1)) == status);
  }
  // The rank lives, and an access outside a guard is a signal again.
  const auto plain = domain.call(1, Op::Load, kBlock.offset);
  REQUIRE(plain.has_value());
  CHECK(plain->signal == SIGBUS);
}

TEST_CASE("guarded copy: a copy that waits when the block is poisoned returns") {
  TestDomain domain(1);
  domain.ask(1, Op::GuardedCopy, kBlock.offset);
  REQUIRE(domain.fault(1).has_value());
  poison(domain, 1, kBlock, Status::TimedOut, "for a test");
  CHECK(status_of(domain.answer(1)) == Status::TimedOut);
}

RegionDescriptor region_of(WindowOffset offset) {
  RegionDescriptor region;
  region.offset = offset;
  region.bytes = 5 * kPageBytes + 100;
  region.block_shift = 13;
  region.placement = Placement::AtRank;
  region.home_rank = 6;
  return region;
}

TEST_CASE("fault report: the line names rank, address, region, block, home and cause, and the process ends by SIGBUS") {
  TestDomain domain(1);
  REQUIRE(RegionTable(domain.segment()).insert(region_of(kBlock.offset)).ok());
  poison(domain, 1, kBlock, Status::Freed, "an older reason");
  poison(domain, 1, kBlock, Status::TimedOut, "no answer from the block's home");
  const WindowOffset at = kBlock.offset + 3 * kPageBytes + 8;
  domain.ask(1, Op::LoadReported, at);
  const int status = domain.wait_end(1);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  CHECK(domain.messages(1) == fmt::format("farpage: rank 1: access to 0x{:x}: region 0x{:x} + {} of {} bytes, block 1, home rank 6: "
                                          "no answer from the block's home\n",
                                          domain.window().base + at, domain.window().base + kBlock.offset, at - kBlock.offset,
                                          5 * kPageBytes + 100));
}

TEST_CASE("fault report: an address without a region is said to have none") {
  TestDomain domain(1);
  poison(domain, 1, kBlock, Status::OutOfRange, "no region there");
  domain.ask(1, Op::LoadReported, kBlock.offset);
  const int status = domain.wait_end(1);
  CHECK(WIFSIGNALED(status));
  CHECK(domain.messages(1) == fmt::format("farpage: rank 1: access to 0x{:x}: no region there\n", domain.window().base + kBlock.offset));
}

TEST_CASE("poison log: the newest record of the rank that covers the address, until the ring has gone round") {
  TestDomain domain(0);
  const StateSegment& segment = domain.segment();
  PoisonReason reason{};
  CHECK_FALSE(find_poison(segment, 1, kBlock.offset, reason));
  log_poison(segment, 1, kBlock, Status::Freed, "first");
  log_poison(segment, 2, kBlock, Status::TimedOut, "of another rank");
  log_poison(segment, 1, {kBlock.offset + kPageBytes, kPageBytes}, Status::PeerLost, "second");
  REQUIRE(find_poison(segment, 1, kBlock.offset + kPageBytes, reason));
  CHECK(std::string(reason.text) == "second");
  CHECK(reason.status == Status::PeerLost);
  REQUIRE(find_poison(segment, 1, kBlock.offset + kBlock.bytes - 1, reason));
  CHECK(std::string(reason.text) == "first");
  CHECK_FALSE(find_poison(segment, 1, kBlock.offset + kBlock.bytes, reason));
  CHECK_FALSE(find_poison(segment, 1, kBlock.offset - 1, reason));
  log_poison(segment, 1, kBlock, Status::Freed, std::string(400, 'x').c_str());
  REQUIRE(find_poison(segment, 1, kBlock.offset, reason));
  CHECK(std::string(reason.text).size() == sizeof reason.text - 1);
  for (uint32_t i = 0; i < kPoisonRecords; i++) log_poison(segment, 3, {0, kPageBytes}, Status::Freed, "later");
  CHECK_FALSE(find_poison(segment, 1, kBlock.offset, reason));
}

}  // namespace
}  // namespace farpage::memory
