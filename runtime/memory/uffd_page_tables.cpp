#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/uffd.hpp"

namespace farpage::memory {
namespace {

uint64_t half_of_map_limit() {
  unsigned long limit = 65530;
  if (FILE* file = std::fopen("/proc/sys/vm/max_map_count", "r")) {
    if (std::fscanf(file, "%lu", &limit) != 1) limit = 65530;
    std::fclose(file);
  }
  return limit / 2;
}

// Every rank maps the window at the same address, so one address names a page in all of them.
class UffdPageTables final : public PageTables {
 public:
  UffdPageTables(int file, std::byte* window, const std::byte* view, uint64_t bytes)
      : file_(file), window_(reinterpret_cast<uint64_t>(window)), view_(view), bytes_(bytes), most_mappings_(half_of_map_limit()) {}
  ~UffdPageTables() override { ::munmap(const_cast<std::byte*>(view_), bytes_); }

  void add_rank(RankSlot rank, Fd descriptor) override {
    DSM_CHECK(rank < kMaxRanksPerDomain);
    ranks_[rank].fd = std::move(descriptor);
  }
  void remove_rank(RankSlot rank) override { ranks_[rank].fd.reset(); }
  bool rank_alive(RankSlot rank) const override { return static_cast<bool>(ranks_[rank].fd) && !ranks_[rank].dead; }
  int fault_fd(RankSlot rank) const override { return ranks_[rank].fd.get(); }

  size_t read_faults(RankSlot rank, std::span<PageFault> out) override {
    uffd_msg messages[16];
    const size_t room = std::min(out.size(), std::size(messages));
    const ssize_t got = ::read(ranks_[rank].fd.get(), messages, room * sizeof messages[0]);
    if (got <= 0) return 0;
    size_t count = 0;
    for (size_t i = 0; i < static_cast<size_t>(got) / sizeof messages[0]; i++) {
      if (messages[i].event != UFFD_EVENT_PAGEFAULT) continue;
      const auto& fault = messages[i].arg.pagefault;
      const bool protect = (fault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
      out[count++] = {rank,
                      fault.feat.ptid,
                      fault.address - window_,
                      protect || (fault.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0,
                      protect,
                      (fault.flags & UFFD_PAGEFAULT_FLAG_MINOR) != 0};
    }
    return count;
  }

  void map(RankSlot rank, Range range, Access access) override {
    if (!rank_alive(rank)) return;
    const bool protect = access == Access::Read;
    uint64_t done = 0;
    bool skipped = false;
    while (done < range.bytes) {
      uint64_t mapped = 0;
      const int result = uffd::map_existing(fd(rank), address(range) + done, range.bytes - done, protect, mapped);
      if (result == 0) break;
      if (result == -EEXIST) {  // there already; its protection may differ, and its waiters were not woken
        done += kPageBytes;
        skipped = true;
      } else if (result == -EAGAIN) {
        done += mapped;
      } else if (!gone(rank, result)) {
        fail("mapping", rank, range, result);
      } else {
        return;
      }
    }
    if (!skipped) return;
    if (access == Access::Write) check(uffd::protect(fd(rank), address(range), range.bytes, false), "allowing writes to", rank, range);
    wake(rank, range);
  }

  void install(RankSlot rank, Range range, const std::byte* bytes, Access access) override {
    uint64_t copied = 0;
    const int result =
        rank_alive(rank) ? uffd::copy(fd(rank), address(range), bytes, range.bytes, access == Access::Read, copied) : -ESRCH;
    if (result == 0) return;
    // The rank has gone, or a page is in the file already: the rest goes to the file, and the mapping follows. Only the rest:
    // what was copied is mapped and its waiters are awake, so it may have been stored to.
    if (!gone(rank, result) && result != -EEXIST && result != -EAGAIN) fail("installing", rank, range, result);
    fill({range.offset + copied, range.bytes - copied}, bytes + copied);
    map(rank, range, access);
  }

  void allow_write(RankSlot rank, Range range) override {
    if (!rank_alive(rank)) return;
    check(uffd::protect(fd(rank), address(range), range.bytes, false), "allowing writes to", rank, range);
  }

  void freeze(uint64_t writers, Range range) override {
    for (; writers != 0; writers &= writers - 1) {
      const auto rank = static_cast<RankSlot>(std::countr_zero(writers));
      if (!rank_alive(rank)) continue;
      int result;
      do result = uffd::protect(fd(rank), address(range), range.bytes, true);
      while (result == -EAGAIN);
      check(result, "freezing", rank, range);
    }
  }

  void punch(Range range) override {
    const int result = ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset),
                                   static_cast<off_t>(range.bytes));
    if (result != 0) fail("punching", 0, range, -errno);
  }

