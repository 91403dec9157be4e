// What the lane does to the page tables of its ranks, on real userfaultfds of real processes: each row of the kernel's answers
// that the order of operations depends on.
#include "runtime/memory/page_tables.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "remote_rank.hpp"

namespace farpage::memory {
namespace {

constexpr Range page(uint64_t number) { return {number * kPageBytes, kPageBytes}; }
constexpr Range pages(uint64_t first, uint64_t count) { return {first * kPageBytes, count * kPageBytes}; }

/// Four pages; page p holds the word 100 + p at its begin.
struct alignas(kPageBytes) Block {
  Block() {
    for (uint64_t p = 0; p < 4; p++) std::memcpy(bytes.data() + p * kPageBytes, std::array{100 + p}.data(), 8);
  }
  std::array<std::byte, 4 * kPageBytes> bytes{};
};

uint64_t in_file(TestDomain& domain, WindowOffset at) {
  uint64_t word = 0;
  REQUIRE(::pread(domain.file(), &word, sizeof word, static_cast<off_t>(at)) == sizeof word);
  return word;
}

#define CHECK_VALUE(answer_of, expected)      \
  do {                                        \
    const auto got = (answer_of);             \
    REQUIRE(got.has_value());                 \
    CHECK(got->signal == 0);                  \
    CHECK(got->value == (expected));          \
  } while (0)
#define CHECK_SIGNAL(answer_of, expected)     \
  do {                                        \
    const auto got = (answer_of);             \
    REQUIRE(got.has_value());                 \
    CHECK(got->signal == (expected));         \
  } while (0)

/// The rank stores without asking anybody.
void check_stores_freely(TestDomain& domain, RankSlot rank, WindowOffset at, uint64_t value) {
  domain.ask(rank, Op::Store, at, value);
  REQUIRE_FALSE(domain.fault_or_answer(rank));
  CHECK_VALUE(domain.answer(rank), 0);
  CHECK(in_file(domain, at) == value);
}
/// The rank's store raises a write-protection fault and waits.
PageFault check_store_waits(TestDomain& domain, RankSlot rank, WindowOffset at, uint64_t value) {
  domain.ask(rank, Op::Store, at, value);
  const auto fault = domain.fault(rank);
  REQUIRE(fault.has_value());
  CHECK(fault->write);
  CHECK(fault->write_protect);
  CHECK_FALSE(domain.answered(rank));
  return *fault;
}
void check_load_waits(TestDomain& domain, RankSlot rank, WindowOffset at) {
  domain.ask(rank, Op::Load, at);
  const auto fault = domain.fault(rank);
  REQUIRE(fault.has_value());
  CHECK_FALSE(fault->write);
  CHECK(fault->offset / kPageBytes == at / kPageBytes);
}

TEST_CASE("page tables: a fault names rank, thread, page and kind of access") {
  TestDomain domain(2);
  domain.ask(2, Op::Load, 5 * kPageBytes + 16);
  auto fault = domain.fault(2);
  REQUIRE(fault.has_value());
  CHECK(fault->rank == 2);
  CHECK(fault->thread == static_cast<uint32_t>(domain.pid(2)));
  CHECK(fault->offset / kPageBytes == 5);
  CHECK_FALSE(fault->write);
  CHECK_FALSE(fault->minor);
  domain.ask(1, Op::Store, 6 * kPageBytes, 1);
  fault = domain.fault(1);
  REQUIRE(fault.has_value());
  CHECK(fault->rank == 1);
  CHECK(fault->write);
  CHECK_FALSE(fault->write_protect);
}

TEST_CASE("page tables: reading faults never waits") {
  TestDomain domain(1);
  PageFault none[4];
  CHECK(domain.pages().read_faults(1, none) == 0);
}

TEST_CASE("page tables: a page mapped to read is loaded freely and stored after allow_write") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.ask(1, Op::Load, page(1).offset);
  const auto fault = domain.fault(1);
  REQUIRE(fault.has_value());
  CHECK(fault->minor);
  domain.pages().map(1, pages(0, 4), Access::Read);
  CHECK_VALUE(domain.answer(1), 101);
  CHECK_VALUE(domain.call(1, Op::Load, page(3).offset), 103);
  check_store_waits(domain, 1, page(3).offset, 7);
  domain.pages().allow_write(1, pages(0, 4));
  CHECK_VALUE(domain.answer(1), 0);
  CHECK(in_file(domain, page(3).offset) == 7);
  check_stores_freely(domain, 1, page(0).offset, 8);
}

TEST_CASE("page tables: install for a reader gives a read copy, for a writer a writable block") {
  TestDomain domain(2);
  const Block block;
  check_load_waits(domain, 1, page(2).offset);
  domain.pages().install(1, pages(0, 4), block.bytes.data(), Access::Read);
  CHECK_VALUE(domain.answer(1), 102);
  check_store_waits(domain, 1, page(2).offset, 9);
  domain.pages().allow_write(1, pages(0, 4));
  CHECK_VALUE(domain.answer(1), 0);

  domain.ask(2, Op::Store, page(9).offset, 55);
  REQUIRE(domain.fault(2).has_value());
  domain.pages().install(2, pages(8, 4), block.bytes.data(), Access::Write);
  CHECK_VALUE(domain.answer(2), 0);
  CHECK(in_file(domain, page(9).offset) == 55);
  check_stores_freely(domain, 2, page(8).offset, 56);
  CHECK(std::memcmp(domain.pages().view(page(11).offset), block.bytes.data() + 3 * kPageBytes, 8) == 0);
}

// MADV_POPULATE, a fork child or an unfinished fill leave pages in the file of a block that is absent by the lane's table.
TEST_CASE("page tables: install over a page that is in the file already delivers the bytes and loses no store") {
  TestDomain domain(1);
  const Block block;
  for (int round = 0; round < 100; round++) {
    for (const uint64_t stray : {0, 2}) {
      const uint64_t zero = 0;
      domain.pages().punch(pages(0, 4));
      REQUIRE(::pwrite(domain.file(), &zero, sizeof zero, static_cast<off_t>(page(stray).offset)) == sizeof zero);
      domain.ask(1, Op::Store, page(1).offset, 77);  // woken as soon as its page is there, whatever is left to do
      REQUIRE(domain.fault(1).has_value());
      domain.pages().install(1, pages(0, 4), block.bytes.data(), Access::Write);
      CHECK_VALUE(domain.answer(1), 0);
      REQUIRE(in_file(domain, page(1).offset) == 77);
      REQUIRE(in_file(domain, page(2).offset) == 102);
      check_stores_freely(domain, 1, page(3).offset, 5);
    }
  }
}

TEST_CASE("page tables: mapping a block of which a page is mapped already makes all of it writable and wakes") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, page(1), Access::Read);
  check_store_waits(domain, 1, page(1).offset, 3);
  domain.pages().map(1, pages(0, 4), Access::Write);  // page 1 answers EEXIST, and its waiter is woken by nobody else
  CHECK_VALUE(domain.answer(1), 0);
  for (uint64_t p = 0; p < 4; p++) check_stores_freely(domain, 1, page(p).offset, 200 + p);
}

