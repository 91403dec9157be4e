// The encoder of all-MiniLM-L6-v2 over weights that lie anywhere: the pointers may be global memory, the first touch of a
// block then brings it. Products by BLAS, everything else here, in float32. One Encoder serves one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace minilm {

inline constexpr int kHidden = 384, kLayers = 6, kHeads = 12, kHeadWidth = 32, kIntermediate = 1536, kVocabulary = 30522, kPositions = 512;

struct Linear {
  const float* weight = nullptr;  // [out, in], row-major
  const float* bias = nullptr;    // [out]
};
struct Norm {
  const float* weight = nullptr;
  const float* bias = nullptr;
};
struct Layer {
  Linear query, key, value, attention_output, intermediate, output;
  Norm attention_norm, output_norm;
  std::span<const std::byte> bytes;  // all of the layer's tensors, which lie side by side: what to ask ahead
};
struct Model {
  const float *word = nullptr, *position = nullptr, *type = nullptr;
  Norm embedding_norm;
  std::array<Layer, kLayers> layers;
};

/// Builds the model from a look-up of tensors by name, which checks that the tensor has `elements` float32 numbers.
Model make_model(const std::function<const float*(const std::string& name, std::size_t elements)>& tensor);

class Encoder {
 public:
  explicit Encoder(const Model& model) : model_(model) {}

  /// Hidden states [tokens, kHidden] of the embeddings.
  void embed(std::span<const int64_t> ids, std::vector<float>& hidden) const;
  /// One layer, in place. `mask` (one byte a token, 0 = padding) may be empty: no padding.
  void layer(int index, std::vector<float>& hidden, std::span<const uint8_t> mask = {});
  /// The sentence's embedding: mean of the unmasked hidden states, of length 1.
  static std::array<float, kHidden> pool(const std::vector<float>& hidden, std::span<const uint8_t> mask = {});

  /// All of it. `before_layer(i)` is called before layer i is computed: the place to ask for the next one.
  std::array<float, kHidden> encode(std::span<const int64_t> ids, const std::function<void(int)>& before_layer = {});

 private:
  void linear(const Linear& weights, const std::vector<float>& in, int in_width, int out_width, std::vector<float>& out) const;
  void attend(std::size_t tokens, std::span<const uint8_t> mask);
  Model model_;
  std::vector<float> query_, key_, value_, context_, scores_, sum_, wide_;
};

}  // namespace minilm
