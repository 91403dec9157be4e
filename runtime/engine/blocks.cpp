#include "runtime/engine/blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/check.hpp"

namespace farpage::engine {

using memory::Access;
using memory::BlockMap;
using memory::Range;

namespace {
constexpr uint64_t kMostBlocksUnderWay = 1 << 15;
constexpr uint64_t bit_of(RankSlot rank) { return uint64_t{1} << rank; }

template <class Visit>
void for_each_rank(uint64_t mask, Visit&& visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<RankSlot>(std::countr_zero(mask)));
}
}  // namespace

Blocks::Blocks(LaneContext& context) : context_(context), kept_(2 * kMostBlocksUnderWay) {}

std::optional<Block> Blocks::find(uint64_t slot) const {
  memory::RegionDescriptor* region = context_.regions.find(slot << kPageShift);
  if (region == nullptr) return std::nullopt;
  const uint64_t index = slot - (region->offset >> kPageShift);
  if (index >= region->blocks()) return std::nullopt;
  const AgentId home = context_.domain_of(region->home_of(index));
  return Block{slot, region, index, home, home == context_.self()};
}

Block Blocks::at(uint64_t slot) const {
  const auto block = find(slot);
  DSM_CHECK(block.has_value(), "slot 0x{:x}", slot);
  return *block;
}

Block Blocks::of(memory::RegionDescriptor& region, WindowOffset offset) const {
  const uint64_t index = region.block_of(offset);
  const AgentId home = context_.domain_of(region.home_of(index));
  return {region.slot(index), &region, index, home, home == context_.self()};
}

coherence::AgentEntry& Blocks::agent(const Block& block) const {
  auto& entry = *static_cast<coherence::AgentEntry*>(context_.segment.agent_entry(block.slot));
  if (block.home_here) {
    BlockMap& map = map_of(block.slot);
    if ((map.flags & memory::kStarted) == 0) {
      map.flags |= memory::kStarted;
      entry.state = coherence::AgentState::M;
    }
  }
  return entry;
}

coherence::DirectoryEntry& Blocks::directory(uint64_t slot) const {
  return *static_cast<coherence::DirectoryEntry*>(context_.segment.directory_entry(slot));
}

void Blocks::set_presence(const Block& block, uint8_t value) const {
  const Range range = block.range();
  auto* presence = context_.segment.presence() + (range.offset >> kPageShift);
  for (uint64_t page = 0; page < range.bytes >> kPageShift; page++) presence[page].store(value, std::memory_order_relaxed);
}

void Blocks::map(const Block& block, RankSlot rank, bool write, bool upgrade) {
  BlockMap& map = map_of(block.slot);
  if (block.home_here && (map.flags & memory::kInFile) == 0) {
    if (std::byte** kept = kept_.find(block.slot)) {
      context_.pages.fill(block.range(), *kept);
      drop_kept(block);
    } else {
      context_.pages.fill_zeros(block.range());
    }
    map.flags |= memory::kInFile;
  }
  if (map.flags & memory::kPrefetched) {
    map.flags &= static_cast<uint8_t>(~memory::kPrefetched);
    context_.counters().add(Counter::prefetch_hits);
  }
  map.flags |= memory::kReferenced;
  // The read copy that the store met may have been withdrawn while the thread waited: then there is nothing to lift.
  const bool still_mapped = (map.mapped & bit_of(rank)) != 0;
  map.mapped |= bit_of(rank);
  if (write) {
    map.writers |= bit_of(rank);
    set_presence(block, memory::kPresent | memory::kWritable);
  }
  if (upgrade && write && still_mapped)
    context_.pages.allow_write(rank, block.range());
  else
    context_.pages.map(rank, block.range(), write ? Access::Write : Access::Read);
}

void Blocks::map_run(const Block& block, uint64_t more, RankSlot rank) {
  for (uint64_t i = 0; i <= more; i++) {
    BlockMap& map = map_of(block.slot + i);
    map.mapped |= bit_of(rank);
    map.flags |= memory::kReferenced;
    if (map.flags & memory::kPrefetched) {
      map.flags &= static_cast<uint8_t>(~memory::kPrefetched);
      context_.counters().add(Counter::prefetch_hits);
    }
  }
  context_.pages.map(rank, {block.range().offset, (more + 1) * block.bytes()}, Access::Read);
}

