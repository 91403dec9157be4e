#include "encoder.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace minilm {
namespace {

void normalise(float* row, const Norm& norm) {
  double mean = 0;
  for (int i = 0; i < kHidden; i++) mean += row[i];
  mean /= kHidden;
  double variance = 0;
  for (int i = 0; i < kHidden; i++) variance += (row[i] - mean) * (row[i] - mean);
  const double scale = 1 / std::sqrt(variance / kHidden + 1e-12);
  for (int i = 0; i < kHidden; i++) row[i] = static_cast<float>((row[i] - mean) * scale) * norm.weight[i] + norm.bias[i];
}

void add_and_normalise(std::vector<float>& hidden, const std::vector<float>& addend, const Norm& norm) {
  for (std::size_t i = 0; i < hidden.size(); i++) hidden[i] += addend[i];
  for (std::size_t row = 0; row < hidden.size(); row += kHidden) normalise(hidden.data() + row, norm);
}

bool visible(std::span<const uint8_t> mask, std::size_t token) { return mask.empty() || mask[token] != 0; }

}  // namespace

Model make_model(const std::function<const float*(const std::string& name, std::size_t elements)>& tensor) {
  Model model;
  const auto norm = [&](const std::string& name) { return Norm{tensor(name + ".weight", kHidden), tensor(name + ".bias", kHidden)}; };
  const auto linear = [&](const std::string& name, std::size_t out, std::size_t in) {
    return Linear{tensor(name + ".weight", out * in), tensor(name + ".bias", out)};
  };
  model.word = tensor("embeddings.word_embeddings.weight", std::size_t{kVocabulary} * kHidden);
  model.position = tensor("embeddings.position_embeddings.weight", std::size_t{kPositions} * kHidden);
  model.type = tensor("embeddings.token_type_embeddings.weight", std::size_t{2} * kHidden);
  model.embedding_norm = norm("embeddings.LayerNorm");
  for (int i = 0; i < kLayers; i++) {
    const std::string at = "encoder.layer." + std::to_string(i) + ".";
    Layer& layer = model.layers[static_cast<std::size_t>(i)];
    layer.query = linear(at + "attention.self.query", kHidden, kHidden);
    layer.key = linear(at + "attention.self.key", kHidden, kHidden);
    layer.value = linear(at + "attention.self.value", kHidden, kHidden);
    layer.attention_output = linear(at + "attention.output.dense", kHidden, kHidden);
    layer.attention_norm = norm(at + "attention.output.LayerNorm");
    layer.intermediate = linear(at + "intermediate.dense", kIntermediate, kHidden);
    layer.output = linear(at + "output.dense", kHidden, kIntermediate);
    layer.output_norm = norm(at + "output.LayerNorm");
    // The tensors of a layer lie side by side in the file: from the lowest to the end of the highest.
    const std::pair<const float*, std::size_t> parts[] = {
        {layer.query.weight, kHidden * kHidden}, {layer.query.bias, kHidden}, {layer.key.weight, kHidden * kHidden}, {layer.key.bias, kHidden},
        {layer.value.weight, kHidden * kHidden}, {layer.value.bias, kHidden}, {layer.attention_output.weight, kHidden * kHidden},
        {layer.attention_output.bias, kHidden}, {layer.attention_norm.weight, kHidden}, {layer.attention_norm.bias, kHidden},
        {layer.intermediate.weight, kIntermediate * kHidden}, {layer.intermediate.bias, kIntermediate},
        {layer.output.weight, kHidden * kIntermediate}, {layer.output.bias, kHidden}, {layer.output_norm.weight, kHidden}, {layer.output_norm.bias, kHidden}};
    const float *first = parts[0].first, *last = parts[0].first;
    for (const auto& [begin, count] : parts) {
      first = std::min(first, begin);
      last = std::max(last, begin + count);
    }
    layer.bytes = std::as_bytes(std::span(first, last));
  }
  return model;
}

void Encoder::embed(std::span<const int64_t> ids, std::vector<float>& hidden) const {
  hidden.resize(ids.size() * kHidden);
  for (std::size_t i = 0; i < ids.size(); i++) {
    const float* word = model_.word + static_cast<std::size_t>(ids[i]) * kHidden;
    const float* position = model_.position + i * kHidden;
    float* row = hidden.data() + i * kHidden;
    for (int k = 0; k < kHidden; k++) row[k] = word[k] + position[k] + model_.type[k];
    normalise(row, model_.embedding_norm);
  }
}