TEST_CASE("page tables: mapping to read leaves a writable page writable") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, page(2), Access::Write);
  domain.pages().map(1, pages(0, 4), Access::Read);
  check_stores_freely(domain, 1, page(2).offset, 4);
  check_store_waits(domain, 1, page(3).offset, 4);
}

TEST_CASE("page tables: freeze takes the right to write from the ranks in the mask alone") {
  TestDomain domain(3);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  for (RankSlot rank = 1; rank <= 3; rank++) domain.pages().map(rank, pages(0, 4), Access::Write);
  domain.pages().freeze(uint64_t{1} << 1 | uint64_t{1} << 3, pages(0, 4));
  check_stores_freely(domain, 2, page(1).offset, 12);
  check_store_waits(domain, 1, page(1).offset, 11);
  check_store_waits(domain, 3, page(2).offset, 13);
  CHECK(in_file(domain, page(1).offset) == 12);
  domain.pages().allow_write(1, pages(0, 4));
  CHECK_VALUE(domain.answer(1), 0);
  CHECK(in_file(domain, page(1).offset) == 11);
  CHECK_FALSE(domain.answered(3));
  domain.pages().allow_write(3, pages(0, 4));
  CHECK_VALUE(domain.answer(3), 0);
}

TEST_CASE("page tables: a punch withdraws the block from every rank, writable or not, and drops its bytes") {
  TestDomain domain(2);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Write);
  domain.pages().map(2, pages(0, 4), Access::Read);
  domain.pages().punch(pages(0, 4));
  CHECK(in_file(domain, page(1).offset) == 0);
  check_load_waits(domain, 1, page(1).offset);
  check_load_waits(domain, 2, page(1).offset);
  // The read copy left a marker: both ways of filling go over it.
  domain.pages().install(2, pages(0, 4), block.bytes.data(), Access::Write);
  CHECK_VALUE(domain.answer(2), 101);
  check_stores_freely(domain, 2, page(1).offset, 1);
  domain.pages().map(1, pages(0, 4), Access::Read);
  CHECK_VALUE(domain.answer(1), 1);
}

