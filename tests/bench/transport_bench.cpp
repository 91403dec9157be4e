// Our transport beside bare UCX in one run: active-message round trips of 8 B and of 4 KiB back, and a stream of 64 KiB messages, over
// shm and tcp, both sides spinning or both asleep between messages. Medians; the ratio is what credits, headers and rings cost.
// Exit status 1 only when a measurement did not come about: times are judged by the reader, on a quiet machine.
//   transport_bench [round trips]
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/clock.hpp"
#include "transport/bare_ping.hpp"
#include "transport/ucx_transport.hpp"

using namespace farpage;
using namespace farpage::transport;

namespace {

constexpr uint64_t kDeadlineNs = 20'000'000'000;

double now_us() { return static_cast<double>(SteadyClock().now_ns()) / 1e3; }

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

struct Player {
  std::unique_ptr<UcxTransport> transport;
  AgentId other;
  bool spin = true;
  int socket = -1;  // hung up by the other side at the end
  bool hung_up = false;
  uint64_t received = 0;
  int64_t reply_bytes = -1;  // of the answer to each message; -1: none

  static void on_message(void* self, const Received&) {
    auto* player = static_cast<Player*>(self);
    player->received++;
    if (player->reply_bytes >= 0) player->send(static_cast<uint32_t>(player->reply_bytes));
  }
  void send(uint32_t bytes) {
    const uint64_t header = bytes;
    Payload payload;
    payload.bytes = bytes;
    if (bytes != 0) payload.buffer = transport->take_buffer();
    transport->send(other, MessageClass::Response, std::as_bytes(std::span(&header, 1)), std::move(payload));
  }
  void step() {
    if (transport->receive(64, on_message, this) != 0) return;
    if (spin) {
      sched_yield();
    } else if (transport->prepare_to_sleep()) {
      pollfd watched[] = {{transport->event_fd(), POLLIN, 0}, {socket, POLLIN, 0}};
      ::poll(watched, 2, 100);
      hung_up = watched[1].revents != 0;
    }
  }
  bool wait_for(uint64_t messages) {
    const SteadyClock clock;
    const uint64_t deadline = clock.now_ns() + kDeadlineNs;
    while (received < messages) {
      step();
      if (received < messages && clock.now_ns() > deadline) return false;
    }
    return true;
  }
};

bool open(Player& player, uint16_t self, bool tcp, int socket) {
  UcxParameters parameters;
  parameters.self = AgentId{self};
  parameters.agents = 2;
  parameters.path = tcp ? UcxParameters::Path::Tcp : UcxParameters::Path::Shm;
  parameters.same_host = {true, true};
  player.other = AgentId{static_cast<uint16_t>(1 - self)};
  auto created = UcxTransport::create(parameters);
  if (!created.ok()) return std::fprintf(stderr, "%s\n", created.failure().message.c_str()), false;
  player.transport = std::move(created).value();
  std::vector<std::vector<std::byte>> addresses(2, player.transport->address());
  auto& theirs = addresses[player.other.value];
  if (::send(socket, addresses[self].data(), addresses[self].size(), MSG_NOSIGNAL) < 0) return false;
  theirs.resize(65536);
  const ssize_t bytes = ::recv(socket, theirs.data(), theirs.size(), 0);
  if (bytes <= 0) return false;
  theirs.resize(static_cast<size_t>(bytes));
  return player.transport->connect(addresses).ok();
}

// Runs `measure` here against a child that answers each message with `reply_bytes` (-1: not), until we hang up.
template <class Measure>
bool against_child(bool tcp, bool spin, int64_t reply_bytes, Measure measure) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return false;
  const pid_t child = ::fork();
  const int socket = ends[child == 0 ? 1 : 0];
  ::close(ends[child == 0 ? 0 : 1]);
  Player player;
  player.spin = spin;
  player.socket = socket;
  bool ok = open(player, child == 0 ? 1 : 0, tcp, socket);
  if (child == 0) {
    player.reply_bytes = reply_bytes;
    pollfd watched{socket, POLLIN, 0};
    const double deadline = now_us() + 2 * kDeadlineNs / 1e3;
    for (uint32_t i = 0; ok && !player.hung_up && now_us() < deadline; i++) {
      player.step();
      if (spin && i % 256 == 0) player.hung_up = ::poll(&watched, 1, 0) != 0;
    }
    ::_exit(0);
  }
  ok = ok && measure(player);
  ::close(socket);
  ::waitpid(child, nullptr, 0);
  return ok;
}

double our_round_trip_us(bool tcp, bool spin, uint32_t reply_bytes, uint32_t count) {
  std::vector<double> samples;
  against_child(tcp, spin, reply_bytes, [&](Player& player) {
    for (uint32_t i = 0; i < count; i++) {
      const double begin = now_us();
      player.send(0);
      if (!player.wait_for(i + 1)) return false;
      samples.push_back(now_us() - begin);
    }
    return true;
  });
  return median(samples);
}

double our_stream_mib_s(bool tcp, uint32_t bytes, uint32_t count) {
  double mib_s = 0;
  against_child(tcp, true, 0, [&](Player& player) {
    constexpr uint32_t kAhead = 64;
    const double begin = now_us();
    for (uint32_t i = 0; i < count; i++) {
      player.send(bytes);
      player.transport->receive(64, Player::on_message, &player);
      if (i >= kAhead && !player.wait_for(i + 1 - kAhead)) return false;
    }
    if (!player.wait_for(count)) return false;
    mib_s = static_cast<double>(bytes) * count / (now_us() - begin) / 1.048576;
    return true;
  });
  return mib_s;
}

bool print(const char* path, const char* mode, const char* what, const char* unit, double ours, double bare, double ratio) {
  std::printf("%-4s %-9s %-22s ours %9.2f  bare %9.2f %s  %.2fx\n", path, mode, what, ours, bare, unit, ratio);
  std::fflush(stdout);
  return ours > 0 && bare > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t count = argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 5000;
  bool ok = count > 0;
  for (const bool tcp : {false, true}) {
    const char* path = tcp ? "tcp" : "shm";
    for (const bool spin : {true, false})
      for (const uint32_t reply : {8u, 4096u}) {
        const double ours = our_round_trip_us(tcp, spin, reply == 8 ? 0 : reply, count);
        const double bare = median(bare_round_trip_us(tcp, spin, 8, reply, count));
        ok &= print(path, spin ? "spinning" : "sleeping", reply == 8 ? "round trip 8 B" : "round trip 8 B/4 KiB", "us", ours, bare, ours / bare);
      }
    const double ours = our_stream_mib_s(tcp, 65536, count), bare = bare_stream_mib_s(tcp, 65536, count);
    ok &= print(path, "spinning", "stream of 64 KiB", "MiB/s", ours, bare, bare / ours);
  }
  return ok ? 0 : 1;
}
