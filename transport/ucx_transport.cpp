// One piece: worker, endpoints, sends and receives of one lane share the life of the worker and are read together.
#include "transport/ucx_transport.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/handle.hpp"
#include "runtime/base/log.hpp"
#include "transport/buffer_pool.hpp"
#include "transport/packet.hpp"
#include "transport/ucx_path.hpp"
#include "transport/ucx_settings.hpp"
#include "transport/ucx_status.hpp"

namespace farpage::transport {
namespace {

using UcpConfig = Handle<ucp_config_t, &ucp_config_release>;
using UcpContext = Handle<ucp_context, &ucp_cleanup>;
using UcpWorker = Handle<ucp_worker, &ucp_worker_destroy>;

constexpr unsigned kProgressPerReceive = 16;

// A message on its way out: header and payload stay put until UCX has taken them.
struct SendOperation {
  std::array<std::byte, kMaxPacketHeaderBytes> header;
  uint32_t header_bytes = 0;
  Payload payload;
  class UcxTransportImpl* owner = nullptr;
  uint16_t peer = 0;
  uint8_t packet_class = 0;
  SendOperation* next = nullptr;
};

// A message that has arrived. The payload is UCX's own buffer, given back after the handler.
struct Arrival {
  uint16_t from = 0;
  uint8_t header_bytes = 0;
  std::array<std::byte, kMaxHeaderBytes> header;
  void* ucx_payload = nullptr;
  PoolBuffer copied;
  uint32_t payload_bytes = 0;
};

struct Ring {
  std::vector<Arrival> entries;
  uint64_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

struct Peer {
  ucp_ep_h endpoint = nullptr;
  bool failed = false;
  ucs_status_t failure = UCS_OK;
  bool hello = false;
  std::array<uint32_t, kClasses> credits{kCreditsPerClass, kCreditsPerClass, kCreditsPerClass};
  std::array<uint16_t, kClasses> held{};  // its messages in our rings
  std::array<uint16_t, kClasses> owed{};  // credits that it gets back with our next packet
  std::array<SendOperation*, kClasses> first{}, last{};
};

class UcxTransportImpl final : public UcxTransport {
 public:
  explicit UcxTransportImpl(const UcxParameters& parameters)
      : parameters_(parameters),
        rules_{parameters.job_id, parameters.epoch, parameters.self.value, parameters.agents},
        peers_(parameters.agents),
        pool_(uint64_t{parameters.agents} * kClasses * kCreditsPerClass * 4,
              [this](std::byte* begin, size_t bytes) { register_chunk(begin, bytes); }) {
    for (Ring& ring : rings_) ring.entries.resize(uint64_t{parameters.agents} * kCreditsPerClass);
    operations_.resize(uint64_t{parameters.agents} * kClasses * kCreditsPerClass * 4);
    for (SendOperation& operation : operations_) {
      operation.owner = this;
      operation.next = free_operations_;
      free_operations_ = &operation;
    }
  }
  ~UcxTransportImpl() override { close(); }

  Result<> open();
  std::vector<std::byte> address() const override { return address_; }
  Result<> connect(const std::vector<std::vector<std::byte>>& addresses) override;

  AgentId self() const override { return parameters_.self; }
  uint32_t agents() const override { return parameters_.agents; }
  PoolBuffer take_buffer() override { return pool_.take(); }
  void send(AgentId to, MessageClass message_class, std::span<const std::byte> header, Payload payload) override;
  uint32_t receive(uint32_t limit, ReceiveHandler handler, void* context) override;
  int event_fd() const override { return event_fd_; }
  bool prepare_to_sleep() override;
  Result<> flush(uint64_t timeout_ms) override;
  bool peer_failed(AgentId peer) const override { return peers_[peer.value].failed; }
  std::vector<PeerInfo> peers() const override;
  Traffic traffic() const override { return traffic_; }
  std::string version_text() const override;

