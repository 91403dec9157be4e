#include "transport/ucx_settings.hpp"

#include <net/if.h>

#include <algorithm>

#include "runtime/base/options.hpp"

namespace farpage::transport {
namespace {

using Path = UcxParameters::Path;

bool set_by_user(const char* name) { return !foreign_environment((std::string("UCX_") + name).c_str()).empty(); }

bool all_here(const UcxParameters& parameters) {
  return std::all_of(parameters.same_host.begin(), parameters.same_host.end(), [](bool same) { return same; });
}

// The one interface of tcp traffic.
Result<std::string> device_of(const UcxParameters& parameters, Path path) {
  const std::string& device = parameters.net_device;
  if (device.empty() || device == "auto") {
    if (all_here(parameters)) return std::string("lo");
    return error(Status::InvalidArgument, "the domains are on several hosts: name the network interface in DSM_NET_DEVICE");
  }
  if (device == "all" || device == "any" || device.find_first_of("*,^ ") != std::string::npos)
    return error(Status::InvalidArgument, "DSM_NET_DEVICE={}: must name one interface", device);
  if (path == Path::Tcp && ::if_nametoindex(device.c_str()) == 0)
    return error(Status::InvalidArgument, "DSM_NET_DEVICE={}: there is no such network interface", device);
  return device;
}

}  // namespace

Result<std::vector<UcxSetting>> ucx_settings(const UcxParameters& parameters) {
  const bool one_host = all_here(parameters);
  if (parameters.path == Path::Shm && !one_host)
    return error(Status::InvalidArgument, "DSM_TRANSPORT=shm: the domains are on several hosts");
  const Path path = parameters.path == Path::Auto && one_host ? Path::Shm : parameters.path;
  // Eager at any size: a rendezvous can be overtaken, and needs the sender's memory until the receiver has come.
  // No keepalive: while a round of it is under way UCX 1.13 refuses to be armed for sleep, which costs 40 ms to seconds of a core a
  // round with four peers (measured: 4 to 60 % of a core, idle; without 0.03 %). The death of a tcp peer shows without it; for the
  // rest every wait has a deadline.
  std::vector<UcxSetting> settings = {{"RNDV_THRESH", "inf"}, {"KEEPALIVE_INTERVAL", "inf"}};
  // Not cma: active messages never take it (it serves put, get and rendezvous), and it wants ptrace rights over the peer.
  if (path == Path::Shm) settings.push_back({"TLS", "posix,sysv,self"});
  if (path == Path::Tcp) settings.push_back({"TLS", "tcp,self"});
  // Without it endpoints that report failures are refused shared memory. Read only where a shared memory transport is used,
  // else reported as unused.
  if (path != Path::Tcp) settings.push_back({"MM_ERROR_HANDLING", "y"});
  if (path != Path::Shm && !set_by_user("NET_DEVICES")) {
    DSM_ASSIGN(std::string device, device_of(parameters, path));
    settings.push_back({"NET_DEVICES", std::move(device)});
  }
  std::erase_if(settings, [](const UcxSetting& setting) { return set_by_user(setting.name); });
  return settings;
}

}  // namespace farpage::transport
