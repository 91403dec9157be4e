// The region table and the segment it lies in, seen by two processes; a process that dies with the table's lock harms nobody.
#include "runtime/memory/region_table.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "remote_rank.hpp"

namespace farpage::memory {
namespace {

SegmentParameters parameters() { return {kTestWindowBytes, 64_KiB, 2, 77}; }

RegionDescriptor region_at(uint64_t run, uint64_t bytes) {
  RegionDescriptor region;
  region.offset = run * kRunBytes;
  region.bytes = bytes;
  region.generation = static_cast<uint32_t>(run);
  return region;
}

StateSegment new_segment() {
  auto segment = StateSegment::create(parameters());
  REQUIRE(segment.ok());
  return std::move(*segment);
}

/// Runs `body` in a child that has its own mapping of the segment; its exit code.
template <class Body>
int in_child(const StateSegment& segment, Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bind_to_parent();
    auto attached = StateSegment::attach(Fd(::dup(segment.fd())), parameters());
    ::_exit(attached.ok() ? body(*attached) : 99);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("region table: an address finds its region in any process, up to the end of the last run") {
  const StateSegment segment = new_segment();
  const RegionTable table(segment);
  CHECK(table.find(0) == nullptr);
  const auto inserted = table.insert(region_at(3, kRunBytes + 1));
  REQUIRE(inserted.ok());
  CHECK(inserted.value()->state == RegionState::Live);
  CHECK(in_child(segment, [](const StateSegment& own) {
          const RegionTable seen(own);
          const RegionDescriptor* region = seen.find(3 * kRunBytes + 17);
          if (region == nullptr || region->bytes != kRunBytes + 1) return 1;
          if (seen.find(5 * kRunBytes - 1) != region || seen.find(5 * kRunBytes) != nullptr || seen.find(3 * kRunBytes - 1) != nullptr) return 2;
          return seen.insert(region_at(7, 100)).ok() ? 0 : 3;
        }) == 0);
  REQUIRE(table.find(7 * kRunBytes) != nullptr);
  CHECK(table.find(7 * kRunBytes)->bytes == 100);
  CHECK(table.regions_in_use() == 2);
  CHECK(table.find(kTestWindowBytes) == nullptr);
  CHECK(table.find(UINT64_MAX) == nullptr);
}

TEST_CASE("region table: refuses a range that is taken, empty, off its place or outside, and leaves nothing behind") {
  const StateSegment segment = new_segment();
  const RegionTable table(segment);
  REQUIRE(table.insert(region_at(3, 2 * kRunBytes)).ok());
  CHECK(table.insert(region_at(2, 2 * kRunBytes)).status() == Status::InvalidArgument);
  CHECK(table.find(2 * kRunBytes) == nullptr);
  CHECK(table.insert(region_at(6, 0)).status() == Status::InvalidArgument);
  CHECK(table.insert(region_at(6, UINT64_MAX - kRunBytes)).status() == Status::InvalidArgument);
  CHECK(table.insert(region_at(kTestWindowBytes / kRunBytes - 1, kRunBytes + 1)).status() == Status::InvalidArgument);
  RegionDescriptor shifted = region_at(6, 100);
  shifted.offset += kPageBytes;
  CHECK(table.insert(shifted).status() == Status::InvalidArgument);
  CHECK(table.regions_in_use() == 1);
}

TEST_CASE("region table: an erased region is found by nobody, and its place and slot are used again") {
  const StateSegment segment = new_segment();
  const RegionTable table(segment);
  const auto first = table.insert(region_at(1, 3 * kRunBytes));
  REQUIRE(first.ok());
  table.erase(first.value());
  for (uint64_t run = 0; run < 6; run++) CHECK(table.find(run * kRunBytes) == nullptr);
  CHECK(table.regions_in_use() == 0);
  const auto second = table.insert(region_at(2, 100));
  REQUIRE(second.ok());
  CHECK(second.value() == first.value());
}

TEST_CASE("region table: a process that was killed with the lock does not stop the others") {
  const StateSegment segment = new_segment();
  CHECK(in_child(segment, [](const StateSegment& own) {
          own.header().region_lock.store(static_cast<uint32_t>(::getpid()));
          ::raise(SIGKILL);
          return 0;
        }) == 128 + SIGKILL);
  CHECK(segment.header().region_lock.load() != 0);
  const RegionTable table(segment);
  CHECK(table.insert(region_at(1, 100)).ok());
  CHECK(segment.header().region_lock.load() == 0);
}

TEST_CASE("region table: two processes that insert and erase at once lose no region") {
  const StateSegment segment = new_segment();
  const auto work = [](const StateSegment& own, uint64_t first_run) {
    const RegionTable table(own);
    for (int round = 0; round < 200; round++)
      for (uint64_t run = first_run; run < first_run + 40; run += 2) {
        const auto region = table.insert(region_at(run, 100 + run));
        if (!region.ok() || table.find(run * kRunBytes) != region.value() || region.value()->bytes != 100 + run) return 1;
        if (round != 199) table.erase(region.value());
      }
    return 0;
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bind_to_parent();
    auto own = StateSegment::attach(Fd(::dup(segment.fd())), parameters());
    ::_exit(own.ok() ? work(*own, 1) : 99);
  }
  CHECK(work(segment, 0) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(RegionTable(segment).regions_in_use() == 40);
}

TEST_CASE("state segment: areas do not overlap, and all but the header begin as zeros") {
  const SegmentLayout layout(parameters());
  for (uint32_t area = 0; area + 1 < static_cast<uint32_t>(Area::kCount); area++) {
    CHECK(layout.begin[area] % kPageBytes == 0);
    CHECK(layout.begin[area] + layout.bytes[area] <= layout.begin[area + 1]);
  }
  const StateSegment segment = new_segment();
  CHECK(segment.header().magic == kSegmentMagic);
  CHECK(segment.header().heartbeat.load() == 0);
  CHECK(segment.block_map(kTestWindowBytes / kPageBytes - 1).mapped == 0);
  CHECK(segment.presence()[0].load() == 0);
}

TEST_CASE("state segment: one of another version, job or size is refused") {
  const StateSegment segment = new_segment();
  SegmentParameters other = parameters();
  other.job_id++;
  CHECK(StateSegment::attach(Fd(::dup(segment.fd())), other).status() == Status::Mismatch);
  segment.header().version++;
  CHECK(StateSegment::attach(Fd(::dup(segment.fd())), parameters()).status() == Status::Mismatch);
}

TEST_CASE("state segment: zeroed parts read as zeros, their neighbours as before") {
  const StateSegment segment = new_segment();
  auto* bytes = static_cast<unsigned char*>(segment.area(Area::Directory));
  const uint64_t size = 6 * kPageBytes;
  for (const auto& [first, count] : {std::pair<uint64_t, uint64_t>{100, 50}, {kPageBytes - 8, 16}, {10, 4 * kPageBytes}, {kPageBytes, kPageBytes}}) {
    std::memset(bytes, 0xee, size);
    segment.zero(Area::Directory, first, count);
    bool right = true;
    for (uint64_t at = 0; at < size; at++) right = right && bytes[at] == (at >= first && at < first + count ? 0 : 0xee);
    CHECK(right);
  }
}

}  // namespace
}  // namespace farpage::memory