  void fill(Range range, const std::byte* bytes) override {
    for (uint64_t done = 0; done < range.bytes;) {
      const ssize_t wrote = ::pwrite(file_, bytes + done, range.bytes - done, static_cast<off_t>(range.offset + done));
      if (wrote <= 0) fail("filling", 0, range, wrote < 0 ? -errno : -EIO);
      done += static_cast<uint64_t>(wrote);
    }
  }

  void fill_zeros(Range range) override {
    if (::fallocate(file_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.offset), static_cast<off_t>(range.bytes)) != 0)
      fail("reserving", 0, range, -errno);
  }

  void poison(RankSlot rank, Range range) override {
    if (!rank_alive(rank)) return;
    // A punched read copy leaves a marker, on which POISON alone answers EEXIST and the thread would hang.
    (void)uffd::protect(fd(rank), address(range), range.bytes, false);
    uint64_t done = 0;
    bool skipped = false;
    while (done < range.bytes) {
      uint64_t poisoned = 0;
      const int result = uffd::poison(fd(rank), address(range) + done, range.bytes - done, poisoned);
      if (result == 0) break;
      if (result == -EEXIST) {  // poisoned before; who waits there was not woken
        done += kPageBytes;
        skipped = true;
      } else if (result == -EAGAIN) {
        done += poisoned;
      } else if (!gone(rank, result)) {
        fail("poisoning", rank, range, result);
      } else {
        return;
      }
    }
    if (skipped) wake(rank, range);
  }

  void wake(RankSlot rank, Range range) override {
    if (rank_alive(rank)) check(uffd::wake(fd(rank), address(range), range.bytes), "waking", rank, range);
  }

  bool open(RankSlot rank, Range range) override {
    if (!rank_alive(rank)) return true;
    Rank& r = ranks_[rank];
    if (r.openings * 2 + 64 > most_mappings_) return false;  // an opening splits a mapping in three at worst
    const int result = uffd::withdraw(fd(rank), address(range), range.bytes);
    if (result == -ENOMEM) return false;
    check(result, "opening", rank, range);
    r.openings++;
    // The kernel wakes the range's waiters before it takes the range out, and under per-VMA locks (Linux 6.6 on) a thread may
    // queue up in between: nobody would wake it.
    wake(rank, range);
    return true;
  }

  void close(RankSlot rank, Range range) override {
    if (!rank_alive(rank)) return;
    check(uffd::enroll(fd(rank), address(range), range.bytes), "closing", rank, range);
    ranks_[rank].openings--;
  }

  const std::byte* view(WindowOffset offset) const override { return view_ + offset; }

 private:
  struct Rank {
    Fd fd;
    bool dead = false;
    uint64_t openings = 0;
  };

  int fd(RankSlot rank) const { return ranks_[rank].fd.get(); }
  uint64_t address(Range range) const { return window_ + range.offset; }
  bool gone(RankSlot rank, int result) {
    if (result != -ESRCH) return false;
    ranks_[rank].dead = true;  // dead or exec'ed: not an error
    return true;
  }
  void check(int result, const char* what, RankSlot rank, Range range) {
    if (result != 0 && !gone(rank, result)) fail(what, rank, range, result);
  }
  [[noreturn]] void fail(const char* what, RankSlot rank, Range range, int result) const {
    fatal("{} {} bytes at window offset 0x{:x} for rank {} of the domain: {}", what, range.bytes, range.offset, rank,
          std::strerror(-result));
  }

  int file_;
  uint64_t window_;
  const std::byte* view_;
  uint64_t bytes_;
  uint64_t most_mappings_;
  std::array<Rank, kMaxRanksPerDomain> ranks_;
};

}  // namespace

Result<std::unique_ptr<PageTables>> make_uffd_page_tables(int window_file, std::byte* window_base, uint64_t window_bytes) {
  // The runtime view: read by the lane, never stored through. MAP_SHARED read-only, its own range of addresses.
  void* view = ::mmap(nullptr, window_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, window_file, 0);
  if (view == MAP_FAILED) return error(Status::OutOfMemory, "no room for the runtime view of {} bytes: {}", window_bytes, std::strerror(errno));
  ::madvise(view, window_bytes, MADV_DONTFORK);
  ::madvise(view, window_bytes, MADV_DONTDUMP);
  ::madvise(view, window_bytes, MADV_NOHUGEPAGE);
  return std::unique_ptr<PageTables>(
      std::make_unique<UffdPageTables>(window_file, window_base, static_cast<const std::byte*>(view), window_bytes));
}

}  // namespace farpage::memory
