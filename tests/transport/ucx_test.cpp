// The transport over UCX inside one process: two agents, each on its own thread where they need each other, and a stranger that
// speaks bare UCX and sends what no agent would.
#include <doctest/doctest.h>
#include <poll.h>
#include <ucp/api/ucp.h>

#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/handle.hpp"
#include "transport/packet.hpp"
#include "transport/ucx_path.hpp"
#include "transport/ucx_settings.hpp"
#include "transport/ucx_transport.hpp"

namespace farpage::transport {
namespace {

using Path = UcxParameters::Path;
constexpr uint64_t kJob = 0x1234;
constexpr uint64_t kDeadlineNs = 20'000'000'000;

std::unique_ptr<UcxTransport> open_agent(uint16_t self, Path path) {
  UcxParameters parameters;
  parameters.self = AgentId{self};
  parameters.agents = 2;
  parameters.job_id = kJob;
  parameters.path = path;
  parameters.same_host = {true, true};
  parameters.connect_timeout_ms = 20'000;
  auto created = UcxTransport::create(parameters);
  REQUIRE_MESSAGE(created.ok(), (created.ok() ? "" : created.failure().message));
  return std::move(created).value();
}

struct Pair {
  explicit Pair(Path path) : a(open_agent(0, path)), b(open_agent(1, path)) {
    const std::vector<std::vector<std::byte>> addresses = {a->address(), b->address()};
    bool connected = false;
    std::thread other([&] { connected = b->connect(addresses).ok(); });
    const bool first = a->connect(addresses).ok();
    other.join();
    REQUIRE(first);
    REQUIRE(connected);
  }
  std::unique_ptr<UcxTransport> a, b;
};

struct Inbox {
  uint64_t messages = 0, misaligned = 0, wrong = 0;
  MessageClass last_class = MessageClass::Request;
  static void on_message(void* self, const Received& message) {
    auto* inbox = static_cast<Inbox*>(self);
    inbox->messages++;
    inbox->last_class = message.message_class;
    inbox->misaligned += reinterpret_cast<uintptr_t>(message.payload.data()) % 64 != 0;
    for (size_t i = 0; i < message.payload.size(); i++) inbox->wrong += message.payload[i] != static_cast<std::byte>(i * 5);
  }
};

void send_bytes(Transport& from, AgentId to, MessageClass c, uint32_t bytes) {
  const uint64_t header = bytes;
  Payload payload;
  payload.bytes = bytes;
  if (bytes != 0) payload.buffer = from.take_buffer();
  for (uint32_t i = 0; i < bytes; i++) payload.buffer.bytes()[i] = static_cast<std::byte>(i * 5);
  from.send(to, c, std::as_bytes(std::span(&header, 1)), std::move(payload));
}

// Lets both sides work until the condition holds.
template <class Condition>
bool work_until(Pair& pair, Inbox& at_a, Inbox& at_b, Condition condition) {
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + kDeadlineNs;
  while (!condition()) {
    if (clock.now_ns() > deadline) return false;
    pair.a->receive(64, Inbox::on_message, &at_a);
    pair.b->receive(64, Inbox::on_message, &at_b);
  }
  return true;
}

// A sender that knows the wire and keeps none of its rules.
class Stranger {
 public:
  explicit Stranger(const std::vector<std::byte>& address) {
    ucp_config_t* config = nullptr;
    REQUIRE(ucp_config_read(nullptr, nullptr, &config) == UCS_OK);
    REQUIRE(ucp_config_modify(config, "TLS", "tcp,self") == UCS_OK);
    REQUIRE(ucp_config_modify(config, "NET_DEVICES", "lo") == UCS_OK);
    REQUIRE(ucp_config_modify(config, "RNDV_THRESH", "inf") == UCS_OK);
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    ucp_context_h context = nullptr;
    REQUIRE(ucp_init(&parameters, config, &context) == UCS_OK);
    ucp_config_release(config);
    context_.reset(context);
    ucp_worker_params_t worker_parameters{};
    ucp_worker_h worker = nullptr;
    REQUIRE(ucp_worker_create(context, &worker_parameters, &worker) == UCS_OK);
    worker_.reset(worker);
    ucp_ep_params_t endpoint{};
    endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    endpoint.address = reinterpret_cast<const ucp_address_t*>(address.data());
    endpoint.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    REQUIRE(ucp_ep_create(worker, &endpoint, &endpoint_) == UCS_OK);
  }

