// The byte side of the blocks of one domain: where a block is, who maps it, and the bytes that are on their way. Turns the
// words of the protocol (install, downgrade, withdraw, store) into the safe orders of page-table operations; decides nothing.
//
// Home memory and the home agent's frame are the same pages. When the home agent loses its copy the pages are punched, so
// their bytes are kept here first: until they are sent with a grant, or the home agent gets the block again. A remote
// agent's dirty block is kept the same way from its eviction until the home has acknowledged.
// One lane's: one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/coherence/agent.hpp"
#include "runtime/coherence/directory.hpp"
#include "runtime/engine/block_pool.hpp"
#include "runtime/engine/lane_context.hpp"
#include "runtime/engine/slot_map.hpp"

namespace farpage::engine {

struct Block {
  uint64_t slot = 0;
  memory::RegionDescriptor* region = nullptr;
  uint64_t index = 0;
  AgentId home;
  bool home_here = false;

  memory::Range range() const { return {region->block_offset(index), region->block_bytes()}; }
  uint64_t bytes() const { return region->block_bytes(); }
};

class Blocks {
 public:
  explicit Blocks(LaneContext& context);

  /// The block with this slot; nothing when no region has it.
  std::optional<Block> find(uint64_t slot) const;
  Block at(uint64_t slot) const;
  Block of(memory::RegionDescriptor& region, WindowOffset offset) const;

  coherence::AgentEntry& agent(const Block& block) const;
  coherence::DirectoryEntry& directory(uint64_t slot) const;
  memory::BlockMap& map_of(uint64_t slot) const { return context_.segment.block_map(slot); }

  /// Maps the block into one rank and wakes its waiting threads. `upgrade`: the fault hit a read-only mapping.
  void map(const Block& block, RankSlot rank, bool write, bool upgrade);
  /// Maps this block and `more` blocks behind it, all present, read-only into one rank.
  void map_run(const Block& block, uint64_t more, RankSlot rank);
  /// The bytes of a grant become the frame; mapped into `rank` in the same step when there is one.
  void install(const Block& block, const std::byte* bytes, std::optional<RankSlot> rank, bool writable);
  /// Nobody in the domain may write any more; the bytes stand still.
  void downgrade(const Block& block);
  /// Nobody in the domain maps it any more. `keep`: its bytes stay here (kept) until drop_kept.
  void withdraw(const Block& block, bool keep);
  /// The block's current bytes: kept, or in the file (which must stand still).
  const std::byte* bytes(const Block& block) const;
  bool has_kept(uint64_t slot) { return kept_.find(slot) != nullptr; }
  void drop_kept(const Block& block);
  /// Home memory gets these bytes; no rank maps the block.
  void store(const Block& block, const std::byte* bytes);

  /// Gives a run of private home memory to one rank as plain memory. False: not allowed (shared, mixed homes, no room).
  bool open_run(const Block& block, RankSlot rank);
  /// Maps into one rank, read-only, all home blocks around this one that lie in its run (a published IMMUTABLE region).
  void map_home_run(const Block& block, RankSlot rank);
  /// The region has been published: nobody in the domain may write its home memory any more.
  void seal(memory::RegionDescriptor& region);
  /// The region is about to be freed: registers its open runs again and forgets every block.
  void drop_region(memory::RegionDescriptor& region);

  BlockPool& pool() { return pool_; }

 private:
  memory::Range run_of(const memory::RegionDescriptor& region, WindowOffset at) const;
  void close_run(const Block& block);
  void close_run(const memory::RegionDescriptor& region, memory::Range run);
  void set_presence(const Block& block, uint8_t value) const;

  LaneContext& context_;
  BlockPool pool_;
  SlotMap<std::byte*> kept_;
};

}  // namespace farpage::engine