 private:
  void register_chunk(std::byte* begin, size_t bytes);
  SendOperation* take_operation();
  void give_operation(SendOperation* operation);
  void post(SendOperation* operation);
  void post_waiting();
  void sleep(const Clock& clock, uint64_t since_ns);
  void send_control(uint16_t peer, uint8_t hello);
  void accept(const PacketHeader& packet, std::span<const std::byte> header, void* data, size_t bytes, bool may_keep, bool& kept);
  std::string path_of(const Peer& peer) const;
  void close();

  static ucs_status_t on_receive(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* parameters);
  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_endpoint_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  UcxParameters parameters_;
  PacketRules rules_;
  std::vector<Peer> peers_;
  UcpContext context_;
  UcpWorker worker_;
  std::vector<ucp_mem_h> registrations_;
  BufferPool pool_;
  std::deque<SendOperation> operations_;
  SendOperation* free_operations_ = nullptr;
  std::array<Ring, kClasses> rings_;
  std::vector<std::byte> address_;
  int event_fd_ = -1;
  uint64_t under_way_ = 0;  // operations taken and not given back
  uint64_t waiting_ = 0;    // of these without credit
  Traffic traffic_;
};

Result<> UcxTransportImpl::open() {
  ucp_config_t* raw_config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw_config);
  if (status != UCS_OK) return ucx_error(status, "reading UCX's configuration");
  const UcpConfig config(raw_config);
  DSM_ASSIGN(const std::vector<UcxSetting> settings, ucx_settings(parameters_));
  for (const UcxSetting& setting : settings) {
    status = ucp_config_modify(config.get(), setting.name, setting.value.c_str());
    if (status != UCS_OK) return ucx_error(status, setting.name);
  }

  ucp_params_t context_parameters{};
  context_parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  context_parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  context_parameters.estimated_num_eps = parameters_.agents;
  ucp_context_h context = nullptr;
  status = ucp_init(&context_parameters, config.get(), &context);
  if (status != UCS_OK) return ucx_error(status, "starting UCX");
  context_.reset(context);

