// Weights: the tensors of a hub-style folder (one safetensors file, or shards and an index) in IMMUTABLE global memory.
//
// Each byte of the files is read from disk once per job: headers by rank 0, which hands them to all ranks through the
// bootstrap; data by the rank that homes it, straight into its home memory, all ranks at once. One region per file, its
// slices spread over the ranks at multiples of the block size; the region begins with the file's data section, so a
// tensor is aligned as its data offset is (files written with 64-byte aligned offsets give 64-byte aligned tensors).
//
// open() and close() are collective, from the thread that owns the bootstrap. Everything else is read-only: any thread.
// An error on one rank is the same error on all ranks, and leaves no region behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/engine/node.hpp"
#include "runtime/memory/region.hpp"
#include "runtime/weights/hub_folder.hpp"
#include "runtime/weights/safetensors.hpp"
#include "transport/bootstrap.hpp"

namespace farpage::weights {

/// Allocates a region in this rank's arena: the caller sets bytes, block_shift, consistency, placement and slices; the
/// allocator the rest. What dsm_alloc does with checked parameters.
using AllocateRegion = std::function<Result<WindowOffset>(const memory::RegionDescriptor& wanted)>;

struct Tensor {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;  // row-major, outermost first; empty: a scalar
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
};

class Weights {
 public:
  /// Collective; returns with the tensors published. `directory` must name the same files on every rank. Io (file and
  /// byte named), Mismatch (ranks name different folders), OutOfMemory, TimedOut. The node outlives it.
  static Result<std::unique_ptr<Weights>> open(engine::Node& node, transport::Bootstrap& bootstrap,
                                               const AllocateRegion& allocate, const std::string& directory);

  /// Collective: waits for all ranks, then frees the regions. The tensors' pointers end here.
  Result<> close();

  /// In the order of the files, then by offset.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// nullptr: no such tensor.
  const Tensor* find(std::string_view name) const;

  /// Bytes of all files, headers included.
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  Weights(engine::Node& node, transport::Bootstrap& bootstrap) : node_(node), bootstrap_(bootstrap) {}
  Result<> name_tensors(const std::vector<WeightFile>& files);

  engine::Node& node_;
  transport::Bootstrap& bootstrap_;
  std::vector<WindowOffset> regions_;  // one per file that has data
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // keys lie in tensors_
  uint64_t file_bytes_ = 0;
};

}  // namespace farpage::weights
