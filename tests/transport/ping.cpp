// Agents, one a rank, ping each other over the real transport: all classes, payloads of 0 to 64 KiB, more messages than credits,
// sleeping in epoll when there is nothing to do. Contents and number are checked. With --kill the last rank dies in the middle and the
// others notice (mpirun --enable-recovery).
//   mpirun -np 4 transport_ping [--tcp] [--messages N] [--kill]
#include <mpi.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "transport/ucx_transport.hpp"

using namespace farpage;
using namespace farpage::transport;

namespace {

struct Ping {
  uint64_t number;
  uint64_t checksum;
  uint32_t answer;
};

struct Player {
  Transport* transport = nullptr;
  uint64_t answers = 0, questions = 0, wrong = 0;

  static uint64_t sum(std::span<const std::byte> bytes) {
    uint64_t value = 0;
    for (const std::byte byte : bytes) value = value * 31 + static_cast<uint64_t>(byte);
    return value;
  }
  void send(AgentId to, MessageClass c, uint64_t number, uint32_t bytes, bool answer) {
    Ping ping{number, 0, answer};
    Payload payload;
    payload.bytes = bytes;
    if (bytes != 0) {
      payload.buffer = transport->take_buffer();
      std::memset(payload.buffer.bytes(), static_cast<int>(number), bytes);
      ping.checksum = sum({payload.buffer.bytes(), bytes});
    }
    transport->send(to, c, std::as_bytes(std::span(&ping, 1)), std::move(payload));
  }
  static void on_message(void* self, const Received& message) {
    auto* player = static_cast<Player*>(self);
    Ping ping;
    std::memcpy(&ping, message.header.data(), sizeof ping);
    player->wrong += ping.checksum != sum(message.payload) || reinterpret_cast<uintptr_t>(message.payload.data()) % 64 != 0;
    if (ping.answer) {
      player->answers++;
      return;
    }
    player->questions++;
    player->send(message.from, MessageClass::Response, ping.number, static_cast<uint32_t>(message.payload.size()), true);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  uint64_t messages = 10'000;
  bool tcp = false, kill_last = false;
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    if (option == "--tcp") tcp = true;
    else if (option == "--kill") kill_last = true;
    else if (option == "--messages" && i + 1 < argc) messages = std::strtoull(argv[++i], nullptr, 10);
  }
  UcxParameters parameters;
  parameters.self = AgentId{static_cast<uint16_t>(rank)};
  parameters.agents = static_cast<uint32_t>(size);
  parameters.job_id = 4711;
  parameters.path = tcp ? UcxParameters::Path::Tcp : UcxParameters::Path::Shm;
  parameters.same_host.assign(static_cast<size_t>(size), true);
  auto created = UcxTransport::create(parameters);
  if (!created.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, created.failure().message.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  UcxTransport& transport = **created;
  const auto address = transport.address();
  int bytes = static_cast<int>(address.size());
  std::vector<int> sizes(static_cast<size_t>(size)), begins(static_cast<size_t>(size));
  MPI_Allgather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (size_t r = 0; r < sizes.size(); r++) begins[r] = total, total += sizes[r];
  std::vector<std::byte> all(static_cast<size_t>(total));
  MPI_Allgatherv(address.data(), bytes, MPI_BYTE, all.data(), sizes.data(), begins.data(), MPI_BYTE, MPI_COMM_WORLD);
  std::vector<std::vector<std::byte>> addresses;
  for (size_t r = 0; r < sizes.size(); r++) addresses.emplace_back(all.begin() + begins[r], all.begin() + begins[r] + sizes[r]);
  if (const auto connected = transport.connect(addresses); !connected.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, connected.failure().message.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  Player player{&transport};
  const uint32_t payload_sizes[] = {0, 8, 64, 4096, 65536, 777};
  const uint64_t peers = static_cast<uint64_t>(size) - 1;
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + 60'000'000'000;
  uint64_t sent = 0, sleeps = 0;
  if (kill_last && rank == size - 1) messages /= 2;
  const auto lost = [&] { return kill_last && rank != size - 1 && transport.peer_failed(AgentId{static_cast<uint16_t>(size - 1)}); };
  // Questions go out in bursts larger than the credits; then everybody answers until all is answered.
  while ((sent < messages || player.answers < messages * peers || player.questions < messages * peers) && clock.now_ns() < deadline) {
    if (kill_last && rank == size - 1 && sent >= messages) raise(SIGKILL);
    if (lost()) break;
    for (int burst = 0; burst < 200 && sent < messages && sent < player.answers / peers + 300; burst++, sent++)
      for (uint16_t to = 0; to < size; to++)
        if (to != rank) player.send(AgentId{to}, static_cast<MessageClass>(sent % kClasses), sent, payload_sizes[sent % 6], false);
    if (transport.receive(64, Player::on_message, &player) == 0 && transport.prepare_to_sleep()) {
      pollfd watched{transport.event_fd(), POLLIN, 0};
      poll(&watched, 1, 100);
      sleeps++;
    }
  }
  bool ok = player.wrong == 0 && (kill_last ? lost() : player.answers == messages * peers && player.questions == messages * peers);
  std::printf("rank %d: %llu answers, %llu questions, %llu wrong, %llu sleeps, %llu waits for credit, %s: %s\n", rank,
              static_cast<unsigned long long>(player.answers), static_cast<unsigned long long>(player.questions), static_cast<unsigned long long>(player.wrong),
              static_cast<unsigned long long>(sleeps), static_cast<unsigned long long>(transport.traffic().waits_for_credit),
              transport.peers()[rank == 0 ? 1 : 0].path.c_str(), ok ? "ok" : "FAILED");
  if (kill_last) {
    // Messages to the dead, more than any pool holds, are dropped without harm; and MPI cannot end in order any more.
    const uint64_t dropped = transport.traffic().dropped_messages;
    for (uint64_t i = 0; i < 20'000; i++) player.send(AgentId{static_cast<uint16_t>(size - 1)}, static_cast<MessageClass>(i % kClasses), i, 4096, false);
    for (int i = 0; i < 100; i++) transport.receive(64, Player::on_message, &player);
    ok = ok && transport.flush(10'000).ok() && transport.traffic().dropped_messages >= dropped + 20'000;
    std::printf("rank %d: %llu messages dropped: %s\n", rank, static_cast<unsigned long long>(transport.traffic().dropped_messages), ok ? "ok" : "FAILED");
    std::fflush(stdout);
    std::_Exit(ok ? 0 : 1);
  }
  ok = ok && transport.flush(10'000).ok();
  MPI_Barrier(MPI_COMM_WORLD);
  created.value().reset();
  MPI_Finalize();
  return ok ? 0 : 1;
}
