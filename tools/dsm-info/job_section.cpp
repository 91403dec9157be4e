#include <fmt/format.h>

#include <span>

#include "runtime/base/counters.hpp"
#include "tools/dsm-info/sections.hpp"

namespace farpage::info {
namespace {

std::string line(std::string_view name, std::string_view value) { return fmt::format("  {:<28} {}\n", name, value); }

std::vector<uint32_t> ranks_of(const engine::JobShape& shape, uint32_t domain) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < shape.ranks; rank++)
    if (shape.domain_of[rank].value == domain) ranks.push_back(rank);
  return ranks;
}

// What a leader reports of its domain; others report nothing.
std::string domain_lines(const engine::Node& node) {
  const engine::JobShape& shape = node.shape();
  if (!shape.leader()) return "";
  const uint64_t home_limit = node.segment().header().home_bytes_limit.load();
  std::string text = line(
      fmt::format("domain {}", shape.domain.value),
      fmt::format("ranks [{}], leader {}", fmt::join(ranks_of(shape, shape.domain.value), ", "), shape.rank.value));
  text += line("  faults", mechanism_text(node.mechanism()));
  text += line("  cache", shape.domains == 1 ? std::string("not needed: one domain has one copy of everything")
                                             : fmt::format("{}, {} in use", bytes_text(node.options().cache_bytes),
                                                           bytes_text(node.counters().get(Counter::cached_bytes))));
  text += line("  home memory", fmt::format("{} allowed, {} in use", bytes_text(home_limit),
                                            bytes_text(node.counters().get(Counter::home_bytes))));
  if (shape.ranks_here > 1) text += line("  inside", "one shared mapping; data between its ranks uses no transport");
  for (const transport::PeerInfo& peer : node.peers())
    if (peer.peer != shape.domain)
      text += line(fmt::format("  to domain {}", peer.peer.value), peer.failed ? "failed: " + peer.failure : peer.path);
  return text;
}

}  // namespace

Result<std::vector<std::string>> gather_texts(transport::Bootstrap& bootstrap, const std::string& mine) {
  DSM_ASSIGN(const auto all, bootstrap.all_gather(std::as_bytes(std::span(mine))));
  std::vector<std::string> texts;
  for (const auto& bytes : all) texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

Result<std::string> job_section(engine::Node& node, transport::Bootstrap& bootstrap) {
  const engine::JobShape& shape = node.shape();
  DSM_ASSIGN(const auto domains, gather_texts(bootstrap, domain_lines(node)));
  std::string text =
      "job\n" +
      line("ranks", fmt::format("{} in {} domain{}, {}", shape.ranks, shape.domains, shape.domains == 1 ? "" : "s",
                                shape.one_host ? "one host" : "several hosts")) +
      line("started by", bootstrap.description()) +
      line("transport", shape.domains == 1 ? "not opened: one domain" : node.transport_text()) +
      line("window", fmt::format("{} at {}", bytes_text(node.window().bytes()), fmt::ptr(node.window().base())));
  for (const std::string& domain : domains) text += domain;
  return text;
}

}  // namespace farpage::info
