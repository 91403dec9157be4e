// dsm_weights_*: the C face of runtime/weights.
#include "runtime/weights/weights.hpp"

#include <algorithm>

#include "api/src/runtime.hpp"

struct dsm_weights {
  std::unique_ptr<farpage::weights::Weights> weights;
};

namespace farpage::api {
namespace {

static_assert(static_cast<int>(weights::Dtype::Bool) == DSM_BOOL && static_cast<int>(weights::Dtype::I64) == DSM_I64 &&
              weights::kMaxDimensions == DSM_MAX_DIMENSIONS);

Result<> fill(const weights::Tensor& tensor, dsm_tensor_t* out) {
  if (out == nullptr || out->struct_size < sizeof(dsm_tensor_t)) return error(Status::InvalidArgument, "dsm_tensor_t: fill it with DSM_TENSOR_INIT");
  out->name = tensor.name.c_str();
  out->dtype = static_cast<dsm_dtype_t>(tensor.dtype);
  out->dimensions = static_cast<int>(tensor.shape.size());
  std::fill(std::begin(out->shape), std::end(out->shape), 0);
  std::copy(tensor.shape.begin(), tensor.shape.end(), out->shape);
  out->data = tensor.data;
  out->bytes = tensor.bytes;
  return success();
}

}  // namespace
}  // namespace farpage::api

using namespace farpage;
using namespace farpage::api;

extern "C" {

dsm_status_t dsm_weights_open(const char* directory, dsm_weights_t** out) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (directory == nullptr || out == nullptr) return error(Status::InvalidArgument, "NULL argument");
    const auto allocate = [runtime](const memory::RegionDescriptor& wanted) { return runtime->heap->allocate_region(wanted); };
    auto handle = std::make_unique<dsm_weights>();
    DSM_ASSIGN(handle->weights, weights::Weights::open(*runtime->node, *runtime->bootstrap, allocate, directory));
    *out = handle.release();
    return success();
  });
}

dsm_status_t dsm_weights_close(dsm_weights_t* weights) {
  if (weights == nullptr) return DSM_OK;
  return guarded([&]() -> Result<> {
    DSM_TRY(entry());
    const std::unique_ptr<dsm_weights> owner(weights);
    return owner->weights->close();
  });
}

size_t dsm_weights_count(const dsm_weights_t* weights) { return weights == nullptr ? 0 : weights->weights->tensors().size(); }

dsm_status_t dsm_weights_tensor(const dsm_weights_t* weights, const char* name, dsm_tensor_t* out) {
  return guarded([&]() -> Result<> {
    if (weights == nullptr || name == nullptr) return error(Status::InvalidArgument, "NULL argument");
    const weights::Tensor* tensor = weights->weights->find(name);
    if (tensor == nullptr) return error(Status::NotFound, "no tensor named {}", name);
    return fill(*tensor, out);
  });
}

dsm_status_t dsm_weights_tensor_at(const dsm_weights_t* weights, size_t index, dsm_tensor_t* out) {
  return guarded([&]() -> Result<> {
    if (weights == nullptr) return error(Status::InvalidArgument, "NULL argument");
    if (index >= weights->weights->tensors().size())
      return error(Status::NotFound, "tensor {}: there are {}", index, weights->weights->tensors().size());
    return fill(weights->weights->tensors()[index], out);
  });
}

}  // extern "C"
