#include "runtime/weights/manifest.hpp"

#include <cstring>

namespace farpage::weights {
namespace {

void put(std::vector<std::byte>& out, const void* bytes, size_t count) {
  const size_t before = out.size();
  out.resize(before + count);
  if (count > 0) std::memcpy(out.data() + before, bytes, count);
}
void put(std::vector<std::byte>& out, uint64_t number) { put(out, &number, sizeof number); }
void put(std::vector<std::byte>& out, const std::string& text) {
  put(out, text.size());
  put(out, text.data(), text.size());
}

// Takes from the front; after the first value that is not all there, `whole` is false and everything is empty.
struct Reader {
  std::span<const std::byte> rest;
  bool whole = true;

  uint64_t number() {
    uint64_t value = 0;
    if (rest.size() < sizeof value) return whole = false, 0;
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (size > rest.size()) return whole = false, std::string();
    std::string value(reinterpret_cast<const char*>(rest.data()), size);
    rest = rest.subspan(size);
    return value;
  }
};

}  // namespace

std::vector<std::byte> encode(const Manifest& manifest) {
  std::vector<std::byte> out;
  put(out, manifest.directory);
  put(out, static_cast<uint64_t>(manifest.status));
  put(out, manifest.problem);
  put(out, manifest.files.size());
  for (const WeightFile& file : manifest.files) {
    put(out, file.path);
    put(out, file.bytes);
    put(out, file.header);
  }
  return out;
}

Result<Manifest> decode(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  Manifest manifest;
  manifest.directory = reader.text();
  manifest.status = static_cast<Status>(reader.number());
  manifest.problem = reader.text();
  const uint64_t files = reader.number();
  for (uint64_t i = 0; i < files && reader.whole; i++) {
    WeightFile file;
    file.path = reader.text();
    file.bytes = reader.number();
    file.header = reader.text();
    manifest.files.push_back(std::move(file));
  }
  if (!reader.whole || !reader.rest.empty())
    return error(Status::Internal, "weights: rank 0's list of files arrived damaged");
  return manifest;
}

}  // namespace farpage::weights
