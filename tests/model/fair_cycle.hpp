// Can a run stay for ever in some states although every kind of event gets its turn? Edges carry the kind of event that they
// are. A component of the states in question is such a run when every kind that is possible in all of its states is also taken
// inside it (weak fairness). Exact: strongly connected components, no bound on depth or on the number of kinds that alternate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace farpage::model {

inline constexpr uint8_t kWhim = 63;  // an event that need not happen: fairness forces no start and no eviction

struct Graph {
  std::vector<uint32_t> begin, to;  // the edges of state i: begin[i] .. begin[i + 1]
  std::vector<uint8_t> kind;        // of each edge, below 64
};

/// `inside`: the states to stay in.
inline bool has_fair_cycle(const Graph& graph, const std::vector<bool>& inside) {
  const auto states = static_cast<uint32_t>(inside.size());
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> number(states), low(states), component(states, kNone), next(states), open, path;
  uint32_t count = 0;
  const auto enter = [&](uint32_t state) {
    number[state] = low[state] = ++count;
    next[state] = graph.begin[state];
    open.push_back(state);
    path.push_back(state);
  };
  const auto is_fair = [&](size_t first, uint32_t root) {
    uint64_t taken = 0, always = ~uint64_t{0};
    for (size_t i = first; i < open.size(); i++) {
      uint64_t possible = 0;
      for (uint32_t e = graph.begin[open[i]]; e < graph.begin[open[i] + 1]; e++) {
        possible |= uint64_t{1} << graph.kind[e];
        if (inside[graph.to[e]] && component[graph.to[e]] == root) taken |= uint64_t{1} << graph.kind[e];
      }
      always &= possible;
    }
    always &= ~(uint64_t{1} << kWhim);
    return (always & ~taken) == 0;
  };
  for (uint32_t start = 0; start < states; start++) {
    if (!inside[start] || number[start] != 0) continue;
    enter(start);
    while (!path.empty()) {
      const uint32_t state = path.back();
      if (next[state] < graph.begin[state + 1]) {
        const uint32_t to = graph.to[next[state]++];
        if (!inside[to]) continue;
        if (number[to] == 0)
          enter(to);
        else if (component[to] == kNone)
          low[state] = std::min(low[state], number[to]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[state]);
      if (low[state] != number[state]) continue;
      size_t first = open.size();
      do component[open[--first]] = state;
      while (open[first] != state);
      if (is_fair(first, state)) return true;
      open.resize(first);
    }
  }
  return false;
}

}  // namespace farpage::model
