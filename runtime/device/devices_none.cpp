#include "runtime/device/devices.hpp"

namespace farpage::device {

DeviceList list_devices() { return {{}, "built without CUDA", ""}; }

}  // namespace farpage::device
