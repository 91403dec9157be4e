// Result and its macros: a failure reaches the caller whole, a value is moved, nothing is evaluated twice.
#include "runtime/base/result.hpp"

#include <doctest/doctest.h>

#include <memory>

namespace farpage {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return error(Status::InvalidArgument, "{} is odd", n);
  return n / 2;
}
Result<int> quarter(int n) {
  DSM_ASSIGN(const int once, half(n));
  DSM_ASSIGN(const int twice, half(once));
  return twice;
}
Result<> try_twice(int& calls, bool fail) {
  const auto step = [&]() -> Result<> {
    calls++;
    if (fail) return error(Status::Busy, "call {}", calls);
    return success();
  };
  DSM_TRY(step());
  DSM_TRY(step());
  return success();
}

TEST_CASE("result: a value or a failure, never both") {
  CHECK(half(4).ok());
  CHECK(*half(4).operator->() == 2);
  CHECK(half(4).status() == Status::Ok);
  CHECK_FALSE(half(3).ok());
  CHECK(half(3).failure().message == "3 is odd");
}

TEST_CASE("result: DSM_ASSIGN hands the first failure on") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).failure().message == "3 is odd");
  CHECK(quarter(5).failure().message == "5 is odd");
}

TEST_CASE("result: DSM_TRY evaluates once and stops at a failure") {
  int calls = 0;
  CHECK(try_twice(calls, false).ok());
  CHECK(calls == 2);
  calls = 0;
  CHECK(try_twice(calls, true).failure().message == "call 1");
  CHECK(calls == 1);
}

TEST_CASE("result: holds what can only be moved") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

TEST_CASE("result: every status has its own name") {
  for (int a = 0; a <= static_cast<int>(Status::Internal); a++) {
    CHECK(std::string_view(status_name(static_cast<Status>(a))) != "unknown status");
    for (int b = 0; b < a; b++)
      CHECK(std::string_view(status_name(static_cast<Status>(a))) != status_name(static_cast<Status>(b)));
  }
}

}  // namespace
}  // namespace farpage