TEST_CASE("page tables: a punched read copy that is mapped to write is writable") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Read);
  domain.pages().punch(pages(0, 4));
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Write);
  check_stores_freely(domain, 1, page(0).offset, 6);
}

TEST_CASE("page tables: a store that waits on a read copy that is withdrawn faults anew as on an absent page") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Read);
  check_store_waits(domain, 1, page(0).offset, 6);
  domain.pages().punch(pages(0, 4));
  domain.pages().allow_write(1, pages(0, 4));
  const auto fault = domain.fault(1);
  REQUIRE(fault.has_value());
  CHECK(fault->write);
  CHECK_FALSE(fault->write_protect);
  domain.pages().install(1, pages(0, 4), block.bytes.data(), Access::Write);
  CHECK_VALUE(domain.answer(1), 0);
  CHECK(in_file(domain, page(0).offset) == 6);
}

TEST_CASE("page tables: reserved pages read as zeros") {
  TestDomain domain(1);
  domain.pages().fill_zeros(pages(0, 4));
  domain.pages().map(1, pages(0, 4), Access::Read);
  CHECK_VALUE(domain.call(1, Op::Load, page(3).offset + 8), 0);
}

TEST_CASE("page tables: poison ends waiting and later accesses of one rank in SIGBUS, and an install lifts it") {
  TestDomain domain(2);
  const Block block;
  check_load_waits(domain, 1, page(1).offset);
  domain.pages().poison(1, pages(0, 4));
  CHECK_SIGNAL(domain.answer(1), SIGBUS);
  CHECK_SIGNAL(domain.call(1, Op::Load, page(2).offset), SIGBUS);
  CHECK_SIGNAL(domain.call(1, Op::Store, page(3).offset, 1), SIGBUS);
  check_load_waits(domain, 2, page(1).offset);  // the other rank waits as before
  domain.pages().install(1, pages(0, 4), block.bytes.data(), Access::Read);
  CHECK_VALUE(domain.call(1, Op::Load, page(2).offset), 102);
}

TEST_CASE("page tables: poison reaches a store that waits on a punched read copy") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Read);
  check_store_waits(domain, 1, page(1).offset, 3);
  domain.pages().punch(pages(0, 4));
  domain.pages().poison(1, pages(0, 4));
  CHECK_SIGNAL(domain.answer(1), SIGBUS);
}

TEST_CASE("page tables: a block of which a page is poisoned already is poisoned whole") {
  TestDomain domain(1);
  for (const uint64_t before : {0, 1, 3}) {
    const uint64_t first = before * 16;
    domain.pages().poison(1, page(first + before));
    const uint64_t other = first + (before == 1 ? 2 : 1);
    check_load_waits(domain, 1, page(other).offset);
    domain.pages().poison(1, pages(first, 4));
    CHECK_SIGNAL(domain.answer(1), SIGBUS);
    for (uint64_t p = 0; p < 4; p++) CHECK_SIGNAL(domain.call(1, Op::Load, page(first + p).offset), SIGBUS);
  }
}

TEST_CASE("page tables: a system call waits for an absent page, and fails with EFAULT on a poisoned one") {
  TestDomain domain(1);
  const Block block;
  domain.ask(1, Op::SystemCall, page(1).offset);
  REQUIRE(domain.fault(1).has_value());
  domain.pages().install(1, pages(0, 4), block.bytes.data(), Access::Read);
  CHECK_VALUE(domain.answer(1), 101);
  domain.ask(1, Op::SystemCall, page(9).offset);
  REQUIRE(domain.fault(1).has_value());
  domain.pages().poison(1, pages(8, 4));
  const auto answer = domain.answer(1);
  REQUIRE(answer.has_value());
  CHECK(answer->error == EFAULT);
}

