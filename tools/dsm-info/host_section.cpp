#include <fmt/format.h>
#include <hwloc.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <fstream>

#include "runtime/base/handle.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/memory/limits.hpp"
#include "runtime/memory/page_tables.hpp"
#include "tools/dsm-info/sections.hpp"

namespace farpage::info {
namespace {

using Topology = Handle<hwloc_topology, &hwloc_topology_destroy>;

std::string line(std::string_view name, std::string_view value) { return fmt::format("  {:<28} {}\n", name, value); }

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text.empty() ? "not readable" : text;
}

std::string topology_lines() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return line("topology", "hwloc failed");
  const Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) return line("topology", "hwloc failed");

  const auto count = [&](hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(raw, type)); };
  std::string text =
      line("processors", fmt::format("{} packages, {} cores, {} hardware threads", count(HWLOC_OBJ_PACKAGE),
                                     count(HWLOC_OBJ_CORE), count(HWLOC_OBJ_PU)));
  for (int i = 0; i < count(HWLOC_OBJ_NUMANODE); i++) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(raw, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    const int threads = node->cpuset == nullptr ? 0 : hwloc_bitmap_weight(node->cpuset);
    text += line(fmt::format("NUMA node {}", node->os_index),
                 fmt::format("{}, {}", bytes_text(node->attr->numanode.local_memory),
                             threads > 0 ? fmt::format("{} hardware threads", threads)
                                         : std::string("no processors (memory only)")));
  }
  return text;
}

std::string device_lines() {
  const device::DeviceList list = device::list_devices();
  std::string text = line("GPUs", list.problem.empty() ? fmt::format("{} ({})", list.devices.size(), list.runtime)
                                                       : fmt::format("none ({}: {})", list.runtime, list.problem));
  for (const device::Device& gpu : list.devices)
    text +=
        line(fmt::format("GPU {}", gpu.index),
             fmt::format("{}, {}, compute {}.{}, {} multiprocessors, {}, maps peers [{}]{}", gpu.name,
                         bytes_text(gpu.memory_bytes), gpu.compute_major, gpu.compute_minor, gpu.multiprocessors,
                         gpu.bus_id, fmt::join(gpu.peers, ", "), gpu.pageable_access ? ", uses pageable memory" : ""));
  return text;
}

std::string resource_text(__rlimit_resource resource, bool bytes) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return "not readable";
  const auto show = [&](rlim_t value) {
    return value == RLIM_INFINITY ? std::string("unlimited") : bytes ? bytes_text(value) : fmt::format("{}", value);
  };
  return fmt::format("{} (hard limit {})", show(limit.rlim_cur), show(limit.rlim_max));
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string text; std::getline(maps, text);) count++;
  return count;
}

std::string limit_lines() {
  return line("memory limit",
              fmt::format("{} (physical memory, or the cgroup's limit)", bytes_text(memory::memory_limit_bytes()))) +
         line("vm.max_map_count", fmt::format("{} (half of it is used; {} mappings now)",
                                              first_line("/proc/sys/vm/max_map_count"), mappings())) +
         line("vm.overcommit_memory", first_line("/proc/sys/vm/overcommit_memory")) +
         line("vm.unprivileged_userfaultfd", first_line("/proc/sys/vm/unprivileged_userfaultfd")) +
         line("transparent huge pages, shmem", first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled")) +
         line("RLIMIT_MEMLOCK", resource_text(RLIMIT_MEMLOCK, true)) +
         line("RLIMIT_NOFILE", resource_text(RLIMIT_NOFILE, false)) + line("RLIMIT_AS", resource_text(RLIMIT_AS, true));
}

}  // namespace

std::string host_section() {
  utsname names{};
  ::uname(&names);
  return fmt::format("host {} ({} {}, {})\n", names.nodename, names.sysname, names.release, names.machine) +
         topology_lines() + device_lines() + line("page faults", mechanism_text(memory::probe_fault_mechanism())) +
         limit_lines();
}

}  // namespace farpage::info
