// The life of regions between domains: finding the descriptor of an address, offering a new region to its other homes,
// ending one everywhere, publishing. Calls and messages come in, replies go out; block state is the lane's (RegionHost).
//
// The owner of a region is the domain of the rank in whose arena it lies. It keeps the domain set: everybody who holds the
// descriptor. One lane's: one thread.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "runtime/engine/call.hpp"
#include "runtime/engine/lane_context.hpp"
#include "runtime/engine/outbox.hpp"

namespace farpage::engine {

/// What the lane does when regions come and go.
class RegionHost {
 public:
  virtual ~RegionHost() = default;
  /// A descriptor has arrived (or `region` is nullptr: there is none there): faults that waited for it go on.
  virtual void on_resolved(WindowOffset asked, memory::RegionDescriptor* region) = 0;
  /// Ends every wait for the region's blocks with poison, drops all its blocks and bytes. True: some rank was poisoned.
  virtual bool on_drop(memory::RegionDescriptor& region) = 0;
  /// Parked fetches of the region can be served; its home blocks become read-only.
  virtual void on_published(memory::RegionDescriptor& region) = 0;
};

class RegionService {
 public:
  RegionService(LaneContext& context, Outbox& outbox, RegionHost& host);

  /// A question from a rank of this domain; answered at once or later, through its slot.
  void on_call(CallSlot& call);
  /// A control message. False: not one of ours.
  bool on_message(AgentId from, const WireHeader& header, std::span<const std::byte> payload);
  /// Brings the descriptor for an address that no region here has; on_resolved follows. False: there can be none.
  bool ask(WindowOffset at);
  /// Ends calls whose caller has given up or whose deadline has passed; `now_ns` of the lane's clock.
  void check_deadlines(uint64_t now_ns);
  bool busy() const { return pending_calls_ != 0; }

  static void answer(CallSlot& call, const Result<>& result);

 private:
  struct Ending {  // at the owner: a region that is being freed
    memory::RegionDescriptor* region = nullptr;
    uint32_t outstanding = 0;
    AgentId asker;
    uint64_t tag = 0;
    bool poisoned = false;
  };
  struct Publishing {  // at the owner
    WindowOffset region = 0;
    uint32_t generation = 0;
    uint32_t seen = 0;
    std::bitset<kMaxRanks> ranks;
  };

  AgentId owner_domain(WindowOffset at) const;
  CallSlot* call_of(uint64_t tag, CallOp op);
  void keep(CallSlot& call);
  void done(CallSlot& call, const Result<>& result);
  void resolve(CallSlot& call);
  void create(CallSlot& call);
  void begin_free(WindowOffset at, AgentId asker, uint64_t tag);
  void finish_free(Ending& ending);
  void reply_free(AgentId to, uint64_t tag, Status status);
  void free_object(WindowOffset at);
  void publish(WindowOffset at, RankId rank);
  void on_offer(AgentId from, const WireHeader& header, std::span<const std::byte> payload);
  void on_resolve_reply(const WireHeader& header, std::span<const std::byte> payload);
  void set_published(memory::RegionDescriptor& region);
  void give_back(const memory::RegionDescriptor& region);
  WireHeader header(WireKind kind, WindowOffset offset, uint64_t argument = 0, Status status = Status::Ok) const;

  LaneContext& context_;
  Outbox& outbox_;
  RegionHost& host_;
  std::span<CallSlot> calls_;
  std::array<bool, memory::kCallSlots> kept_{};  // calls that wait for messages
  uint32_t pending_calls_ = 0;
  std::array<Ending, 256> endings_{};
  std::array<Publishing, 64> publishings_{};
  struct Asked {  // a run whose descriptor is on its way
    WindowOffset run;
    bool dropped;         // the region was freed meanwhile: the drop has overtaken the descriptor
    uint32_t generation;  // up to this one
  };
  std::vector<Asked> asked_;
};

/// Bytes of `region` whose home is a rank of `domain`.
uint64_t home_bytes_in(const memory::RegionDescriptor& region, AgentId domain, const JobShape& shape);
/// Domains that are a home of `region`, as a mask.
uint64_t home_domains(const memory::RegionDescriptor& region, const JobShape& shape);
/// Ranks that are a home of `region`.
uint32_t home_ranks(const memory::RegionDescriptor& region);
bool is_home_rank(const memory::RegionDescriptor& region, RankId rank);
/// Counts `bytes` of home memory in this domain; OutOfMemory beyond the limit.
Result<> reserve_home_bytes(const memory::StateSegment& segment, AgentId domain, uint64_t bytes);

}  // namespace farpage::engine
