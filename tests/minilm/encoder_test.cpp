// The encoder over weights in plain memory against the golden data: embeddings, cosines, a trace of the hidden states, and padding.
// Nothing here knows of global memory. The model is found by tools/fetch-minilm.
#include "encoder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

extern "C" void openblas_set_num_threads(int);

namespace {

// One thread, as in the program; OpenBLAS's own threads are not built for ThreadSanitizer, which would see races in them.
[[maybe_unused]] const bool one_thread = (openblas_set_num_threads(1), true);

const std::string kRoot = std::string(__FILE__).substr(0, std::string(__FILE__).rfind("/tests/"));

std::string model_folder() {
  std::string out;
  FILE* pipe = popen((kRoot + "/tools/fetch-minilm 2>/dev/null").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  pclose(pipe);
  return out.substr(0, out.find('\n'));
}

const minilm::Model& model() {
  static std::vector<char> data;
  static const minilm::Model loaded = [] {
    std::ifstream file(model_folder() + "/model.safetensors", std::ios::binary);
    uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    REQUIRE(file.good());
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    data.assign(std::istreambuf_iterator<char>(file), {});
    const auto tensors = nlohmann::json::parse(header);
    return minilm::make_model([&](const std::string& name, std::size_t elements) {
      const auto& offsets = tensors.at(name).at("data_offsets");
      REQUIRE(offsets.at(1).get<std::size_t>() - offsets.at(0).get<std::size_t>() == elements * sizeof(float));
      return reinterpret_cast<const float*>(data.data() + offsets.at(0).get<std::size_t>());
    });
  }();
  return loaded;
}

const nlohmann::json& golden() {
  static const nlohmann::json data = [] {
    std::ifstream file(kRoot + "/tests/data/minilm-golden.json");
    return nlohmann::json::parse(file);
  }();
  return data;
}

const nlohmann::json& item(const std::string& name) {
  for (const auto& one : golden().at("items"))
    if (one.at("name") == name) return one;
  FAIL("no golden item ", name);
  return golden();
}

double largest_difference(const std::array<float, minilm::kHidden>& embedding, const nlohmann::json& expected) {
  double most = 0;
  for (std::size_t i = 0; i < embedding.size(); i++) {
    const double off = std::abs(embedding[i] - expected.at(i).get<double>());
    if (!(off <= most)) most = off;  // keeps a NaN, which then fails the comparison
  }
  return most;
}

}  // namespace

TEST_CASE("encoder: the golden texts give the golden embeddings and cosines") {
  minilm::Encoder encoder(model());
  std::vector<std::array<float, minilm::kHidden>> embeddings;
  for (const auto& one : golden().at("items")) {
    const std::string name = one.at("name");
    CAPTURE(name);
    embeddings.push_back(encoder.encode(one.at("token_ids").get<std::vector<int64_t>>()));
    CHECK(largest_difference(embeddings.back(), one.at("embedding")) <= 2e-6);
  }
  REQUIRE(embeddings.size() == 12);
  for (std::size_t i = 0; i < embeddings.size(); i++)
    for (std::size_t k = 0; k < embeddings.size(); k++) {
      double dot = 0;
      for (std::size_t x = 0; x < minilm::kHidden; x++) dot += static_cast<double>(embeddings[i][x]) * embeddings[k][x];
      CHECK(std::abs(dot - golden().at("cosine").at(i).at(k).get<double>()) <= 1e-6);
    }
}

TEST_CASE("encoder: hidden states agree after the embeddings and after each layer") {
  minilm::Encoder encoder(model());
  std::vector<float> hidden;
  encoder.embed(item("short").at("token_ids").get<std::vector<int64_t>>(), hidden);
  int layer = 0;
  for (const auto& point : golden().at("trace_float64")) {
    if (layer > 0) encoder.layer(layer - 1, hidden);
    layer++;
    CAPTURE(layer);
    const float* last = hidden.data() + hidden.size() - minilm::kHidden;
    for (std::size_t i = 0; i < 8; i++) {
      CHECK(std::abs(hidden[i] - point.at("cls_first8").at(i).get<double>()) <= 1e-5);
      CHECK(std::abs(last[i] - point.at("last_token_first8").at(i).get<double>()) <= 1e-5);
    }
  }
  CHECK(layer == minilm::kLayers + 1);
}

TEST_CASE("encoder: padding does not change an embedding") {
  minilm::Encoder encoder(model());
  const auto& batch = golden().at("padded_batch");
  REQUIRE(batch.at("items").size() == 3);
  for (std::size_t i = 0; i < 3; i++) {
    const auto mask = batch.at("attention_mask").at(i).get<std::vector<uint8_t>>();
    std::vector<float> hidden;
    encoder.embed(batch.at("token_ids").at(i).get<std::vector<int64_t>>(), hidden);
    for (int layer = 0; layer < minilm::kLayers; layer++) encoder.layer(layer, hidden, mask);
    CHECK(largest_difference(minilm::Encoder::pool(hidden, mask), item(batch.at("items").at(i)).at("embedding")) <= 2e-6);
  }
}