void Blocks::install(const Block& block, const std::byte* bytes, std::optional<RankSlot> rank, bool writable) {
  BlockMap& map = map_of(block.slot);
  DSM_CHECK(map.mapped == 0, "block at 0x{:x}", block.range().offset);
  if (rank) {
    map.mapped = bit_of(*rank);
    map.writers = writable ? bit_of(*rank) : 0;
    map.flags |= memory::kReferenced;
    context_.pages.install(*rank, block.range(), bytes, writable ? Access::Write : Access::Read);
  } else {
    context_.pages.fill(block.range(), bytes);
  }
  map.flags |= memory::kInFile;
  set_presence(block, writable ? memory::kPresent | memory::kWritable : memory::kPresent);
}

void Blocks::downgrade(const Block& block) {
  close_run(block);
  BlockMap& map = map_of(block.slot);
  if (map.writers != 0) context_.pages.freeze(map.writers, block.range());
  map.writers = 0;
  set_presence(block, memory::kPresent);
}

void Blocks::withdraw(const Block& block, bool keep) {
  downgrade(block);
  BlockMap& map = map_of(block.slot);
  if (keep && kept_.find(block.slot) == nullptr) {
    std::byte* copy = pool_.take(block.bytes());
    std::memcpy(copy, context_.pages.view(block.range().offset), block.bytes());
    kept_.insert(block.slot, copy);
  }
  context_.pages.punch(block.range());
  map.mapped = 0;
  map.flags &= static_cast<uint8_t>(~(memory::kInFile | memory::kPrefetched | memory::kReferenced));
  set_presence(block, 0);
}

const std::byte* Blocks::bytes(const Block& block) const {
  auto& kept = const_cast<SlotMap<std::byte*>&>(kept_);
  if (std::byte** found = kept.find(block.slot)) return *found;
  return context_.pages.view(block.range().offset);
}

void Blocks::drop_kept(const Block& block) {
  std::byte** found = kept_.find(block.slot);
  if (found == nullptr) return;
  pool_.give(*found, block.bytes());
  kept_.erase(block.slot);
}

void Blocks::store(const Block& block, const std::byte* bytes) {
  DSM_CHECK(map_of(block.slot).mapped == 0, "block at 0x{:x}", block.range().offset);
  drop_kept(block);
  context_.pages.fill(block.range(), bytes);
  map_of(block.slot).flags |= memory::kInFile;
}

// The unit in which home memory is opened: 2 MiB of the region, or all of it in a job of one domain.
Range Blocks::run_of(const memory::RegionDescriptor& region, WindowOffset at) const {
  if (context_.alone()) return {region.offset, region.end() - region.offset};
  const WindowOffset begin = round_down(at, kRunBytes);
  return {begin, std::min(begin + kRunBytes, region.end()) - begin};
}

bool Blocks::open_run(const Block& block, RankSlot rank) {
  const Range run = run_of(*block.region, block.range().offset);
  memory::RunState& state = context_.segment.run_state(run.offset >> kRunShift);
  if (state.shared != 0) return false;
  if (state.open == 0) {
    const uint64_t first = block.region->block_of(run.offset);
    if (!context_.alone() && (block.region->blocks_with_same_home(first) << block.region->block_shift) < run.bytes)
      return false;
  }
  if (state.open & bit_of(rank)) {  // its fault was under way while the run was opened for another thread
    context_.pages.wake(rank, run);
    return true;
  }
  if (!context_.pages.open(rank, run)) return false;
  state.open |= bit_of(rank);
  context_.counters().add(Counter::runs_opened);
  return true;
}

void Blocks::close_run(const Block& block) {
  if (block.home_here) close_run(*block.region, run_of(*block.region, block.range().offset));
}

