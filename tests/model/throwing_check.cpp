// In searches a broken invariant is a finding, not the end of the process.
#include "runtime/base/check.hpp"
#include "tests/model/world.hpp"

namespace farpage {

void check_failed(const char*, int, const char* condition, std::string_view detail) {
  throw model::Wrong(std::string("check failed: ") + condition + ": " + std::string(detail));
}

}  // namespace farpage
