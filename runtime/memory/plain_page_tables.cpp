#include "runtime/memory/plain_page_tables.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/check.hpp"

namespace farpage::memory {
namespace {

// No faults ever come, so the calls that would answer one have nothing to do.
class PlainPageTables final : public PageTables {
 public:
  explicit PlainPageTables(int window_file) : window_file_(window_file) {}

  void add_rank(RankSlot, Fd) override {}
  void remove_rank(RankSlot) override {}
  bool rank_alive(RankSlot) const override { return true; }
  int fault_fd(RankSlot) const override { return -1; }
  size_t read_faults(RankSlot, std::span<PageFault>) override { return 0; }
  void map(RankSlot, Range, Access) override {}
  void install(RankSlot, Range, const std::byte*, Access) override {}
  void allow_write(RankSlot, Range) override {}
  void freeze(uint64_t, Range) override {}
  void punch(Range range) override {
    const int result = ::fallocate(window_file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset),
                                   static_cast<off_t>(range.bytes));
    DSM_CHECK(result == 0, "punch of {} bytes at 0x{:x}: {}", range.bytes, range.offset, std::strerror(errno));
  }
  void fill(Range, const std::byte*) override {}
  void fill_zeros(Range) override {}
  void poison(RankSlot, Range) override {}
  void wake(RankSlot, Range) override {}
  bool open(RankSlot, Range) override { return true; }
  void close(RankSlot, Range) override {}
  const std::byte* view(WindowOffset) const override { return nullptr; }

 private:
  int window_file_;
};

}  // namespace

std::unique_ptr<PageTables> make_plain_page_tables(int window_file) { return std::make_unique<PlainPageTables>(window_file); }

}  // namespace farpage::memory
