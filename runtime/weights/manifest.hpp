// What rank 0 tells the others about the files, as bytes: it has read the headers so that nobody else needs to. Both
// ends are the same library (checked at init), so decode() only guards against a cut: Internal. Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/weights/hub_folder.hpp"

namespace farpage::weights {

struct Manifest {
  std::string directory;  // as rank 0's caller gave it
  Status status = Status::Ok;
  std::string problem;  // when status is not Ok
  std::vector<WeightFile> files;
};

std::vector<std::byte> encode(const Manifest& manifest);
Result<Manifest> decode(std::span<const std::byte> bytes);

}  // namespace farpage::weights
