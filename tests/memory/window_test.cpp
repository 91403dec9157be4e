// The window: where it may lie, that looking for a place harms nobody, and what its file and its mapping refuse.
#include "runtime/memory/window.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "remote_rank.hpp"

namespace farpage::memory {
namespace {

TEST_CASE("window: the built-in candidates lie below 2^47, and one of them is free") {
  const auto candidates = window_candidates("auto");
  REQUIRE(candidates.ok());
  for (const WindowChoice& choice : candidates.value()) {
    CHECK(choice.base % kRunBytes == 0);
    CHECK(choice.base + choice.bytes <= uint64_t{1} << 47);
  }
  CHECK(probe_windows(candidates.value()) != 0);
}

TEST_CASE("window: a place that was asked for is the only one tried") {
  const auto candidates = window_candidates("0x200000000000");
  REQUIRE(candidates.ok());
  REQUIRE_FALSE(candidates.value().empty());
  for (const WindowChoice& choice : candidates.value()) CHECK(choice.base == 0x2000'0000'0000);
}

TEST_CASE("window: a malformed place is refused by name and value") {
  for (const char* text : {"", "0x", "zero", "0x2000g", "0x1000", "0x800000000000", "0", "-0x200000"}) {
    const auto candidates = window_candidates(text);
    REQUIRE_MESSAGE(!candidates.ok(), text);
    CHECK(candidates.failure().message.find(std::string("DSM_WINDOW=") + text) != std::string::npos);
  }
}

TEST_CASE("window: a place where something is mapped is not free, and what is there stays") {
  const WindowChoice choice = test_window();
  void* inside = reinterpret_cast<void*>(choice.base + 3 * kRunBytes);
  void* taken = ::mmap(inside, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  REQUIRE(taken == inside);
  *static_cast<int*>(taken) = 42;
  CHECK(probe_windows(std::span(&choice, 1)) == 0);
  CHECK(*static_cast<int*>(taken) == 42);
  const auto file = create_window_file(choice.bytes);
  REQUIRE(file.ok());
  CHECK_FALSE(Window::map(choice, file.value().get()).ok());
  CHECK(*static_cast<int*>(taken) == 42);
  ::munmap(taken, kPageBytes);
  CHECK(probe_windows(std::span(&choice, 1)) == 1);
  CHECK(probe_windows(std::span(&choice, 1)) == 1);  // looking leaves nothing behind
}

TEST_CASE("window: its file cannot be made shorter or longer, but punched") {
  const auto file = create_window_file(kTestWindowBytes);
  REQUIRE(file.ok());
  const int fd = file.value().get();
  CHECK(::ftruncate(fd, kPageBytes) != 0);
  CHECK(::ftruncate(fd, 2 * kTestWindowBytes) != 0);
  CHECK(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  CHECK(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes) == 0);
}

TEST_CASE("window: a child of a rank does not inherit it, so it cannot create pages for the domain") {
  TestDomain domain(1);
  domain.pages().fill_zeros({0, kPageBytes});
  domain.pages().map(1, {0, kPageBytes}, Access::Write);
  const auto child = domain.call(1, Op::Fork, 0);
  REQUIRE(child.has_value());
  CHECK(child->value == SIGSEGV);
  const auto parent = domain.call(1, Op::Load, 0);
  REQUIRE(parent.has_value());
  CHECK(parent->signal == 0);
}

}  // namespace
}  // namespace farpage::memory
