// Passing descriptors between the ranks of a domain at start: abstract Unix sockets (nothing is left in the file system),
// peers checked by uid and job id. Used by the thread in dsm_init; every wait has a deadline.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/handle.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace farpage::memory {

/// Leader's side: listens; then for each other rank of the domain sends the window file, the state segment and the doorbell,
/// and receives the rank's fault descriptor.
class DomainListener {
 public:
  static Result<DomainListener> open(uint64_t job_id, uint32_t domain);

  struct Offer {
    int window_file, state_segment, doorbell;
  };
  struct Member {
    RankSlot slot;
    Fd connection;         // stays open; its end tells that the rank has gone
    int32_t pid;           // by the kernel's word
  };
  /// Accepts `members` ranks and hands out the offer. Fault descriptors come later (receive_fault_descriptor), when the
  /// ranks have mapped the window.
  Result<std::vector<Member>> accept_members(uint32_t members, const Offer& offer, uint64_t timeout_ms);
  static Result<Fd> receive_fault_descriptor(Member& member, uint64_t timeout_ms);

 private:
  explicit DomainListener(Fd socket, uint64_t job_id) : socket_(std::move(socket)), job_id_(job_id) {}
  Fd socket_;
  uint64_t job_id_;
};

/// Other ranks' side.
class DomainMember {
 public:
  static Result<DomainMember> join(uint64_t job_id, uint32_t domain, RankSlot slot, uint64_t timeout_ms);
  Fd window_file, state_segment, doorbell, connection;
  int32_t leader_pid = 0;
  Result<> send_fault_descriptor(int descriptor);
};

}  // namespace farpage::memory