// out = in x weight^T + bias
void Encoder::linear(const Linear& weights, const std::vector<float>& in, int in_width, int out_width, std::vector<float>& out) const {
  const std::size_t tokens = in.size() / static_cast<std::size_t>(in_width);
  out.resize(tokens * static_cast<std::size_t>(out_width));
  for (std::size_t i = 0; i < tokens; i++) std::copy_n(weights.bias, out_width, out.data() + i * static_cast<std::size_t>(out_width));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(tokens), out_width, in_width, 1.0f, in.data(), in_width, weights.weight,
              in_width, 1.0f, out.data(), out_width);
}

void Encoder::attend(std::size_t tokens, std::span<const uint8_t> mask) {
  const int n = static_cast<int>(tokens);
  const float scale = 1 / std::sqrt(static_cast<float>(kHeadWidth));
  context_.resize(tokens * kHidden);
  scores_.resize(tokens * tokens);
  for (int head = 0; head < kHeads; head++) {
    const std::size_t column = static_cast<std::size_t>(head) * kHeadWidth;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, kHeadWidth, scale, query_.data() + column, kHidden, key_.data() + column, kHidden, 0.0f,
                scores_.data(), n);
    for (std::size_t i = 0; i < tokens; i++) {
      float* row = scores_.data() + i * tokens;
      float highest = -std::numeric_limits<float>::infinity();
      for (std::size_t k = 0; k < tokens; k++)
        if (visible(mask, k)) highest = std::max(highest, row[k]);
      float sum = 0;
      for (std::size_t k = 0; k < tokens; k++) {
        row[k] = visible(mask, k) ? std::exp(row[k] - highest) : 0.0f;
        sum += row[k];
      }
      for (std::size_t k = 0; k < tokens; k++) row[k] /= sum;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, kHeadWidth, n, 1.0f, scores_.data(), n, value_.data() + column, kHidden, 0.0f,
                context_.data() + column, kHidden);
  }
}

void Encoder::layer(int index, std::vector<float>& hidden, std::span<const uint8_t> mask) {
  const Layer& layer = model_.layers[static_cast<std::size_t>(index)];
  linear(layer.query, hidden, kHidden, kHidden, query_);
  linear(layer.key, hidden, kHidden, kHidden, key_);
  linear(layer.value, hidden, kHidden, kHidden, value_);
  attend(hidden.size() / kHidden, mask);
  linear(layer.attention_output, context_, kHidden, kHidden, sum_);
  add_and_normalise(hidden, sum_, layer.attention_norm);
  linear(layer.intermediate, hidden, kHidden, kIntermediate, wide_);
  for (float& u : wide_) u = 0.5f * u * (1 + std::erf(u * 0.70710678118654752f));  // the exact GELU
  linear(layer.output, wide_, kIntermediate, kHidden, sum_);
  add_and_normalise(hidden, sum_, layer.output_norm);
}

std::array<float, kHidden> Encoder::pool(const std::vector<float>& hidden, std::span<const uint8_t> mask) {
  std::array<double, kHidden> mean{};
  double tokens = 0;
  for (std::size_t i = 0; i < hidden.size() / kHidden; i++) {
    if (!visible(mask, i)) continue;
    tokens++;
    for (std::size_t k = 0; k < kHidden; k++) mean[k] += hidden[i * kHidden + k];
  }
  double squares = 0;
  for (double& m : mean) {
    m /= std::max(tokens, 1e-9);
    squares += m * m;
  }
  std::array<float, kHidden> embedding;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (std::size_t k = 0; k < kHidden; k++) embedding[k] = static_cast<float>(mean[k] / length);
  return embedding;
}

std::array<float, kHidden> Encoder::encode(std::span<const int64_t> ids, const std::function<void(int)>& before_layer) {
  std::vector<float> hidden;
  embed(ids, hidden);
  for (int i = 0; i < kLayers; i++) {
    if (before_layer) before_layer(i);
    layer(i, hidden);
  }
  return pool(hidden);
}

}  // namespace minilm
