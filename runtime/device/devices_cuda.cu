#include <cuda_runtime.h>

#include "runtime/device/devices.hpp"

namespace farpage::device {
namespace {

// 13000 -> "13.0"
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// 0 where the driver is too old to know the attribute.
int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) (void)cudaGetLastError();
  return value;
}

std::vector<int> peers_of(int device, int devices) {
  std::vector<int> peers;
  for (int other = 0; other < devices; other++) {
    int able = 0;
    if (other != device && cudaDeviceCanAccessPeer(&able, device, other) == cudaSuccess && able) peers.push_back(other);
  }
  return peers;
}

}  // namespace

DeviceList list_devices() {
  DeviceList list;
  int runtime = 0, driver = 0, count = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  list.runtime =
      "CUDA " + version_text(runtime) + (driver == 0 ? ", no driver" : ", driver for CUDA " + version_text(driver));
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    (void)cudaGetLastError();  // the failure must not surface in the application's next check
    list.problem = cudaGetErrorString(status);
    return list;
  }
  for (int index = 0; index < count; index++) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) {
      (void)cudaGetLastError();
      continue;
    }
    char bus_id[32] = "";
    (void)cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index);
    list.devices.push_back({index, properties.name, bus_id, properties.totalGlobalMem, properties.major,
                            properties.minor, properties.multiProcessorCount,
                            attribute(cudaDevAttrPageableMemoryAccess, index) != 0, peers_of(index, count)});
  }
  return list;
}

}  // namespace farpage::device
