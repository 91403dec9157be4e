// Handle and Fd: one owner, destroyed once, moved not copied.
#include "runtime/base/handle.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>

namespace farpage {
namespace {

struct Foreign {
  int* destroyed;
};
int destroy(Foreign* object) { return ++*object->destroyed; }
using ForeignHandle = Handle<Foreign, &destroy>;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

TEST_CASE("handle: destroys its object once, wherever it was moved") {
  int destroyed = 0;
  Foreign object{&destroyed};
  {
    ForeignHandle first(&object);
    ForeignHandle second = std::move(first);
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 1);
  CHECK(sizeof(ForeignHandle) == sizeof(void*));
}

TEST_CASE("fd: closes on destruction, on reset and on assignment; release gives it away") {
  int raw[2];
  REQUIRE(::pipe(raw) == 0);
  Fd a(raw[0]), b(raw[1]);
  a = std::move(b);
  CHECK_FALSE(is_open(raw[0]));
  CHECK(is_open(raw[1]));
  CHECK_FALSE(static_cast<bool>(b));
  const int given = a.release();
  a.reset();
  CHECK(is_open(given));
  { Fd last(given); }
  CHECK_FALSE(is_open(given));
}

}  // namespace
}  // namespace farpage
