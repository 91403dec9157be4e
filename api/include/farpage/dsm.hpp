// Farpage, C++ interface: owners and spans over dsm.h, with no second meaning. Failures throw dsm::Error, except in
// destructors. Header-only; needs C++20. The contract of each call (collective or not, threads, errors) is that of the C call
// it names.
#ifndef FARPAGE_DSM_HPP
#define FARPAGE_DSM_HPP

#include <farpage/dsm.h>

#include <cstddef>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dsm {

/// A call that failed: status() is the code, what() the sentence.
class Error : public std::runtime_error {
 public:
  Error(dsm_status_t status, const std::string& what) : std::runtime_error(what), status_(status) {}
  dsm_status_t status() const { return status_; }

 private:
  dsm_status_t status_;
};

/// Throws when `status` is not DSM_OK.
inline void check(dsm_status_t status, const char* call) {
  if (status != DSM_OK) throw Error(status, std::string(call) + ": " + dsm_strerror(status) + ": " + dsm_last_error());
}

/// dsm_init and dsm_finalize. Collective at both ends.
class Session {
 public:
  Session() { check(dsm_init(nullptr), "dsm_init"); }
  ~Session() { (void)dsm_finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return dsm_rank(); }
  int size() const { return dsm_size(); }
  int domain() const { return dsm_domain(); }
  int domains() const { return dsm_domains(); }
};

inline void barrier() { check(dsm_barrier(), "dsm_barrier"); }

/// Parameters of dsm_alloc, to be written with designated initialisers.
struct Allocation {
  dsm_consistency_t consistency = DSM_COHERENT;
  dsm_placement_t placement = DSM_PLACE_LOCAL;
  int rank = 0;
  std::size_t interleave_bytes = 0;
  std::vector<dsm_slice_t> slices = {};
  std::size_t block_bytes = 0;
};

/// Zero-filled global memory for `count` objects; freed by the rank that owns the array. T must be trivially copyable:
/// other ranks see its bytes. dsm_alloc.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  explicit Array(std::size_t count, const Allocation& how = {}) : count_(count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw Error(DSM_ERR_OUT_OF_MEMORY, "dsm::Array: count overflows");
    dsm_alloc_params_t params = DSM_ALLOC_INIT;
    params.bytes = count * sizeof(T);
    params.consistency = how.consistency;
    params.placement = how.placement;
    params.rank = how.rank;
    params.interleave_bytes = how.interleave_bytes;
    params.slices = how.slices.data();
    params.slice_count = how.slices.size();
    params.block_bytes = how.block_bytes;
    void* memory = nullptr;
    check(dsm_alloc(&params, &memory), "dsm_alloc");
    data_ = static_cast<T*>(memory);
  }
  Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Array() { (void)dsm_free(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() const { return {data_, count_}; }
  /// Gives the memory up without freeing it.
  T* release() {
    count_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// dsm_get and dsm_put of whole objects.
template <class T>
void get(std::span<std::type_identity_t<T>> to, const T* from) {
  check(dsm_get(to.data(), from, to.size_bytes()), "dsm_get");
}
template <class T>
void put(T* to, std::span<const std::type_identity_t<T>> from) {
  check(dsm_put(to, from.data(), from.size_bytes()), "dsm_put");
}

template <class T>
void prefetch(std::span<T> range) {
  check(dsm_prefetch(range.data(), range.size_bytes()), "dsm_prefetch");
}

inline void publish(void* region) { check(dsm_publish(region), "dsm_publish"); }

inline dsm_info_t query(const void* pointer) {
  dsm_info_t info = DSM_INFO_INIT;
  check(dsm_query(pointer, &info), "dsm_query");
  return info;
}

/// All counters of this rank's domain by name.
inline std::map<std::string, std::uint64_t> counters() {
  std::vector<std::uint64_t> values(dsm_counter_count());
  check(dsm_stats(values.data(), values.size()), "dsm_stats");
  std::map<std::string, std::uint64_t> named;
  for (std::size_t i = 0; i < values.size(); i++) named[dsm_counter_name(i)] = values[i];
  return named;
}

/// One tensor of a weights folder: name, dtype, shape, and its bytes in global memory.
struct Tensor : dsm_tensor_t {
  Tensor() : dsm_tensor_t(DSM_TENSOR_INIT) {}
  std::span<const std::int64_t> dims() const { return {shape, static_cast<std::size_t>(dimensions)}; }
  /// The elements as T; throws when T does not have the size of the dtype's elements.
  template <class T>
  std::span<const T> as() const {
    std::size_t elements = 1;
    for (const std::int64_t n : dims()) elements *= static_cast<std::size_t>(n);
    if (elements * sizeof(T) != bytes) throw Error(DSM_ERR_INVALID_ARGUMENT, std::string(name) + ": elements have another size");
    return {static_cast<const T*>(data), elements};
  }
};

/// dsm_weights_open and dsm_weights_close. Collective at both ends.
class Weights {
 public:
  explicit Weights(const std::string& directory) { check(dsm_weights_open(directory.c_str(), &weights_), "dsm_weights_open"); }
  Weights(Weights&& other) noexcept : weights_(std::exchange(other.weights_, nullptr)) {}
  Weights& operator=(Weights&&) = delete;
  ~Weights() { (void)dsm_weights_close(weights_); }

  std::size_t size() const { return dsm_weights_count(weights_); }
  Tensor operator[](const std::string& name) const {
    Tensor tensor;
    check(dsm_weights_tensor(weights_, name.c_str(), &tensor), name.c_str());
    return tensor;
  }
  Tensor at(std::size_t index) const {
    Tensor tensor;
    check(dsm_weights_tensor_at(weights_, index, &tensor), "dsm_weights_tensor_at");
    return tensor;
  }

 private:
  dsm_weights_t* weights_ = nullptr;
};

}  // namespace dsm

#endif  // FARPAGE_DSM_HPP
