// Packets, loopback and mischief: what the interface promises, without a network.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <thread>

#include "transport/faulty.hpp"
#include "transport/loopback.hpp"
#include "transport/packet.hpp"

namespace farpage::transport {
namespace {

struct Note {
  uint64_t number;
  uint64_t checksum;
};

struct Inbox {
  std::vector<uint64_t> numbers;
  uint64_t wrong = 0, misaligned = 0;
  static void on_message(void* self, const Received& message) {
    auto* inbox = static_cast<Inbox*>(self);
    Note note;
    std::memcpy(&note, message.header.data(), sizeof note);
    uint64_t sum = 0;
    for (const std::byte byte : message.payload) sum = sum * 31 + static_cast<uint64_t>(byte);
    inbox->wrong += sum != note.checksum;
    inbox->misaligned += reinterpret_cast<uintptr_t>(message.payload.data()) % 64 != 0;
    inbox->numbers.push_back(note.number);
  }
};

void send_note(Transport& transport, AgentId to, MessageClass c, uint64_t number, uint32_t bytes) {
  Note note{number, 0};
  Payload payload;
  payload.bytes = bytes;
  if (bytes != 0) {
    payload.buffer = transport.take_buffer();
    for (uint32_t i = 0; i < bytes; i++) {
      payload.buffer.bytes()[i] = static_cast<std::byte>(number + i * 7);
      note.checksum = note.checksum * 31 + static_cast<uint64_t>(payload.buffer.bytes()[i]);
    }
  }
  transport.send(to, c, std::as_bytes(std::span(&note, 1)), std::move(payload));
}

constexpr PacketRules kRules{77, 3, 0, 4};

PacketHeader good_header() {
  PacketHeader packet;
  packet.epoch = 3;
  packet.sender = 2;
  packet.job_id = 77;
  packet.header_bytes = 8;
  return packet;
}

std::vector<std::byte> bytes_of(const PacketHeader& packet, size_t extra) {
  std::vector<std::byte> bytes(sizeof packet + extra);
  std::memcpy(bytes.data(), &packet, sizeof packet);
  return bytes;
}

}  // namespace

TEST_CASE("packet: a message of this job, epoch and a known sender is taken") {
  CHECK(check_packet(bytes_of(good_header(), 8), 0, kRules).has_value());
}

TEST_CASE("packet: other jobs, epochs, senders, versions and sizes are refused") {
  const auto refused = [](auto&& spoil) {
    PacketHeader packet = good_header();
    spoil(packet);
    return !check_packet(bytes_of(packet, 8), 0, kRules).has_value();
  };
  CHECK(refused([](PacketHeader& p) { p.job_id = 78; }));
  CHECK(refused([](PacketHeader& p) { p.epoch = 2; }));
  CHECK(refused([](PacketHeader& p) { p.sender = 4; }));
  CHECK(refused([](PacketHeader& p) { p.sender = 0; }));  // ourselves
  CHECK(refused([](PacketHeader& p) { p.version = 9; }));
  CHECK(refused([](PacketHeader& p) { p.magic = 0; }));
  CHECK(refused([](PacketHeader& p) { p.packet_class = 4; }));
  CHECK(refused([](PacketHeader& p) { p.header_bytes = 9; }));
  CHECK(refused([](PacketHeader& p) { p.payload_bytes = 1; }));
  CHECK(refused([](PacketHeader& p) { p.credits[1] = kCreditsPerClass + 1; }));
  CHECK_FALSE(check_packet(bytes_of(good_header(), 8), kMaxPayloadBytes + 1, kRules).has_value());
  CHECK_FALSE(check_packet({}, 0, kRules).has_value());
}

TEST_CASE("packet: random bytes are refused or give bounded fields") {
  uint64_t state = 12345;
  uint64_t taken = 0;
  for (int i = 0; i < 200'000; i++) {
    PacketHeader packet = good_header();
    auto* raw = reinterpret_cast<uint8_t*>(&packet);
    for (int k = 0; k < 2; k++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      raw[state % sizeof packet] = static_cast<uint8_t>(state >> 32);
    }
    const auto checked = check_packet(bytes_of(packet, state >> 60), 0, kRules);
    if (!checked) continue;
    taken++;
    REQUIRE(checked->sender < 4);
    REQUIRE(checked->packet_class <= kControlPacket);
    REQUIRE(checked->header_bytes <= kMaxHeaderBytes);
  }
  CHECK(taken > 0);
  CHECK(taken < 100'000);
}

TEST_CASE("loopback: every message arrives once, whole and aligned, beyond the credits too") {
  auto agents = make_loopback(2);
  constexpr uint64_t kMessages = 1000;  // more than all credits
  for (uint64_t i = 0; i < kMessages; i++) send_note(*agents[0], AgentId{1}, MessageClass::Request, i, i % 3 == 0 ? 4096 : 0);
  CHECK(agents[0]->traffic().waits_for_credit > 0);
  Inbox inbox;
  for (int turn = 0; turn < 1000 && inbox.numbers.size() < kMessages; turn++) {
    agents[1]->receive(64, Inbox::on_message, &inbox);
    agents[0]->receive(64, Inbox::on_message, &inbox);  // hands over what waited
  }
  CHECK(inbox.numbers.size() == kMessages);
  CHECK(std::set<uint64_t>(inbox.numbers.begin(), inbox.numbers.end()).size() == kMessages);
  CHECK(inbox.wrong == 0);
  CHECK(inbox.misaligned == 0);
}

TEST_CASE("loopback: requests that nobody takes do not hold up a response") {
  auto agents = make_loopback(2);
  for (uint64_t i = 0; i < 500; i++) send_note(*agents[0], AgentId{1}, MessageClass::Request, i, 0);
  send_note(*agents[0], AgentId{1}, MessageClass::Response, 9999, 64);
  Inbox inbox;
  agents[1]->receive(1, Inbox::on_message, &inbox);
  REQUIRE(inbox.numbers.size() == 1);
  CHECK(inbox.numbers[0] == 9999);
}

TEST_CASE("loopback: a sleeper is woken") {
  auto agents = make_loopback(2);
  CHECK(agents[1]->prepare_to_sleep());
  send_note(*agents[0], AgentId{1}, MessageClass::Request, 1, 0);
  CHECK_FALSE(agents[1]->prepare_to_sleep());
}

TEST_CASE("faulty: the same seed loses, doubles and reorders the same messages") {
  const auto run = [](const Mischief& mischief) {
    auto agents = make_loopback(2);
    auto faulty = make_faulty(std::move(agents[1]), mischief);
    Inbox inbox;
    for (uint64_t i = 0; i < 300; i++) {
      send_note(*agents[0], AgentId{1}, MessageClass::Request, i, 512);
      faulty->receive(8, Inbox::on_message, &inbox);
      agents[0]->receive(8, Inbox::on_message, &inbox);
    }
    for (int i = 0; i < 100; i++) faulty->receive(8, Inbox::on_message, &inbox);
    CHECK(inbox.wrong == 0);
    return inbox.numbers;
  };
  const Mischief all{.seed = 5, .delay_percent = 40, .reorder = true, .duplicate_percent = 10, .lose_percent = 10};
  CHECK(run(all) == run(all));
  const auto delayed = run({.seed = 5, .delay_percent = 40, .reorder = true, .sticky_payloads = true});
  CHECK(delayed.size() == 300);
  CHECK_FALSE(std::is_sorted(delayed.begin(), delayed.end()));
  const auto lossy = run({.seed = 5, .lose_percent = 20});
  CHECK(lossy.size() < 300);
  const auto doubled = run({.seed = 5, .duplicate_percent = 20});
  CHECK(doubled.size() > 300);
}

}  // namespace farpage::transport
