#include "runtime/memory/state_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/memory/region.hpp"

namespace farpage::memory {

SegmentLayout::SegmentLayout(const SegmentParameters& parameters) {
  const uint64_t pages = parameters.window_bytes >> kPageShift, runs = parameters.window_bytes >> kRunShift;
  const uint64_t frames = (parameters.cache_bytes >> kPageShift) + 1024;
  const uint64_t sizes[] = {sizeof(SegmentHeader),
                            uint64_t{kCallSlots} * kCallSlotBytes,
                            kPoisonRecords * sizeof(PoisonRecord),
                            parameters.ranks * sizeof(Mailbox),
                            kMaxRegions * sizeof(RegionDescriptor),
                            runs * sizeof(uint32_t),
                            pages,
                            pages * kDirectoryEntryBytes,
                            pages * kAgentEntryBytes,
                            pages * sizeof(BlockMap),
                            runs * sizeof(RunState),
                            frames * sizeof(uint64_t)};
  static_assert(std::size(sizes) == static_cast<size_t>(Area::kCount));
  uint64_t at = 0;
  for (size_t i = 0; i < std::size(sizes); i++) {
    begin[i] = at;
    bytes[i] = sizes[i];
    at += round_up(sizes[i], kRunBytes);
  }
  total_bytes = at;
}

namespace {

Result<std::byte*> map_segment(int fd, uint64_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return error(Status::OutOfMemory, "mapping {} bytes of shared state: {}", bytes, std::strerror(errno));
  ::madvise(base, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(base);
}

}  // namespace

Result<StateSegment> StateSegment::create(const SegmentParameters& parameters) {
  const SegmentLayout layout(parameters);
  Fd fd(::memfd_create("farpage-state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error(Status::OutOfMemory, "memfd_create: {}", std::strerror(errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(layout.total_bytes)) != 0)
    return error(Status::OutOfMemory, "shared state of {} bytes: {}", layout.total_bytes, std::strerror(errno));
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  DSM_ASSIGN(std::byte* base, map_segment(fd.get(), layout.total_bytes));
  StateSegment segment(std::move(fd), base, layout);
  SegmentHeader& header = segment.header();
  header.version = kSegmentVersion;
  header.ranks = parameters.ranks;
  header.window_bytes = parameters.window_bytes;
  header.job_id = parameters.job_id;
  header.magic = kSegmentMagic;
  return segment;
}

Result<StateSegment> StateSegment::attach(Fd fd, const SegmentParameters& parameters) {
  const SegmentLayout layout(parameters);
  DSM_ASSIGN(std::byte* base, map_segment(fd.get(), layout.total_bytes));
  StateSegment segment(std::move(fd), base, layout);
  const SegmentHeader& header = segment.header();
  if (header.magic != kSegmentMagic || header.version != kSegmentVersion || header.job_id != parameters.job_id ||
      header.window_bytes != parameters.window_bytes || header.ranks != parameters.ranks)
    return error(Status::Mismatch, "the leader's shared state is of version {}, ours of version {}", header.version, kSegmentVersion);
  return segment;
}

StateSegment::StateSegment(StateSegment&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)), layout_(other.layout_) {}

StateSegment::~StateSegment() {
  if (base_ != nullptr) ::munmap(base_, layout_.total_bytes);
}

namespace {
// Byte by byte: presence is read at any time, without a lock.
void clear(std::byte* begin, const std::byte* end) {
  for (; begin < end; begin++) __atomic_store_n(reinterpret_cast<uint8_t*>(begin), uint8_t{0}, __ATOMIC_RELAXED);
}
}  // namespace

void StateSegment::zero(Area which, uint64_t first_byte, uint64_t bytes) const {
  DSM_CHECK(first_byte + bytes <= area_bytes(which));
  std::byte* begin = static_cast<std::byte*>(area(which)) + first_byte;
  std::byte* end = begin + bytes;
  const auto page = [](std::byte* at, bool up) {
    const auto address = reinterpret_cast<uint64_t>(at);
    return reinterpret_cast<std::byte*>(up ? round_up(address, kPageBytes) : round_down(address, kPageBytes));
  };
  std::byte *first_page = page(begin, true), *last_page = page(end, false);
  if (first_page >= last_page) {
    clear(begin, end);
    return;
  }
  clear(begin, first_page);
  clear(last_page, end);
  const int result = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first_page - base_, last_page - first_page);
  DSM_CHECK(result == 0, "{}", std::strerror(errno));
}

}  // namespace farpage::memory