  ucp_worker_params_t worker_parameters{};
  worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  worker_parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // opened by dsm_init's thread, then the lane's
  worker_parameters.am_alignment = 64;  // copies collapse when source and destination differ modulo a cache line
  ucp_worker_h worker = nullptr;
  status = ucp_worker_create(context, &worker_parameters, &worker);
  if (status != UCS_OK) return ucx_error(status, "creating a UCX worker");
  worker_.reset(worker);
  status = ucp_worker_get_efd(worker, &event_fd_);
  if (status != UCS_OK) return ucx_error(status, "asking UCX for an event descriptor");

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kPacketAmId;
  handler.cb = on_receive;
  handler.arg = this;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  status = ucp_worker_set_am_recv_handler(worker, &handler);
  if (status != UCS_OK) return ucx_error(status, "setting the UCX message handler");

  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucp_worker_get_address(worker, &address, &bytes);
  if (status != UCS_OK) return ucx_error(status, "asking UCX for the worker's address");
  const auto* begin = reinterpret_cast<const std::byte*>(address);
  address_.assign(begin, begin + bytes);
  ucp_worker_release_address(worker, address);
  return success();
}

void UcxTransportImpl::register_chunk(std::byte* begin, size_t bytes) {
  ucp_mem_map_params_t map{};
  map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  map.address = begin;
  map.length = bytes;
  ucp_mem_h handle = nullptr;
  if (ucp_mem_map(context_.get(), &map, &handle) == UCS_OK) registrations_.push_back(handle);
}

Result<> UcxTransportImpl::connect(const std::vector<std::vector<std::byte>>& addresses) {
  for (uint16_t peer = 0; peer < parameters_.agents; peer++) {
    if (AgentId{peer} == parameters_.self) continue;
    ucp_ep_params_t endpoint{};
    endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    endpoint.address = reinterpret_cast<const ucp_address_t*>(addresses[peer].data());
    endpoint.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    endpoint.err_handler.cb = on_endpoint_error;
    endpoint.err_handler.arg = &peers_[peer];
    const ucs_status_t status = ucp_ep_create(worker_.get(), &endpoint, &peers_[peer].endpoint);
    if (status != UCS_OK)
      return error(status_of(status), "connecting to domain {}: {} (DSM_TRANSPORT, UCX_TLS)", peer, ucs_status_string(status));
  }
  // Both ways have worked when the peer's hello and the answer to ours are here.
  const SteadyClock clock;
  const uint64_t begin = clock.now_ns(), deadline = begin + parameters_.connect_timeout_ms * 1'000'000;
  for (uint16_t peer = 0; peer < parameters_.agents; peer++)
    if (AgentId{peer} != parameters_.self) send_control(peer, 1);
  for (;;) {
    while (ucp_worker_progress(worker_.get()) != 0) {
    }
    bool all = true;
    for (uint16_t peer = 0; peer < parameters_.agents; peer++) {
      if (AgentId{peer} == parameters_.self) continue;
      if (peers_[peer].failed)
        return error(Status::PeerLost, "domain {} was lost while connecting: {}", peer, ucs_status_string(peers_[peer].failure));
      all = all && peers_[peer].hello;
    }
    if (all) break;
    if (clock.now_ns() >= deadline) {
      for (uint16_t peer = 0; peer < parameters_.agents; peer++)
        if (AgentId{peer} != parameters_.self && !peers_[peer].hello)
          return error(Status::TimedOut, "domain {} did not answer within {} ms", peer, parameters_.connect_timeout_ms);
    }
    sleep(clock, begin);
  }
  for (uint16_t peer = 0; peer < parameters_.agents; peer++) {
    if (AgentId{peer} == parameters_.self || !parameters_.same_host[peer] || parameters_.path == UcxParameters::Path::Tcp) continue;
    const std::string path = path_of(peers_[peer]);
    if (path.starts_with("tcp")) log_warn("domain {} is on this host but is reached over {}: shared memory was lost", peer, path);
  }
  return success();
}

// --- sending -------------------------------------------------------------------------------------------------------------

SendOperation* UcxTransportImpl::take_operation() {
  DSM_CHECK(free_operations_ != nullptr, "{} messages on their way out", under_way_);
  SendOperation* operation = free_operations_;
  free_operations_ = operation->next;
  operation->next = nullptr;
  under_way_++;
  return operation;
}

void UcxTransportImpl::give_operation(SendOperation* operation) {
  operation->payload = Payload{};
  operation->next = free_operations_;
  free_operations_ = operation;
  under_way_--;
}

void UcxTransportImpl::send(AgentId to, MessageClass message_class, std::span<const std::byte> header, Payload payload) {
  DSM_CHECK(header.size() <= kMaxHeaderBytes && payload.bytes <= kMaxPayloadBytes && to != parameters_.self);
  SendOperation* operation = take_operation();
  std::memcpy(operation->header.data() + sizeof(PacketHeader), header.data(), header.size());
  operation->header_bytes = static_cast<uint32_t>(sizeof(PacketHeader) + header.size());
  operation->payload = std::move(payload);
  operation->peer = to.value;
  operation->packet_class = static_cast<uint8_t>(message_class);
  Peer& peer = peers_[to.value];
  const size_t c = operation->packet_class;
  if (!peer.failed && (peer.credits[c] == 0 || peer.first[c] != nullptr)) {
    traffic_.waits_for_credit++;
    waiting_++;
    (peer.last[c] == nullptr ? peer.first[c] : peer.last[c]->next) = operation;
    peer.last[c] = operation;
    return;
  }
  if (!peer.failed) peer.credits[c]--;
  post(operation);  // drops it if the peer has failed
}

// Posts what has waited for credit and has it now. What waits for a failed peer is dropped: nobody would return its credits.
void UcxTransportImpl::post_waiting() {
  if (waiting_ == 0) return;
  for (Peer& peer : peers_)
    for (uint8_t c = 0; c < kClasses; c++)
      while (peer.first[c] != nullptr && (peer.credits[c] != 0 || peer.failed)) {
        SendOperation* operation = std::exchange(peer.first[c], peer.first[c]->next);
        if (peer.first[c] == nullptr) peer.last[c] = nullptr;
        operation->next = nullptr;
        waiting_--;
        if (!peer.failed) peer.credits[c]--;
        post(operation);
      }
}

void UcxTransportImpl::send_control(uint16_t peer, uint8_t hello) {
  SendOperation* operation = take_operation();
  operation->header_bytes = sizeof(PacketHeader);
  operation->peer = peer;
  operation->packet_class = kControlPacket;
  PacketHeader packet;
  packet.hello = hello;
  std::memcpy(operation->header.data(), &packet, sizeof packet);
  post(operation);
}

void UcxTransportImpl::post(SendOperation* operation) {
  Peer& peer = peers_[operation->peer];
  if (peer.failed || peer.endpoint == nullptr) {
    traffic_.dropped_messages++;
    return give_operation(operation);
  }
  PacketHeader packet;
  if (operation->packet_class == kControlPacket) std::memcpy(&packet, operation->header.data(), sizeof packet);
  packet.packet_class = operation->packet_class;
  packet.epoch = rules_.epoch;
  packet.sender = rules_.self;
  packet.job_id = rules_.job_id;
  packet.credits = std::exchange(peer.owed, {});
  packet.header_bytes = static_cast<uint8_t>(operation->header_bytes - sizeof packet);
  packet.payload_bytes = operation->payload.bytes;
  std::memcpy(operation->header.data(), &packet, sizeof packet);
  const void* bytes = operation->payload.buffer ? operation->payload.buffer.bytes() : operation->payload.borrowed.data();
  traffic_.sent_messages++;
  traffic_.sent_bytes += operation->header_bytes + operation->payload.bytes;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = on_sent;
  parameters.user_data = operation;
  const ucs_status_ptr_t sent = ucp_am_send_nbx(peer.endpoint, kPacketAmId, operation->header.data(), operation->header_bytes, bytes,
                                                operation->payload.bytes, &parameters);
  if (UCS_PTR_IS_PTR(sent)) return;  // on_sent follows
  if (UCS_PTR_IS_ERR(sent)) traffic_.dropped_messages++;
  give_operation(operation);
}

void UcxTransportImpl::on_sent(void* request, ucs_status_t, void* user_data) {
  auto* operation = static_cast<SendOperation*>(user_data);
  operation->owner->give_operation(operation);
  ucp_request_free(request);
}

void UcxTransportImpl::on_endpoint_error(void* user_data, ucp_ep_h, ucs_status_t status) {
  auto* peer = static_cast<Peer*>(user_data);  // only marked here; closed by close()
  peer->failed = true;
  peer->failure = status;
}

// --- receiving -----------------------------------------------------------------------------------------------------------

ucs_status_t UcxTransportImpl::on_receive(void* user_data, const void* header, size_t header_bytes, void* data, size_t bytes,
                                          const ucp_am_recv_param_t* parameters) {
  auto* self = static_cast<UcxTransportImpl*>(user_data);
  const std::span<const std::byte> head(static_cast<const std::byte*>(header), header_bytes);
  const auto packet = check_packet(head, bytes, self->rules_);
  if (!packet || (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self->traffic_.dropped_messages++;
    return UCS_OK;
  }
  bool kept = false;
  self->accept(*packet, head.subspan(sizeof(PacketHeader)), data, bytes, (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0, kept);
  return kept ? UCS_INPROGRESS : UCS_OK;
}

void UcxTransportImpl::accept(const PacketHeader& packet, std::span<const std::byte> header, void* data, size_t bytes, bool may_keep,
                              bool& kept) {
  Peer& peer = peers_[packet.sender];
  const uint8_t in_class = packet.packet_class;
  if (in_class < kClasses && peer.held[in_class] + peer.owed[in_class] >= kCreditsPerClass) {
    traffic_.dropped_messages++;  // beyond its credits: not a peer of ours, or a broken one
    return;
  }
  traffic_.received_messages++;
  traffic_.received_bytes += sizeof packet + header.size() + bytes;
  for (uint8_t c = 0; c < kClasses; c++) {
    if (packet.credits[c] == 0) continue;
    peer.credits[c] = std::min<uint32_t>(peer.credits[c] + packet.credits[c], kCreditsPerClass);
  }
  if (in_class == kControlPacket) {
    if (packet.hello == 1) send_control(packet.sender, 2);
    if (packet.hello == 2) peer.hello = true;
    return;
  }
  Ring& ring = rings_[in_class];
  peer.held[in_class]++;  // at most kCreditsPerClass a peer: the ring has room
  Arrival& arrival = ring.entries[ring.end++ % ring.entries.size()];
  arrival.from = packet.sender;
  arrival.header_bytes = static_cast<uint8_t>(header.size());
  std::memcpy(arrival.header.data(), header.data(), header.size());
  arrival.payload_bytes = static_cast<uint32_t>(bytes);
  arrival.ucx_payload = nullptr;
  if (bytes == 0) return;
  if (may_keep && reinterpret_cast<uintptr_t>(data) % 64 == 0) {
    arrival.ucx_payload = data;
    kept = true;
  } else {
    arrival.copied = pool_.take();
    std::memcpy(arrival.copied.bytes(), data, bytes);
  }
}

uint32_t UcxTransportImpl::receive(uint32_t limit, ReceiveHandler handler, void* context) {
  for (unsigned i = 0; i < kProgressPerReceive && ucp_worker_progress(worker_.get()) != 0; i++) {
  }
  uint32_t handled = 0;
  for (const MessageClass c : {MessageClass::Response, MessageClass::Writeback, MessageClass::Request}) {
    Ring& ring = rings_[static_cast<size_t>(c)];
    while (!ring.empty() && handled < limit) {
      Arrival& arrival = ring.entries[ring.begin % ring.entries.size()];
      const auto* payload = static_cast<const std::byte*>(arrival.ucx_payload);
      if (payload == nullptr && arrival.copied) payload = arrival.copied.bytes();
      handler(context, {AgentId{arrival.from}, c, std::span(arrival.header.data(), arrival.header_bytes), {payload, arrival.payload_bytes}});
      if (arrival.ucx_payload != nullptr) ucp_am_data_release(worker_.get(), arrival.ucx_payload);
      arrival.ucx_payload = nullptr;
      arrival.copied = PoolBuffer{};
      Peer& peer = peers_[arrival.from];
      peer.held[static_cast<size_t>(c)]--;
      ring.begin++;
      handled++;
      // Half of its credits are owed: do not wait for a message that would carry them.
      if (++peer.owed[static_cast<size_t>(c)] >= kCreditsPerClass / 2) send_control(arrival.from, 0);
    }
  }
  post_waiting();
  return handled;
}

bool UcxTransportImpl::prepare_to_sleep() {
  // UCX wants some progress before it lets itself be armed: that is no activity.
  for (int turn = 0; turn < 64; turn++) {
    for (const Ring& ring : rings_)
      if (!ring.empty()) return false;
    if (ucp_worker_arm(worker_.get()) == UCS_OK) return true;
    ucp_worker_progress(worker_.get());
    if (turn >= 2 && under_way_ > waiting_) {
      // The peer's queue in shared memory is full and nothing will tell when it is not: let the peer have the core.
      ::sched_yield();
      return false;
    }
  }
  return false;
}

// --- the end ---------------------------------------------------------------------------------------------------------------

// Gives way; after 2 ms also sleeps until UCX has something, 10 ms at most (credits and failures of others wake nobody).
void UcxTransportImpl::sleep(const Clock& clock, uint64_t since_ns) {
  if (clock.now_ns() - since_ns < 2'000'000) {
    ::sched_yield();
  } else if (ucp_worker_arm(worker_.get()) == UCS_OK) {
    pollfd watched{event_fd_, POLLIN, 0};
    ::poll(&watched, 1, 10);
  }
}

// Until UCX has taken every message, so that buffers and borrowed memory are free. Not ucp_ep_flush: over tcp it needs progress
// at the peer, which may be gone already.
Result<> UcxTransportImpl::flush(uint64_t timeout_ms) {
  const SteadyClock clock;
  const uint64_t begin = clock.now_ns(), deadline = begin + timeout_ms * 1'000'000;
  while (under_way_ != 0) {
    if (ucp_worker_progress(worker_.get()) == 0) sleep(clock, begin);
    post_waiting();
    if (clock.now_ns() >= deadline) return error(Status::TimedOut, "{} messages could not be sent within {} ms", under_way_, timeout_ms);
  }
  while (ucp_worker_progress(worker_.get()) != 0) {  // what UCX keeps in buffers of its own goes to the kernel
  }
  return success();
}

void UcxTransportImpl::close() {
  if (!worker_) return;
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + 2'000'000'000;
  for (Ring& ring : rings_)
    for (; !ring.empty(); ring.begin++) {
      Arrival& arrival = ring.entries[ring.begin % ring.entries.size()];
      if (arrival.ucx_payload != nullptr) ucp_am_data_release(worker_.get(), arrival.ucx_payload);
      arrival.copied = PoolBuffer{};
    }
  // Closing needs progress, and must be over before the worker goes. Everything has been flushed: force.
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(peer.endpoint, &parameters);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    peer.endpoint = nullptr;
  }
  for (const ucs_status_ptr_t request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && clock.now_ns() < deadline) ucp_worker_progress(worker_.get());
    ucp_request_free(request);
  }
  while (ucp_worker_progress(worker_.get()) != 0) {
  }
  for (const ucp_mem_h handle : registrations_) ucp_mem_unmap(context_.get(), handle);
  registrations_.clear();
  worker_.reset();
}

// --- what dsm-info prints ----------------------------------------------------------------------------------------------------

std::string UcxTransportImpl::path_of(const Peer& peer) const {
  if (peer.endpoint == nullptr) return "none";
  char* text = nullptr;
  size_t bytes = 0;
  FILE* stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return "unknown";
  ucp_ep_print_info(peer.endpoint, stream);
  std::fclose(stream);
  const std::string path = path_in({text, bytes});
  std::free(text);
  return path;
}

std::vector<PeerInfo> UcxTransportImpl::peers() const {
  std::vector<PeerInfo> infos;
  for (uint16_t agent = 0; agent < parameters_.agents; agent++) {
    const Peer& peer = peers_[agent];
    if (AgentId{agent} == parameters_.self)
      infos.push_back({AgentId{agent}, "self", false, ""});
    else
      infos.push_back({AgentId{agent}, path_of(peer), peer.failed, peer.failed ? ucs_status_string(peer.failure) : ""});
  }
  return infos;
}

std::string UcxTransportImpl::version_text() const {
  Dl_info library{};
  const char* file = ::dladdr(reinterpret_cast<void*>(&ucp_get_version_string), &library) != 0 ? library.dli_fname : "?";
  return fmt::format("UCX {} ({}), built against {}.{}", ucp_get_version_string(), file, UCP_API_MAJOR, UCP_API_MINOR);
}

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::create(const UcxParameters& parameters) {
  auto transport = std::make_unique<UcxTransportImpl>(parameters);
  DSM_TRY(transport->open());
  return std::unique_ptr<UcxTransport>(std::move(transport));
}

}  // namespace farpage::transport