TEST_CASE("page tables: wake lets a waiter fault anew") {
  TestDomain domain(1);
  check_load_waits(domain, 1, page(1).offset);
  domain.pages().wake(1, pages(0, 4));
  const auto again = domain.fault(1);
  REQUIRE(again.has_value());
  CHECK(again->offset / kPageBytes == 1);
}

TEST_CASE("page tables: an open run is plain memory; closed, it keeps what was mapped and faults on the rest") {
  TestDomain domain(1);
  const Range run{kRunBytes, kRunBytes};
  check_load_waits(domain, 1, run.offset);
  REQUIRE(domain.pages().open(1, run));
  CHECK_VALUE(domain.answer(1), 0);
  check_stores_freely(domain, 1, run.offset + kPageBytes, 21);
  domain.pages().close(1, run);
  check_stores_freely(domain, 1, run.offset + kPageBytes, 22);
  check_load_waits(domain, 1, run.offset + 5 * kPageBytes);
  domain.pages().fill_zeros({run.offset + 5 * kPageBytes, kPageBytes});
  domain.pages().map(1, {run.offset + 5 * kPageBytes, kPageBytes}, Access::Read);
  CHECK_VALUE(domain.answer(1), 0);
  domain.pages().freeze(uint64_t{1} << 1, run);
  check_store_waits(domain, 1, run.offset + kPageBytes, 23);
}

TEST_CASE("page tables: runs are no longer opened when a rank has too many mappings") {
  TestDomain domain(1);
  uint64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit > kTestWindowBytes / kPageBytes) return;  // this window has too few pages to reach it
  uint64_t opened = 0;
  for (uint64_t p = 1; p + 1 < kTestWindowBytes / kPageBytes && domain.pages().open(1, page(p)); p += 2) opened++;
  CHECK(opened > limit / 8);
  CHECK_FALSE(domain.pages().open(1, page(kTestWindowBytes / kPageBytes - 1)));
  std::ifstream maps("/proc/" + std::to_string(domain.pid(1)) + "/maps");
  uint64_t mappings = 0;
  for (std::string line; std::getline(maps, line);) mappings++;
  CHECK(mappings > opened);
  CHECK(mappings <= limit / 2 + 512);  // the process's own libraries (and a sanitizer's shadow) are not counted
  domain.pages().close(1, page(1));
  CHECK(domain.pages().open(1, page(1)));
}

TEST_CASE("page tables: a rank that was killed is no error; its bytes and the other ranks stay") {
  TestDomain domain(2);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Write);
  domain.pages().map(2, pages(0, 4), Access::Read);
  check_stores_freely(domain, 1, page(1).offset, 41);
  domain.kill(1);
  CHECK(domain.pages().rank_alive(1));  // nobody has tried yet
  domain.pages().freeze(uint64_t{1} << 1, pages(0, 4));
  CHECK_FALSE(domain.pages().rank_alive(1));
  domain.pages().map(1, pages(0, 4), Access::Write);
  domain.pages().allow_write(1, pages(0, 4));
  domain.pages().poison(1, pages(8, 4));
  domain.pages().wake(1, pages(0, 4));
  CHECK(domain.pages().open(1, pages(0, 4)));
  domain.pages().close(1, pages(0, 4));
  domain.pages().install(1, pages(16, 4), block.bytes.data(), Access::Read);  // the bytes go to the file all the same
  CHECK(in_file(domain, page(17).offset) == 101);
  CHECK_VALUE(domain.call(2, Op::Load, page(1).offset), 41);
  domain.pages().remove_rank(1);
  CHECK(domain.pages().fault_fd(1) == -1);
}

TEST_CASE("page tables: freeze and punch work on a stopped rank") {
  TestDomain domain(1);
  Block block;
  domain.pages().fill(pages(0, 4), block.bytes.data());
  domain.pages().map(1, pages(0, 4), Access::Write);
  check_stores_freely(domain, 1, page(0).offset, 31);
  REQUIRE(::kill(domain.pid(1), SIGSTOP) == 0);
  domain.pages().freeze(uint64_t{1} << 1, pages(0, 4));
  CHECK(in_file(domain, page(0).offset) == 31);
  domain.pages().punch(pages(0, 4));
  REQUIRE(::kill(domain.pid(1), SIGCONT) == 0);
  check_load_waits(domain, 1, page(0).offset);
}

}  // namespace
}  // namespace farpage::memory
