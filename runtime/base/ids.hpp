// Identities that cross layers. Each is its own type, so that a rank is never taken for a domain.
// Plain values: any thread, no invariants beyond the ranges named here.
#pragma once

#include <compare>
#include <cstdint>

namespace farpage {

/// A process of the job, 0 .. size-1.
struct RankId {
  uint16_t value = 0;
  auto operator<=>(const RankId&) const = default;
};

/// A domain as a home's directory knows it, 0 .. domains-1 (at most 64 today, 1,024 by the encoding).
struct AgentId {
  uint16_t value = 0;
  auto operator<=>(const AgentId&) const = default;
};

inline constexpr AgentId kNoAgent{0x3ff};
inline constexpr RankId kNoRank{0xffff};

/// A byte of the global window, counted from its base. Nothing stored or sent holds a pointer.
using WindowOffset = uint64_t;

/// A rank of this domain, 0 .. ranks_in_domain-1; bit number in writers and mapped masks.
using RankSlot = uint32_t;

inline constexpr uint32_t kMaxDomains = 64;
inline constexpr uint32_t kMaxRanksPerDomain = 64;
inline constexpr uint32_t kMaxRanks = 1024;

}  // namespace farpage
