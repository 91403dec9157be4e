#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/uffd.hpp"

namespace farpage::memory {
namespace {

constexpr uint64_t kFeatures = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                               UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_THREAD_ID | uffd::kFeaturePoison;

Result<Fd> open_descriptor() {
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (!fd) return error(Status::Unsupported, "userfaultfd: {}", std::strerror(errno));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatures;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0)
    return error(Status::Unsupported, "userfaultfd lacks a feature (Linux 6.6 or newer is needed): {}", std::strerror(errno));
  return fd;
}

// CONTINUE that maps write-protected came after the features that can be asked for, so it is tried on a page.
Result<> try_continue_protected() {
  DSM_ASSIGN(const Fd fd, open_descriptor());
  const Fd file(::memfd_create("farpage-probe", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), kPageBytes) != 0 || ::fallocate(file.get(), 0, 0, kPageBytes) != 0)
    return error(Status::OutOfMemory, "memfd: {}", std::strerror(errno));
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) return error(Status::OutOfMemory, "mmap: {}", std::strerror(errno));
  uint64_t mapped = 0;
  int result = uffd::enroll(fd.get(), reinterpret_cast<uint64_t>(page), kPageBytes);
  if (result == 0) result = uffd::map_existing(fd.get(), reinterpret_cast<uint64_t>(page), kPageBytes, true, mapped);
  ::munmap(page, kPageBytes);
  if (result != 0) return error(Status::Unsupported, "userfaultfd cannot map shared pages write-protected: {}", std::strerror(-result));
  return success();
}

}  // namespace

FaultMechanism probe_fault_mechanism() {
  utsname names{};
  ::uname(&names);
  const Result<> tried = try_continue_protected();
  if (tried.ok()) return {true, fmt::format("full userfaultfd (Linux {})", names.release)};
  return {false, fmt::format("{} (Linux {})", tried.failure().message, names.release)};
}

Result<Fd> open_fault_descriptor(std::byte* window_base, uint64_t window_bytes) {
  DSM_ASSIGN(Fd fd, open_descriptor());
  const int result = uffd::enroll(fd.get(), reinterpret_cast<uint64_t>(window_base), window_bytes);
  if (result != 0) return error(Status::Internal, "registering the window with userfaultfd: {}", std::strerror(-result));
  return fd;
}

}  // namespace farpage::memory