  void send(std::span<const std::byte> header, std::span<const std::byte> payload) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_AM_SEND_FLAG_EAGER;
    const auto& kept_header = kept_.emplace_back(header.begin(), header.end());
    const auto& kept_payload = kept_.emplace_back(payload.begin(), payload.end());
    const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint_, kPacketAmId, kept_header.data(), kept_header.size(),
                                                     kept_payload.data(), kept_payload.size(), &parameters);
    REQUIRE_FALSE(UCS_PTR_IS_ERR(request));
    if (request != nullptr) requests_.push_back(request);
  }
  // True when everything has been taken by UCX.
  bool progress() {
    ucp_worker_progress(worker_.get());
    std::erase_if(requests_, [](void* request) {
      if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ucp_request_free(request);
      return true;
    });
    return requests_.empty();
  }

 private:
  Handle<ucp_context, &ucp_cleanup> context_;
  Handle<ucp_worker, &ucp_worker_destroy> worker_;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<void*> requests_;
  std::deque<std::vector<std::byte>> kept_;  // UCX reads them until a request is complete
};

PacketHeader good_header() {
  PacketHeader packet;
  packet.epoch = 1;
  packet.sender = 1;
  packet.job_id = kJob;
  return packet;
}

// Sends `count` messages made by `make` and lets the agent take what it accepts. Returns when all have been looked at.
template <class Make>
Inbox under_fire(UcxTransport& agent, Stranger& stranger, uint64_t count, Make make) {
  Inbox inbox;
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + kDeadlineNs;
  const auto seen = [&] { return agent.traffic().dropped_messages + agent.traffic().received_messages; };
  const uint64_t before = seen();
  for (uint64_t i = 0; i < count; i++) {
    make(stranger, i);
    if (i % 64 == 0) agent.prepare_to_sleep(), stranger.progress();
  }
  while ((!stranger.progress() || seen() - before < count) && clock.now_ns() < deadline) agent.receive(0, Inbox::on_message, &inbox);
  CHECK(seen() - before == count);
  while (agent.receive(64, Inbox::on_message, &inbox) != 0) {
  }
  return inbox;
}

}  // namespace

TEST_CASE("ucx: payloads of any size arrive whole and aligned to a cache line, over shm and tcp") {
  for (const Path path : {Path::Shm, Path::Tcp}) {
    Pair pair(path);
    Inbox at_a, at_b;
    uint64_t sent = 0;
    for (const uint32_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 4096u, 8000u, 8192u, 8193u, 32768u, 65535u, 65536u})
      for (const MessageClass c : {MessageClass::Request, MessageClass::Writeback, MessageClass::Response}) {
        send_bytes(*pair.a, AgentId{1}, c, bytes);
        sent++;
      }
    CHECK(work_until(pair, at_a, at_b, [&] { return at_b.messages == sent; }));
    CHECK(at_b.misaligned == 0);
    CHECK(at_b.wrong == 0);
    const std::string used = pair.a->peers()[1].path;
    CHECK((path == Path::Tcp ? used == "tcp (lo)" : used == "sysv (memory)" || used == "posix (memory)"));
  }
}

TEST_CASE("ucx: requests that nobody takes do not hold up a response") {
  Pair pair(Path::Shm);
  Inbox at_a, at_b;
  for (int i = 0; i < 1000; i++) send_bytes(*pair.a, AgentId{1}, MessageClass::Request, 64);
  send_bytes(*pair.a, AgentId{1}, MessageClass::Response, 64);
  CHECK(pair.a->traffic().waits_for_credit == 1000 - kCreditsPerClass);
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + kDeadlineNs;
  // Everything under way reaches the rings of b, which hands out nothing.
  while (pair.b->traffic().received_messages < kCreditsPerClass + 1 && clock.now_ns() < deadline) {
    pair.a->receive(0, Inbox::on_message, &at_a);
    pair.b->receive(0, Inbox::on_message, &at_b);
  }
  CHECK(pair.b->receive(1, Inbox::on_message, &at_b) == 1);
  CHECK(at_b.last_class == MessageClass::Response);
  CHECK(work_until(pair, at_a, at_b, [&] { return at_b.messages == 1001; }));
}

