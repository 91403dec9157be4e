#include "runtime/memory/domain_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "runtime/base/clock.hpp"

namespace farpage::memory {
namespace {

struct Hello {
  uint64_t job_id;
  uint32_t slot;
};

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

// Abstract: the name dies with the socket and never shows in the file system.
Address address_of(uint64_t job_id, uint32_t domain) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string text = fmt::format("farpage-{:016x}-{}", job_id, domain);
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

class Deadline {
 public:
  explicit Deadline(uint64_t timeout_ms) : end_ns_(clock_.now_ns() + timeout_ms * 1'000'000) {}
  int left_ms() const {
    const uint64_t now = clock_.now_ns();
    return now >= end_ns_ ? 0 : static_cast<int>((end_ns_ - now) / 1'000'000 + 1);
  }
  Result<> wait_readable(int fd, const char* what) const {
    pollfd watched{fd, POLLIN, 0};
    int ready;
    do ready = ::poll(&watched, 1, left_ms());
    while (ready < 0 && errno == EINTR);
    if (ready > 0) return success();
    return error(ready == 0 ? Status::TimedOut : Status::Internal, "{}: {}", what, ready == 0 ? "nobody came before the deadline" : std::strerror(errno));
  }

 private:
  SteadyClock clock_;
  uint64_t end_ns_;
};

template <size_t kCount>
bool send_with_descriptors(int socket, const void* bytes, size_t size, const int (&descriptors)[kCount]) {
  iovec io{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)]{};
  msghdr message{};
  message.msg_iov = &io, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

template <size_t kCount>
bool receive_with_descriptors(int socket, void* bytes, size_t size, Fd (&descriptors)[kCount]) {
  iovec io{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kCount)]{};
  msghdr message{};
  message.msg_iov = &io, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(size)) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int) * kCount)) return false;
  int received[kCount];
  std::memcpy(received, CMSG_DATA(header), sizeof received);
  for (size_t i = 0; i < kCount; i++) descriptors[i] = Fd(received[i]);
  return true;
}

Result<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return error(Status::Internal, "SO_PEERCRED: {}", std::strerror(errno));
  if (peer.uid != ::geteuid()) return error(Status::Mismatch, "a process of user {} wants to join the domain", peer.uid);
  return peer;
}

}  // namespace

Result<DomainListener> DomainListener::open(uint64_t job_id, uint32_t domain) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Address address = address_of(job_id, domain);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) != 0 ||
      ::listen(socket.get(), kMaxRanksPerDomain) != 0)
    return error(Status::Internal, "domain socket: {}", std::strerror(errno));
  return DomainListener(std::move(socket), job_id);
}

Result<std::vector<DomainListener::Member>> DomainListener::accept_members(uint32_t members, const Offer& offer, uint64_t timeout_ms) {
  const Deadline deadline(timeout_ms);
  std::vector<Member> accepted;
  while (accepted.size() < members) {
    DSM_TRY(deadline.wait_readable(socket_.get(), "waiting for the ranks of the domain"));
    Fd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) continue;
    const auto peer = peer_of(connection.get());
    if (!peer.ok()) continue;  // not one of ours: ignored, the others are waited for
    Hello hello{};
    DSM_TRY(deadline.wait_readable(connection.get(), "waiting for a rank's first word"));
    if (::recv(connection.get(), &hello, sizeof hello, 0) != sizeof hello || hello.job_id != job_id_ || hello.slot == 0 ||
        hello.slot >= kMaxRanksPerDomain)
      continue;
    const int descriptors[] = {offer.window_file, offer.state_segment, offer.doorbell};
    const int32_t me = ::getpid();
    if (!send_with_descriptors(connection.get(), &me, sizeof me, descriptors))
      return error(Status::Internal, "handing descriptors to rank {} of the domain: {}", hello.slot, std::strerror(errno));
    accepted.push_back({hello.slot, std::move(connection), peer.value().pid});
  }
  return accepted;
}

Result<Fd> DomainListener::receive_fault_descriptor(Member& member, uint64_t timeout_ms) {
  DSM_TRY(Deadline(timeout_ms).wait_readable(member.connection.get(), "waiting for a rank's fault descriptor"));
  Fd descriptors[1];
  char byte;
  if (!receive_with_descriptors(member.connection.get(), &byte, sizeof byte, descriptors))
    return error(Status::PeerLost, "rank {} of the domain (process {}) ended while joining", member.slot, member.pid);
  return std::move(descriptors[0]);
}

Result<DomainMember> DomainMember::join(uint64_t job_id, uint32_t domain, RankSlot slot, uint64_t timeout_ms) {
  const Deadline deadline(timeout_ms);
  DomainMember member;
  member.connection = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!member.connection) return error(Status::Internal, "domain socket: {}", std::strerror(errno));
  // The leader listens before anybody is told to join.
  const Address address = address_of(job_id, domain);
  if (::connect(member.connection.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) != 0)
    return error(Status::Unsupported,
                 "cannot reach the leader of domain {} to pass descriptors: {} (ranks in separate containers need DSM_DOMAIN=rank)", domain,
                 std::strerror(errno));
  DSM_ASSIGN(const ucred leader, peer_of(member.connection.get()));
  const Hello hello{job_id, slot};
  if (::send(member.connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    return error(Status::PeerLost, "the leader of domain {} has gone", domain);
  DSM_TRY(deadline.wait_readable(member.connection.get(), "waiting for the leader's descriptors"));
  Fd descriptors[3];
  int32_t leader_pid = 0;
  if (!receive_with_descriptors(member.connection.get(), &leader_pid, sizeof leader_pid, descriptors))
    return error(Status::PeerLost, "the leader of domain {} has gone", domain);
  member.leader_pid = leader.pid;
  member.window_file = std::move(descriptors[0]);
  member.state_segment = std::move(descriptors[1]);
  member.doorbell = std::move(descriptors[2]);
  return member;
}

Result<> DomainMember::send_fault_descriptor(int descriptor) {
  const char byte = 0;
  const int descriptors[] = {descriptor};
  if (!send_with_descriptors(connection.get(), &byte, sizeof byte, descriptors))
    return error(Status::PeerLost, "handing the fault descriptor to the leader: {}", std::strerror(errno));
  return success();
}

}  // namespace farpage::memory
