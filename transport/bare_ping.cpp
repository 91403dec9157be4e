#include "transport/bare_ping.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/clock.hpp"

namespace farpage::transport {
namespace {

struct Side {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_ep_h endpoint = nullptr;
  int event_fd = -1;
  bool poll = true;
  uint32_t received = 0;
  double deadline_us = 0;
};

ucs_status_t on_message(void* side, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
  static_cast<Side*>(side)->received++;
  return UCS_OK;
}

double now_us() { return static_cast<double>(SteadyClock().now_ns()) / 1e3; }

bool open(Side& side, bool tcp) {
  ucp_config_t* config = nullptr;
  if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return false;
  ucp_config_modify(config, "TLS", tcp ? "tcp,self" : "posix,sysv,self");
  if (tcp)
    ucp_config_modify(config, "NET_DEVICES", "lo");
  else
    ucp_config_modify(config, "MM_ERROR_HANDLING", "y");
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const bool started = ucp_init(&parameters, config, &side.context) == UCS_OK;
  ucp_config_release(config);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (!started || ucp_worker_create(side.context, &worker, &side.worker) != UCS_OK) return false;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 1;
  handler.cb = on_message;
  handler.arg = &side;
  return ucp_worker_set_am_recv_handler(side.worker, &handler) == UCS_OK && ucp_worker_get_efd(side.worker, &side.event_fd) == UCS_OK;
}

bool connect(Side& side, int socket) {
  ucp_address_t* mine = nullptr;
  size_t bytes = 0;
  if (ucp_worker_get_address(side.worker, &mine, &bytes) != UCS_OK) return false;
  std::vector<char> theirs(65536);
  const bool sent = ::send(socket, mine, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  ucp_worker_release_address(side.worker, mine);
  if (!sent || ::recv(socket, theirs.data(), theirs.size(), 0) <= 0) return false;
  ucp_ep_params_t endpoint{};
  endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  endpoint.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
  endpoint.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  return ucp_ep_create(side.worker, &endpoint, &side.endpoint) == UCS_OK;
}

// `wait`: until UCX has taken the bytes; else they must stay as they are.
bool send(Side& side, const std::vector<char>& bytes, bool wait = true) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request = ucp_am_send_nbx(side.endpoint, 1, nullptr, 0, bytes.data(), bytes.size(), &parameters);
  if (UCS_PTR_IS_ERR(request)) return false;
  if (request == nullptr) return true;
  while (wait && ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(side.worker);
  ucp_request_free(request);
  return true;
}

bool wait_for(Side& side, uint32_t messages) {
  while (side.received < messages) {
    if (ucp_worker_progress(side.worker) != 0) continue;
    if (now_us() > side.deadline_us) return false;
    if (side.poll) {
      sched_yield();
    } else if (ucp_worker_arm(side.worker) == UCS_OK) {
      pollfd watched{side.event_fd, POLLIN, 0};
      ::poll(&watched, 1, 100);
    }
  }
  return true;
}

void shut(Side& side) {
  if (side.worker != nullptr) ucp_worker_destroy(side.worker);
  if (side.context != nullptr) ucp_cleanup(side.context);
}

// Two processes that know each other: the caller's and a child. UCX is opened in each after the fork.
struct Pair {
  Side side;
  int socket = -1;
  pid_t child = -1;
  bool ok = false;
};

// `pair.side` must stay where it is: UCX keeps its address.
void open_pair(Pair& pair, bool tcp, bool poll) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
  pair.child = ::fork();
  pair.socket = ends[pair.child == 0 ? 1 : 0];
  ::close(ends[pair.child == 0 ? 0 : 1]);
  if (pair.child < 0) return;
  pair.side.poll = poll;
  pair.side.deadline_us = now_us() + 20e6;
  pair.ok = open(pair.side, tcp) && connect(pair.side, pair.socket);
}

// In the child: progress until the other side has everything, which closes the socket then.
[[noreturn]] void end_child(Pair& pair) {
  pollfd watched{pair.socket, POLLIN, 0};
  while (now_us() < pair.side.deadline_us && ::poll(&watched, 1, 0) == 0) ucp_worker_progress(pair.side.worker);
  ::_exit(0);
}

void end_parent(Pair& pair) {
  ::close(pair.socket);
  if (pair.child > 0) ::waitpid(pair.child, nullptr, 0);
  shut(pair.side);
}

}  // namespace

std::vector<double> bare_round_trip_us(bool tcp, bool poll, uint32_t request_bytes, uint32_t reply_bytes, uint32_t count) {
  Pair pair;
  open_pair(pair, tcp, poll);
  Side& side = pair.side;
  const std::vector<char> bytes(pair.child == 0 ? reply_bytes : request_bytes);
  if (pair.child == 0) {
    for (uint32_t i = 0; pair.ok && i < count; i++) pair.ok = wait_for(side, i + 1) && send(side, bytes);
    end_child(pair);
  }
  std::vector<double> samples;
  for (uint32_t i = 0; pair.ok && i < count; i++) {
    const double begin = now_us();
    pair.ok = send(side, bytes) && wait_for(side, i + 1);
    if (pair.ok) samples.push_back(now_us() - begin);
  }
  end_parent(pair);
  return samples;
}

double bare_stream_mib_s(bool tcp, uint32_t bytes, uint32_t count) {
  constexpr uint32_t kAhead = 64;
  Pair pair;
  open_pair(pair, tcp, true);
  Side& side = pair.side;
  const std::vector<char> block(bytes), grant(8);
  if (pair.child == 0) {
    for (uint32_t i = 0; pair.ok && i < count; i += kAhead / 2) pair.ok = wait_for(side, std::min(count, i + kAhead / 2)) && send(side, grant);
    end_child(pair);
  }
  const double begin = now_us();
  for (uint32_t i = 0; pair.ok && i < count; i++) {
    const uint32_t grants = i < kAhead ? 0 : (i - kAhead) / (kAhead / 2) + 1;
    pair.ok = wait_for(side, grants) && send(side, block, false);
  }
  pair.ok = pair.ok && wait_for(side, (count + kAhead / 2 - 1) / (kAhead / 2));
  const double took_us = now_us() - begin;
  end_parent(pair);
  return pair.ok ? static_cast<double>(bytes) * count / took_us / 1.048576 : 0;
}

}  // namespace farpage::transport
