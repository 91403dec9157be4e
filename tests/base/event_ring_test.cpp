// The event ring: keeps the last events in order, also while threads record.
#include "runtime/base/event_ring.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace farpage {
namespace {

std::string dumped(const EventRing& ring, uint64_t limit = EventRing::kEvents) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  ring.dump(fileno(file), limit);
  std::string text(static_cast<size_t>(::lseek(fileno(file), 0, SEEK_END)), '\0');
  CHECK(::pread(fileno(file), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  std::fclose(file);
  return text;
}

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

TEST_CASE("event ring: an empty ring dumps nothing") { CHECK(dumped(EventRing{}).empty()); }

TEST_CASE("event ring: events come out oldest first, with their time and values") {
  EventRing ring;
  ring.record(1'500, "first", 0x10, 0x20);
  ring.record(2'000, "second");
  const std::string text = dumped(ring);
  CHECK(lines(text) == 2);
  CHECK(text.find("1.500 us  first 0x10 0x20") != std::string::npos);
  CHECK(text.find("first") < text.find("second"));
}

TEST_CASE("event ring: the newest events push the oldest out; a limit keeps the newest") {
  EventRing ring;
  for (uint64_t i = 0; i < EventRing::kEvents + 5; i++) ring.record(i, i < 5 ? "old" : "new", i);
  const std::string all = dumped(ring);
  CHECK(lines(all) == EventRing::kEvents);
  CHECK(all.find("old") == std::string::npos);
  const std::string few = dumped(ring, 2);
  CHECK(lines(few) == 2);
  CHECK(few.find("0x203 ") != std::string::npos);  // 515 = 512 + 5 - 2
  CHECK(few.find("0x204 ") != std::string::npos);
}

TEST_CASE("event ring: threads record without losing a line") {
  EventRing ring;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&ring] {
      for (uint64_t i = 0; i < EventRing::kEvents / 4; i++) ring.record(i, "event");
    });
  for (auto& thread : threads) thread.join();
  CHECK(lines(dumped(ring)) == EventRing::kEvents);
}

}  // namespace
}  // namespace farpage
