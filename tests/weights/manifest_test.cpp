// What rank 0 sends arrives as it was, and a cut is noticed.
#include "runtime/weights/manifest.hpp"

#include <doctest/doctest.h>

namespace farpage::weights {
namespace {

TEST_CASE("manifest: survives the journey; every cut is refused") {
  const Manifest sent{"models/x",
                      Status::Io,
                      "broken",
                      {{"models/x/a", 123, "{}"}, {"models/x/b", 1ull << 40, std::string(1000, 'h')}}};
  const auto bytes = encode(sent);
  const auto got = decode(bytes);
  REQUIRE(got.ok());
  CHECK(got.value().directory == "models/x");
  CHECK(got.value().status == Status::Io);
  CHECK(got.value().problem == "broken");
  REQUIRE(got.value().files.size() == 2);
  CHECK(got.value().files[0].path == "models/x/a");
  CHECK(got.value().files[1].bytes == 1ull << 40);
  CHECK(got.value().files[1].header.size() == 1000);
  for (size_t length = 0; length < bytes.size(); length++) CHECK_FALSE(decode(std::span(bytes).first(length)).ok());
}

}  // namespace
}  // namespace farpage::weights
