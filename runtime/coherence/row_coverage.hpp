// How often each row of the two tables has been taken, so that a test can say that its runs reach every row. Counted only in
// builds with FARPAGE_PLANTED_MISTAKES, which are single-threaded searches or test builds; elsewhere note_row() is nothing.
#pragma once

#include <cstdint>

namespace farpage::coherence {

enum class Table : uint8_t { Directory, Agent };

#ifdef FARPAGE_PLANTED_MISTAKES
inline uint64_t rows_taken[2][128];
inline void note_row(Table table, uint32_t row) { rows_taken[static_cast<uint8_t>(table)][row]++; }
#else
constexpr void note_row(Table, uint32_t) {}
#endif

}  // namespace farpage::coherence
