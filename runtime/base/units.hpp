// Sizes that every layer uses, and arithmetic on powers of two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farpage {

constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr uint64_t operator""_GiB(unsigned long long n) { return n << 30; }

inline constexpr uint64_t kPageBytes = 4_KiB;
inline constexpr uint32_t kPageShift = 12;
inline constexpr uint64_t kRunBytes = 2_MiB;  // regions begin on a run; open runs and the run table count in these
inline constexpr uint32_t kRunShift = 21;
inline constexpr uint64_t kMaxBlockBytes = 2_MiB;

constexpr bool is_power_of_two(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }
constexpr uint64_t round_up(uint64_t n, uint64_t power_of_two) { return (n + power_of_two - 1) & ~(power_of_two - 1); }
constexpr uint64_t round_down(uint64_t n, uint64_t power_of_two) { return n & ~(power_of_two - 1); }
constexpr uint32_t log2_exact(uint64_t power_of_two) { return static_cast<uint32_t>(__builtin_ctzll(power_of_two)); }

}  // namespace farpage