void Blocks::close_run(const memory::RegionDescriptor& region, Range run) {
  memory::RunState& state = context_.segment.run_state(run.offset >> kRunShift);
  state.shared = 1;
  if (state.open == 0) return;
  for_each_rank(state.open, [&](RankSlot rank) { context_.pages.close(rank, run); });
  // All of them may have mapped, and written, any block of the run.
  const uint64_t first = region.slot(region.block_of(run.offset));
  for (uint64_t i = 0; i < run.bytes >> region.block_shift; i++) {
    map_of(first + i).mapped |= state.open;
    map_of(first + i).writers |= state.open;
  }
  state.open = 0;
  context_.counters().add(Counter::runs_closed);
}

void Blocks::map_home_run(const Block& block, RankSlot rank) {
  const WindowOffset at = block.range().offset;
  const WindowOffset begin = round_down(at, kRunBytes), end = std::min(begin + kRunBytes, block.region->end());
  // Home blocks only: neighbours may live elsewhere.
  WindowOffset first = at, last = at + block.bytes();
  const auto home_here = [&](WindowOffset offset) {
    return context_.domain_of(block.region->home_of(block.region->block_of(offset))) == context_.self();
  };
  while (first > begin && home_here(first - block.bytes())) first -= block.bytes();
  while (last < end && home_here(last)) last += block.bytes();
  const Range range{first, last - first};
  context_.pages.fill_zeros(range);  // what nobody has written is zeros
  for (WindowOffset offset = first; offset < last; offset += block.bytes()) {
    BlockMap& map = map_of(block.region->slot(block.region->block_of(offset)));
    map.mapped |= bit_of(rank);
    map.flags |= memory::kInFile;
  }
  context_.pages.map(rank, range, Access::Read);
}

void Blocks::seal(memory::RegionDescriptor& region) {
  for (uint64_t block = 0; block < region.blocks();) {
    const uint64_t same = region.blocks_with_same_home(block);
    if (context_.domain_of(region.home_of(block)) != context_.self()) {
      block += same;
      continue;
    }
    const Range run = run_of(region, region.block_offset(block));
    const uint64_t writers = context_.segment.run_state(run.offset >> kRunShift).open;
    close_run(region, run);
    if (writers != 0) context_.pages.freeze(writers, run);
    const uint64_t first = region.block_of(run.offset), count = run.bytes >> region.block_shift;
    for (uint64_t i = 0; i < count; i++) {
      BlockMap& map = map_of(region.slot(first + i));
      if (map.writers & ~writers) context_.pages.freeze(map.writers & ~writers, {region.block_offset(first + i), region.block_bytes()});
      map.writers = 0;
    }
    block = first + count;
  }
}

void Blocks::drop_region(memory::RegionDescriptor& region) {
  for (WindowOffset at = region.offset; at < region.end();) {
    const Range run = run_of(region, at);
    memory::RunState& state = context_.segment.run_state(run.offset >> kRunShift);
    for_each_rank(state.open, [&](RankSlot rank) { context_.pages.close(rank, run); });
    state.open = state.shared = 0;
    at = run.offset + run.bytes;
  }
  const uint64_t first = region.slot(0);
  const auto in_region = [&](uint64_t slot) { return slot - first < region.blocks(); };
  for (bool again = kept_.size() != 0; again;) {
    uint64_t victim = UINT64_MAX;
    kept_.for_each([&](uint64_t slot, std::byte*) { victim = in_region(slot) ? slot : victim; });
    again = victim != UINT64_MAX;
    if (!again) break;
    pool_.give(*kept_.find(victim), region.block_bytes());
    kept_.erase(victim);
  }
  context_.pages.punch({region.offset, region.end() - region.offset});
  const uint64_t blocks = region.blocks(), first_page = region.offset >> kPageShift;
  context_.segment.zero(memory::Area::Directory, first * memory::kDirectoryEntryBytes, blocks * memory::kDirectoryEntryBytes);
  context_.segment.zero(memory::Area::Agents, first * memory::kAgentEntryBytes, blocks * memory::kAgentEntryBytes);
  context_.segment.zero(memory::Area::BlockMaps, first * sizeof(BlockMap), blocks * sizeof(BlockMap));
  context_.segment.zero(memory::Area::Presence, first_page, (region.end() - region.offset) >> kPageShift);
}

}  // namespace farpage::engine
