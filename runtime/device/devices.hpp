// The GPUs of this host, as dsm-info lists them. Two implementations, chosen at configure time: devices_cuda.cu asks
// the CUDA runtime (FARPAGE_CUDA=ON), devices_none.cpp knows none. A machine without a driver is not an error: the list
// is empty and says why. Any thread; the first call may initialise CUDA in the process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace farpage::device {

struct Device {
  int index = 0;
  std::string name;
  std::string bus_id;  // "0000:17:00.0"
  uint64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  bool pageable_access = false;  // kernels may use any memory of the process
  std::vector<int> peers;        // devices whose memory this one may map
};

struct DeviceList {
  std::vector<Device> devices;
  std::string runtime;  // "CUDA 13.0, driver for CUDA 13.0"; or "built without CUDA"
  std::string problem;  // why `devices` is empty although CUDA is built in; else ""
};

DeviceList list_devices();

}  // namespace farpage::device
