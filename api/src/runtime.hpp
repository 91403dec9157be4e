// The one runtime of this process, between dsm_init and dsm_finalize, and how calls reach it: entry() is the first line of
// every call, report() turns a result into a status and keeps the sentence for dsm_last_error.
#pragma once

#include <memory>

#include "api/src/heap.hpp"
#include "farpage/dsm.h"
#include "runtime/base/options.hpp"
#include "runtime/base/result.hpp"
#include "runtime/engine/node.hpp"
#include "runtime/membership/watchdog.hpp"
#include "transport/bootstrap.hpp"

namespace farpage::api {

struct Runtime {
  Options options;
  std::unique_ptr<transport::Bootstrap> bootstrap;
  std::unique_ptr<engine::Node> node;
  std::unique_ptr<membership::Watchdog> watchdog;
  std::unique_ptr<Heap> heap;
};

/// nullptr before dsm_init and after dsm_finalize (also in a fork's child).
Runtime* current();
void set_current(std::unique_ptr<Runtime> runtime);

/// The runtime, or NotInitialized.
Result<Runtime*> entry();

/// Keeps the sentence of a failure for this thread.
dsm_status_t report(const Result<>& result);
dsm_status_t report(const Error& failure);
const char* last_error();

/// Window offset of a pointer; OutOfRange when it is not global memory, InvalidArgument when NULL.
Result<WindowOffset> offset_of(const Runtime& runtime, const void* pointer);

/// Runs a call's body so that no exception crosses the C frame.
template <class Body>
dsm_status_t guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(error(Status::OutOfMemory, "out of private memory"));
  } catch (const std::exception& failure) {
    return report(error(Status::Internal, "{}", failure.what()));
  }
}

}  // namespace farpage::api
