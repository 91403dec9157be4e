// Result<T>: a value, or a status with one sentence that names what and where. For errors that a caller can still do
// something about; broken invariants are DSM_CHECK. Values: any thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace farpage {

/// The same numbers as dsm_status_t (a static_assert in api keeps them equal).
enum class Status : int32_t {
  Ok = 0,
  InvalidArgument = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  AlreadyInitialized = 4,
  Unsupported = 5,
  OutOfRange = 6,      // pointer outside, range past the end of its region
  Freed = 7,           // region freed, or being freed
  TimedOut = 8,
  PeerLost = 9,
  Mismatch = 10,       // ranks disagree (version, options)
  Io = 11,             // file missing, short, malformed
  NotFound = 12,       // no such tensor, no such name
  Busy = 13,
  Internal = 14,
};

const char* status_name(Status status);

struct Error {
  Status status = Status::Internal;
  std::string message;
};

template <class... Args>
Error error(Status status, fmt::format_string<Args...> format, Args&&... args) {
  return Error{status, fmt::format(format, std::forward<Args>(args)...)};
}

struct Unit {};

template <class T = Unit>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T* operator->() { return &value(); }
  const Error& failure() const { return std::get<1>(state_); }
  Status status() const { return ok() ? Status::Ok : failure().status; }

 private:
  std::variant<T, Error> state_;
};

inline Result<Unit> success() { return Unit{}; }

}  // namespace farpage

#define DSM_CONCAT_(a, b) a##b
#define DSM_CONCAT(a, b) DSM_CONCAT_(a, b)
/// Returns the failure of `expression` from the calling function.
#define DSM_TRY(expression)                                       \
  do {                                                            \
    auto dsm_try_result = (expression);                           \
    if (!dsm_try_result.ok()) return dsm_try_result.failure();    \
  } while (0)
/// Declares `target` as the value of `expression`, or returns its failure.
#define DSM_ASSIGN(target, expression)                                                       \
  auto DSM_CONCAT(dsm_assign_, __LINE__) = (expression);                                     \
  if (!DSM_CONCAT(dsm_assign_, __LINE__).ok()) return DSM_CONCAT(dsm_assign_, __LINE__).failure(); \
  target = std::move(DSM_CONCAT(dsm_assign_, __LINE__)).value()
