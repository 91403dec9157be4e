// The transport over UCX active messages: one worker, one endpoint per peer in error mode PEER, owned by one lane.
#pragma once

#include <functional>
#include <memory>

#include "transport/transport.hpp"

namespace farpage::transport {

struct UcxParameters {
  AgentId self;
  uint32_t agents = 1;
  uint64_t job_id = 0;
  uint16_t epoch = 1;
  enum class Path { Auto, Shm, Tcp } path = Path::Auto;
  std::string net_device;           // "" or "auto": lo when all agents are on one host
  std::vector<bool> same_host;      // by agent
  uint64_t connect_timeout_ms = 60000;
};

/// Creates the worker and its address first (the caller exchanges addresses), then connect() makes the endpoints.
class UcxTransport : public Transport {
 public:
  static Result<std::unique_ptr<UcxTransport>> create(const UcxParameters& parameters);
  virtual std::vector<std::byte> address() const = 0;
  /// addresses[agent]; own entry ignored. Returns when every peer answered a first message, or an error naming who did not.
  virtual Result<> connect(const std::vector<std::vector<std::byte>>& addresses) = 0;
};

}  // namespace farpage::transport
