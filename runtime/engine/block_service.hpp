// The blocks of one domain in motion: page faults, protocol messages, hold timers, eviction, streams and prefetch. Runs the
// coherence drivers (all decisions are theirs) and performs their actions through Blocks (bytes and page tables), Outbox
// (messages), Threads (who waits and holds) and Cache (frames). One lane's: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/coherence/agent_driver.hpp"
#include "runtime/coherence/home_driver.hpp"
#include "runtime/coherence/immutable.hpp"
#include "runtime/engine/assembler.hpp"
#include "runtime/engine/blocks.hpp"
#include "runtime/engine/cache.hpp"
#include "runtime/engine/deferred.hpp"
#include "runtime/engine/lane_context.hpp"
#include "runtime/engine/outbox.hpp"
#include "runtime/engine/region_service.hpp"
#include "runtime/engine/threads.hpp"

namespace farpage::engine {

class BlockService {
 public:
  BlockService(LaneContext& context, Outbox& outbox);
  /// Where descriptors are asked for. Once, before anything else.
  void connect(RegionService& regions) { regions_ = &regions; }

  void on_fault(const memory::PageFault& fault);
  /// A protocol message, from another domain or from this one (no bytes then).
  void on_message(AgentId from, const WireHeader& header, std::span<const std::byte> payload);
  void prefetch(RankSlot rank, memory::Range range);

  void on_timers(uint64_t now_ns);
  /// When on_timers has work that nothing else would wake the lane for.
  uint64_t next_timer_ns() const;
  /// Faults that wait for room, and prefetches that wait for their turn.
  void pump();
  bool waiting() const { return threads_.waiting() != 0; }
  void check_deadlines(uint64_t now_ns);

  void on_resolved(WindowOffset asked, memory::RegionDescriptor* region);
  bool drop_region(memory::RegionDescriptor& region);
  void on_published(memory::RegionDescriptor& region);
  void drop_rank(RankSlot rank) { threads_.drop_rank(rank); }

 private:
  friend class AgentEnv;
  friend class HomeEnv;

  // Faults.
  void serve(ThreadSlot thread, memory::RegionDescriptor& region);
  void serve_coherent(ThreadSlot thread, const Block& block);
  void serve_immutable(ThreadSlot thread, const Block& block);
  void poison(ThreadSlot thread, memory::Range range, Status status, const char* reason);
  void finish_fault(ThreadSlot thread);
  uint64_t prefetched_behind(const Block& block, RankSlot rank) const;

  // IMMUTABLE.
  void refuse_store(ThreadSlot thread, const Block& block, const char* reason);
  void ask_immutable(const Block& block);
  void on_immutable_data(const Block& block, const std::byte* bytes);
  void serve_immutable_copy(AgentId to, const Block& block);
  void note_arrival(const Block& block, bool awaited);
  void map_immutable(ThreadSlot thread, const Block& block);

  // Room, streams, prefetch.
  bool make_room(uint64_t block_bytes);
  int evictable(uint64_t slot);
  void evict(uint64_t slot);
  void follow_stream(ThreadSlot thread, const Block& block);
  bool ask_ahead(const Block& block);
  void lose(ThreadSlot thread, const Block& block);

  WireHeader protocol_header(coherence::MessageType type, const Block& block, bool keeps_copy) const;

  struct PrefetchJob {
    WindowOffset next = 0, end = 0;
  };

  LaneContext& context_;
  Outbox& outbox_;
  RegionService* regions_ = nullptr;
  Blocks blocks_;
  Cache cache_;
  Threads threads_;
  Assembler assembler_;
  Deferred deferred_;
  std::array<PrefetchJob, 256> jobs_{};
  uint32_t jobs_begin_ = 0, jobs_end_ = 0;
  uint32_t asked_ahead_ = 0;         // prefetches under way
  uint64_t recalls_waiting_ = 0;     // blocks whose recall waits for a hold
  uint32_t waiting_for_room_ = 0;
  const std::byte* incoming_ = nullptr;             // bytes of the message being handled
  std::optional<RankSlot> installed_into_;          // the rank that install() has just mapped and woken
  uint64_t installed_slot_ = 0;
};

}  // namespace farpage::engine
