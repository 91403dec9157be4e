#include "tools/perf/floors.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace farpage::perf {
namespace {

constexpr size_t kPage = 4096;

double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void nap_ns(long ns) {
  const timespec pause{0, ns};
  nanosleep(&pause, nullptr);
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &io, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, 0) == 1;
}

int receive_descriptor(int socket) {
  char byte;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &io, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) return -1;
  int descriptor;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

// The faulting side: maps the memory, passes its userfaultfd, touches page after page.
void fault_client(int socket, int file, uint32_t count, long pause_ns, std::vector<double>& samples) {
  const size_t bytes = count * kPage;
  auto* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  const int descriptor = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MISSING_SHMEM;
  uffdio_register range{};
  range.range = {reinterpret_cast<uint64_t>(memory), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  const bool ok = memory != MAP_FAILED && descriptor >= 0 && ioctl(descriptor, UFFDIO_API, &api) == 0 &&
                  ioctl(descriptor, UFFDIO_REGISTER, &range) == 0;
  if (!ok || write(socket, &memory, sizeof memory) != sizeof memory || !send_descriptor(socket, descriptor)) return;
  for (uint32_t i = 0; i < count; i++) {
    if (pause_ns != 0) nap_ns(pause_ns);
    const double begin = now_ns();
    (void)*reinterpret_cast<volatile char*>(memory + i * kPage);
    samples.push_back(now_ns() - begin);
  }
}

void fault_server(int socket, bool spin) {
  char* memory;
  if (read(socket, &memory, sizeof memory) != sizeof memory) return;
  const int descriptor = receive_descriptor(socket);
  alignas(4096) static char source[kPage];
  pollfd watched[2] = {{descriptor, POLLIN, 0}, {socket, POLLIN, 0}};
  for (;;) {
    uffd_msg message;
    const ssize_t got = read(descriptor, &message, sizeof message);
    if (got == sizeof message) {
      uffdio_copy copy{};
      copy.dst = message.arg.pagefault.address & ~(kPage - 1);
      copy.src = reinterpret_cast<uint64_t>(source);
      copy.len = kPage;
      ioctl(descriptor, UFFDIO_COPY, &copy);
      continue;
    }
    if (poll(watched, 2, spin ? 0 : 1000) < 0 || (watched[1].revents & (POLLIN | POLLHUP))) return;
    if (spin) sched_yield();
  }
}

std::vector<double> measure_faults(Placement placement, uint32_t count, long pause_ns) {
  std::vector<double> samples;
  int ends[2];
  const int file = memfd_create("floor", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(count * kPage)) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    return samples;
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  const pid_t server = fork();
  if (server == 0) {
    close(ends[0]);
    pin_to(placement.same_core ? 0 : 1);
    fault_server(ends[1], placement.spin);
    _exit(0);
  }
  close(ends[1]);
  pin_to(0);
  fault_client(ends[0], file, count, pause_ns, samples);
  close(ends[0]);
  close(file);
  waitpid(server, nullptr, 0);
  sched_setaffinity(0, sizeof before, &before);
  return samples;
}

}  // namespace

std::vector<double> cross_process_fault_ns(Placement placement, uint32_t count) { return measure_faults(placement, count, 0); }

std::vector<double> isolated_cross_process_fault_ns(Placement placement, uint32_t count) {
  return measure_faults(placement, count, 1'000'000);
}

std::vector<double> socket_round_trip_ns(bool same_core, uint32_t count) {
  std::vector<double> samples;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return samples;
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  const pid_t echo = fork();
  uint64_t word = 0;
  if (echo == 0) {
    close(ends[0]);
    pin_to(same_core ? 0 : 1);
    while (read(ends[1], &word, sizeof word) == sizeof word && write(ends[1], &word, sizeof word) == sizeof word) {
    }
    _exit(0);
  }
  close(ends[1]);
  pin_to(0);
  for (uint32_t i = 0; i < count; i++) {
    const double begin = now_ns();
    if (write(ends[0], &word, sizeof word) != sizeof word || read(ends[0], &word, sizeof word) != sizeof word) break;
    samples.push_back(now_ns() - begin);
  }
  close(ends[0]);
  waitpid(echo, nullptr, 0);
  sched_setaffinity(0, sizeof before, &before);
  return samples;
}

PlainMemory::PlainMemory(uint64_t bytes) : data_(nullptr), bytes_(bytes) {
  const int file = memfd_create("floor", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
    data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  walk_rate(data_, bytes, true);
}
PlainMemory::~PlainMemory() { munmap(data_, bytes_); }

double walk_rate(char* memory, uint64_t bytes, bool write_it) {
  auto* at = static_cast<volatile char*>(memory);
  const double begin = now_ns();
  for (uint64_t i = 0; i < bytes; i += 64) {
    if (write_it)
      at[i] = static_cast<char>(i);
    else
      (void)at[i];
  }
  return static_cast<double>(bytes) / (now_ns() - begin) * 1e9;
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(fraction * static_cast<double>(values.size())))];
}
double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

}  // namespace farpage::perf