TEST_CASE("ucx: a message wakes a sleeper, over shm and tcp") {
  for (const Path path : {Path::Shm, Path::Tcp}) {
    Pair pair(path);
    Inbox at_a, at_b;
    while (!pair.b->prepare_to_sleep()) pair.b->receive(64, Inbox::on_message, &at_b);
    send_bytes(*pair.a, AgentId{1}, MessageClass::Request, 8);
    std::thread sender([&] { CHECK(pair.a->flush(10'000).ok()); });
    pollfd watched{pair.b->event_fd(), POLLIN, 0};
    CHECK(::poll(&watched, 1, 20'000) == 1);
    sender.join();
    CHECK(work_until(pair, at_a, at_b, [&] { return at_b.messages == 1; }));
  }
}

TEST_CASE("ucx: what a stranger sends is dropped and counted") {
  const auto agent = open_agent(0, Path::Tcp);
  Stranger stranger(agent->address());
  uint64_t state = 99;
  const auto random = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; };
  const Inbox inbox = under_fire(*agent, stranger, 5000, [&](Stranger& from, uint64_t i) {
    std::array<std::byte, kMaxPacketHeaderBytes + 32> bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    size_t header_bytes = random() % bytes.size();
    if (i % 2 != 0) {  // a good header with one byte spoilt that must be right
      PacketHeader packet = good_header();
      header_bytes = sizeof packet;
      std::memcpy(bytes.data(), &packet, sizeof packet);
      bytes[random() % 3] ^= std::byte{0x10};
    }
    from.send({bytes.data(), header_bytes}, {bytes.data(), random() % 2 * (random() % 100)});
  });
  CHECK(inbox.messages == 0);
  CHECK(agent->traffic().dropped_messages == 5000);
}

TEST_CASE("ucx: a sender without regard for credits fills no ring") {
  const auto agent = open_agent(0, Path::Tcp);
  Stranger stranger(agent->address());
  const Inbox inbox = under_fire(*agent, stranger, 3 * kCreditsPerClass, [](Stranger& from, uint64_t) {
    const PacketHeader packet = good_header();
    from.send(std::as_bytes(std::span(&packet, 1)), {});
  });
  CHECK(inbox.messages == kCreditsPerClass);
  CHECK(agent->traffic().dropped_messages >= 2 * kCreditsPerClass);
}

TEST_CASE("ucx settings: one named interface or none at all") {
  UcxParameters parameters;
  parameters.agents = 2;
  parameters.same_host = {true, true};
  const auto value = [&](std::string_view name) -> std::string {
    const auto settings = ucx_settings(parameters);
    if (!settings.ok()) return settings.failure().message;
    for (const UcxSetting& setting : settings.value())
      if (setting.name == name) return setting.value;
    return "";
  };
  CHECK(value("TLS") == "posix,sysv,self");
  CHECK(value("MM_ERROR_HANDLING") == "y");
  CHECK(value("NET_DEVICES") == "");
  parameters.path = Path::Tcp;
  CHECK(value("TLS") == "tcp,self");
  CHECK(value("NET_DEVICES") == "lo");
  CHECK(value("MM_ERROR_HANDLING") == "");
  for (const char* device : {"all", "any", "*", "lo,eth0", "^lo"}) {
    parameters.net_device = device;
    CHECK(value("NET_DEVICES").ends_with("must name one interface"));
  }
  parameters.net_device = "nosuch0";
  CHECK(value("NET_DEVICES").ends_with("there is no such network interface"));
  parameters.net_device = "auto";
  parameters.same_host = {true, false};
  CHECK(value("TLS").find("DSM_NET_DEVICE") != std::string::npos);
  parameters.path = Path::Auto;
  CHECK(value("TLS").find("DSM_NET_DEVICE") != std::string::npos);
  parameters.path = Path::Shm;
  CHECK(value("TLS").find("several hosts") != std::string::npos);
}

TEST_CASE("ucx path: the lane of active messages names it") {
  CHECK(path_in("#               lane[0]:  2:sysv/memory.0 md[2]           -> md[2]/sysv/sysdev[255] am am_bw#0\n") == "sysv (memory)");
  CHECK(path_in("# lane[0]:  1:cma/memory.0 md[3] -> md[3] rma_bw#0\n# lane[1]:  0:tcp/lo.0 md[1] -> md[1]/tcp am wireup\n") == "tcp (lo)");
  CHECK(path_in("") == "unknown");
}

}  // namespace farpage::transport
