#include "api/src/runtime.hpp"

#include <unistd.h>

#include <atomic>
#include <string>

namespace farpage::api {
namespace {

std::unique_ptr<Runtime> owner;
std::atomic<Runtime*> running{nullptr};
std::atomic<pid_t> running_in{0};
thread_local std::string error_text;

}  // namespace

Runtime* current() {
  Runtime* runtime = running.load(std::memory_order_acquire);
  // A child has no window (it is not inherited), no lane and no right to speak for its parent.
  return runtime != nullptr && running_in.load(std::memory_order_relaxed) == ::getpid() ? runtime : nullptr;
}

void set_current(std::unique_ptr<Runtime> runtime) {
  running.store(nullptr);
  owner = std::move(runtime);
  running_in.store(::getpid());
  running.store(owner.get(), std::memory_order_release);
}

Result<Runtime*> entry() {
  if (Runtime* runtime = current()) return runtime;
  return error(Status::NotInitialized, "dsm_init has not been called in this process, or dsm_finalize has");
}

dsm_status_t report(const Result<>& result) { return result.ok() ? DSM_OK : report(result.failure()); }

dsm_status_t report(const Error& failure) {
  error_text = failure.message;
  return static_cast<dsm_status_t>(failure.status);
}

const char* last_error() { return error_text.c_str(); }

Result<WindowOffset> offset_of(const Runtime& runtime, const void* pointer) {
  if (pointer == nullptr) return error(Status::InvalidArgument, "NULL pointer");
  const memory::Window& window = runtime.node->window();
  if (!window.contains(pointer))
    return error(Status::OutOfRange, "pointer {} is not global memory (0x{:x} to 0x{:x})", pointer, reinterpret_cast<uint64_t>(window.base()),
                 reinterpret_cast<uint64_t>(window.base()) + window.bytes());
  return window.offset_of(pointer);
}

}  // namespace farpage::api
