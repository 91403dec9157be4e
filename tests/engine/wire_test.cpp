// The wire codec refuses what it should, whatever the bytes; small parts of the engine that need no lane.
#include <doctest/doctest.h>

#include <cstring>

#include "runtime/engine/assembler.hpp"
#include "runtime/engine/deferred.hpp"
#include "runtime/engine/job_shape.hpp"
#include "runtime/engine/region_service.hpp"
#include "runtime/engine/wire.hpp"

namespace farpage::engine {
namespace {

WireHeader piece(uint32_t offset, uint32_t block) {
  WireHeader header;
  header.type = coherence::MessageType::DataS;
  header.piece_offset = offset;
  header.block_bytes = block;
  return header;
}

}  // namespace

TEST_CASE("wire: headers of other sizes, versions and kinds are refused") {
  WireHeader header = piece(0, 4096);
  const std::vector<std::byte> payload(4096);
  CHECK(decode(encode(header), payload).has_value());
  CHECK_FALSE(decode(encode(header).first(10), payload).has_value());
  header.version = 99;
  CHECK_FALSE(decode(encode(header), payload).has_value());
  header = piece(0, 4096);
  header.kind = static_cast<WireKind>(200);
  CHECK_FALSE(decode(encode(header), payload).has_value());
  header = piece(0, 4096);
  header.type = static_cast<coherence::MessageType>(16);
  CHECK_FALSE(decode(encode(header), payload).has_value());
}

TEST_CASE("wire: pieces must lie inside a block of a sane size") {
  const std::vector<std::byte> payload(4096);
  CHECK_FALSE(decode(encode(piece(4096, 4096)), payload).has_value());
  CHECK_FALSE(decode(encode(piece(100, 65536)), payload).has_value());
  CHECK_FALSE(decode(encode(piece(0, 5000)), payload).has_value());
  CHECK_FALSE(decode(encode(piece(0, 1u << 30)), payload).has_value());
  CHECK_FALSE(decode(encode(piece(0, 4096)), {}).has_value());
  WireHeader request;
  request.type = coherence::MessageType::GetS;
  CHECK(decode(encode(request), {}).has_value());
  CHECK_FALSE(decode(encode(request), payload).has_value());
}

TEST_CASE("wire: random headers never pass with a piece outside its block") {
  uint64_t state = 99;
  uint64_t passed = 0;
  const std::vector<std::byte> payload(8192);
  for (int i = 0; i < 300'000; i++) {
    WireHeader header = piece(0, 65536);
    auto* raw = reinterpret_cast<uint8_t*>(&header);
    for (int k = 0; k < 3; k++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      raw[state % sizeof header] = static_cast<uint8_t>(state >> 40);
    }
    const size_t bytes = (state >> 20) % payload.size();
    const auto decoded = decode(encode(header), std::span(payload).first(bytes));
    if (!decoded || decoded->kind != WireKind::Protocol || bytes == 0) continue;
    passed++;
    REQUIRE(decoded->piece_offset + bytes <= decoded->block_bytes);
    REQUIRE(decoded->block_bytes <= kMaxBlockBytes);
  }
  CHECK(passed > 0);
}

TEST_CASE("assembler: a block of pieces in any order comes out whole, whatever else arrives meanwhile") {
  BlockPool pool;
  Assembler assembler(pool);
  constexpr uint32_t kBlock = 256 * 1024, kPiece = 64 * 1024;
  std::vector<std::byte> block(kBlock), other(kBlock, std::byte{9});
  for (uint32_t i = 0; i < kBlock; i++) block[i] = static_cast<std::byte>(i * 7 + i / 4096);
  for (const uint32_t at : {3u, 0u, 2u}) {
    CHECK(assembler.add(AgentId{1}, piece(at * kPiece, kBlock), std::span(block).subspan(at * kPiece, kPiece)) == nullptr);
    CHECK(assembler.add(AgentId{2}, piece(at * kPiece, kBlock), std::span(other).subspan(at * kPiece, kPiece)) == nullptr);
  }
  const std::byte* whole = assembler.add(AgentId{1}, piece(kPiece, kBlock), std::span(block).subspan(kPiece, kPiece));
  REQUIRE(whole != nullptr);
  CHECK(std::memcmp(whole, block.data(), kBlock) == 0);
  assembler.done();
}

TEST_CASE("deferred: requests of a block come back oldest first, others stay") {
  Deferred deferred(100);
  for (uint16_t from = 0; from < 5; from++) deferred.add(7, {coherence::MessageType::GetS, AgentId{from}, 7, false});
  deferred.add(8, {coherence::MessageType::GetM, AgentId{9}, 8, false});
  for (uint16_t from = 0; from < 5; from++) CHECK(deferred.take(7)->from == AgentId{from});
  CHECK_FALSE(deferred.take(7).has_value());
  deferred.drop_if([](uint64_t slot) { return slot == 8; });
  CHECK(deferred.size() == 0);
}

TEST_CASE("slot map: entries survive the removal of their neighbours") {
  SlotMap<uint64_t> map(256);
  for (uint64_t slot = 0; slot < 100; slot++) map.insert(slot * 4096, slot);
  for (uint64_t slot = 0; slot < 100; slot += 2) map.erase(slot * 4096);
  for (uint64_t slot = 0; slot < 100; slot++) {
    const uint64_t* found = map.find(slot * 4096);
    CHECK((found != nullptr) == (slot % 2 == 1));
    if (found != nullptr) CHECK(*found == slot);
  }
}

TEST_CASE("job shape: domains by host, by rank and in groups; leaders come first") {
  const std::vector<std::string> hosts = {"a", "b", "a", "a", "b"};
  const auto shape = [&](const char* option) { return make_job_shape(RankId{3}, hosts, option).value(); };
  CHECK(shape("host").domains == 2);
  CHECK(shape("host").ranks_here == 3);
  CHECK(shape("host").slot == 2);
  CHECK_FALSE(shape("host").one_host);
  CHECK(shape("rank").domains == 5);
  CHECK(shape("2").domains == 3);
  CHECK(shape("2").leader_of[shape("2").domain.value] == RankId{3});
  CHECK(make_job_shape(RankId{0}, hosts, "0").status() == Status::InvalidArgument);
  CHECK(make_job_shape(RankId{0}, std::vector<std::string>(65, "x"), "rank").status() == Status::Unsupported);
}

TEST_CASE("region: homes of slices and interleaved chunks add up") {
  JobShape shape = make_job_shape(RankId{0}, {"a", "a", "a"}, "rank").value();
  memory::RegionDescriptor region;
  region.bytes = 100 * 4096 + 5;
  region.ranks = 3;
  region.placement = memory::Placement::Interleave;
  region.interleave_bytes = 3 * 4096;
  uint64_t sum = 0;
  for (uint16_t d = 0; d < 3; d++) sum += home_bytes_in(region, AgentId{d}, shape);
  CHECK(sum == 101 * 4096);
  uint64_t counted[3] = {};
  for (uint64_t block = 0; block < region.blocks(); block++) counted[region.home_of(block).value] += 4096;
  for (uint16_t d = 0; d < 3; d++) CHECK(counted[d] == home_bytes_in(region, AgentId{d}, shape));
  region.placement = memory::Placement::Slices;
  region.slices = 2;
  region.slice[0] = {2, {}, 0};
  region.slice[1] = {0, {}, 40 * 4096};
  CHECK(region.home_of(39) == RankId{2});
  CHECK(region.home_of(40) == RankId{0});
  CHECK(region.blocks_with_same_home(10) == 30);
  CHECK(home_ranks(region) == 2);
  CHECK_FALSE(is_home_rank(region, RankId{1}));
}

}  // namespace farpage::engine
