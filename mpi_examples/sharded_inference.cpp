// sharded_inference: a real transformer (all-MiniLM-L6-v2) whose weights no rank holds whole. The file is read once by the whole
// job, each rank its slice; the weights live in one global address space, arrive by page fault where they are used, and the next
// layer is asked for while this one is computed. Products by OpenBLAS straight on global pointers.
//
//   mpirun -np 4 sharded_inference --model DIR --text "a sentence" --text "another"
//   DSM_DOMAIN=rank DSM_CACHE_BYTES=16M mpirun -np 4 sharded_inference --model DIR --sentences 64    less cache than weights
//   mpirun -np 4 sharded_inference --model DIR --parallel pipeline --sentences 64                   layers spread over the ranks
//   mpirun -np 4 sharded_inference --model DIR --golden tests/data/minilm-golden.json               exit 1 beyond 2e-6
//
// One piece, since an example is read from top to bottom: input, the two ways of working, the report.
#include <farpage/dsm.hpp>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "minilm/encoder.hpp"
#include "minilm/wordpiece.hpp"

extern "C" void openblas_set_num_threads(int);

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr const char* kUsage =
    "usage: sharded_inference --model DIR [--text T]... [--file F] [--ids F] [--sentences N] [--golden F]\n"
    "                         [--parallel data|pipeline] [--no-prefetch] [--local] [--no-table]\n";

struct Options {
  std::string model, file, ids, golden;
  std::vector<std::string> texts;
  int sentences = 0;
  bool pipeline = false, prefetch = true, local = false, table = true;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "sharded_inference: %s\n%s", why.c_str(), kUsage);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) refuse(name + " needs a value");
      return argv[++i];
    };
    if (name == "--model") options.model = value();
    else if (name == "--text") options.texts.push_back(value());
    else if (name == "--file") options.file = value();
    else if (name == "--ids") options.ids = value();
    else if (name == "--golden") options.golden = value();
    else if (name == "--sentences") {
      const std::string count = value();
      options.sentences = std::atoi(count.c_str());
      if (options.sentences < 1 || options.sentences > 100000) refuse("--sentences " + count + ": 1 to 100000");
    } else if (name == "--parallel") {
      const std::string how = value();
      if (how != "data" && how != "pipeline") refuse("--parallel " + how + ": data or pipeline");
      options.pipeline = how == "pipeline";
    } else if (name == "--no-prefetch") options.prefetch = false;
    else if (name == "--local") options.local = true;
    else if (name == "--no-table") options.table = false;
    else if (name == "--help") { std::fputs(kUsage, stdout); std::exit(0); }
    else refuse("unknown option " + name);
  }
  if (options.model.empty()) refuse("--model is missing (tools/fetch-minilm prints its folder)");
  return options;
}

// --- input -----------------------------------------------------------------------------------------------------------------

struct Sentence {
  std::string name;
  std::vector<int64_t> ids;
  std::vector<float> expected;  // golden data
};

std::string built_in_sentence(int i) {
  static const char* kWho[] = {"A nurse", "The engineer", "My neighbour", "An old sailor", "The committee", "A young fox", "The orchestra", "Our teacher"};
  static const char* kDoes[] = {"repairs", "describes", "is looking for", "has forgotten", "measures", "paints", "explains", "carries"};
  static const char* kWhat[] = {"a wooden bridge", "the second law of thermodynamics", "three red umbrellas", "the harbour at night",
                                "an unusually long recipe for bread", "the shortest route", "a letter from the bank", "broken clocks"};
  return std::string(kWho[i % 8]) + " " + kDoes[i / 8 % 8] + " " + kWhat[(i / 64 + i * 5) % 8] + ".";
}

std::vector<int64_t> parse_ids(const std::string& line, const std::string& where) {
  std::istringstream in(line);
  std::vector<int64_t> ids;
  for (int64_t id; in >> id;) {
    if (id < 0 || id >= minilm::kVocabulary) refuse(where + ": token id " + std::to_string(id) + " is not in the vocabulary");
    ids.push_back(id);
  }
  if (!in.eof()) refuse(where + ": not a list of token ids");
  if (ids.empty() || ids.size() > minilm::kMaxTokens) refuse(where + ": " + std::to_string(ids.size()) + " token ids: 1 to 256");
  return ids;
}

std::vector<Sentence> read_sentences(const Options& options, bool speak) {
  std::vector<Sentence> sentences;
  std::vector<std::string> texts = options.texts;
  if (!options.file.empty()) {
    std::ifstream file(options.file);
    if (!file) refuse(options.file + ": cannot be read");
    for (std::string line; std::getline(file, line);) texts.push_back(line);
  }
  for (int i = 0; i < options.sentences; i++) texts.push_back(built_in_sentence(i));
  if (!texts.empty() || options.golden.empty()) {
    const minilm::WordPiece wordpiece(options.model + "/vocab.txt");
    for (const std::string& text : texts) {
      minilm::Tokens tokens = wordpiece.tokenize(text);
      const std::string shown = text.substr(0, 32);
      if (tokens.truncated && speak) std::fprintf(stderr, "\"%s...\": longer than 256 tokens, the rest is left out\n", shown.c_str());
      if (tokens.invalid_utf8 && speak) std::fprintf(stderr, "\"%s...\": bytes that are no UTF-8 are left out\n", shown.c_str());
      sentences.push_back({text, std::move(tokens.ids), {}});
    }
  }
  if (!options.ids.empty()) {
    std::ifstream file(options.ids);
    if (!file) refuse(options.ids + ": cannot be read");
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      number++;
      sentences.push_back({options.ids + ":" + std::to_string(number), parse_ids(line, options.ids + ", line " + std::to_string(number)), {}});
    }
  }
  if (!options.golden.empty()) {
    std::ifstream file(options.golden);
    const auto golden = nlohmann::json::parse(file, nullptr, false);
    if (golden.is_discarded()) refuse(options.golden + ": not the golden data");
    const minilm::WordPiece wordpiece(options.model + "/vocab.txt");
    for (const auto& item : golden.at("items")) {
      const auto ids = item.at("token_ids").get<std::vector<int64_t>>();
      const std::string text = item.at("text");
      if (wordpiece.tokenize(text).ids != ids) refuse(options.golden + ": " + std::string(item.at("name")) + ": the tokenizer gives other ids");
      sentences.push_back({item.at("name"), ids, item.at("embedding").get<std::vector<float>>()});
    }
  }
  if (sentences.empty()) refuse("nothing to encode: --text, --file, --ids, --sentences or --golden");
  return sentences;
}

// --- the model -------------------------------------------------------------------------------------------------------------

// --local: this rank reads the whole file into private memory. The comparison, and what the address space saves.
class LocalWeights {
 public:
  explicit LocalWeights(const std::string& directory) {
    std::ifstream file(directory + "/model.safetensors", std::ios::binary);
    uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    if (!file || header_bytes > 100'000'000) throw std::runtime_error(directory + "/model.safetensors: cannot be read");
    std::string header(header_bytes, 0);
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    header_ = nlohmann::json::parse(header);
    const auto begin = file.tellg();
    file.seekg(0, std::ios::end);
    data_.resize(static_cast<std::size_t>(file.tellg() - begin));
    file.seekg(begin);
    file.read(data_.data(), static_cast<std::streamsize>(data_.size()));
    file_bytes = 8 + header_bytes + data_.size();
  }
  const float* tensor(const std::string& name, std::size_t elements) const {
    const auto& offsets = header_.at(name).at("data_offsets");
    const std::size_t first = offsets.at(0), last = offsets.at(1);
    if (last - first != elements * sizeof(float)) throw std::runtime_error(name + ": has another size");
    return reinterpret_cast<const float*>(data_.data() + first);
  }
  std::size_t file_bytes = 0;

 private:
  nlohmann::json header_;
  std::vector<char> data_;
};

// --- work ------------------------------------------------------------------------------------------------------------------

using Embedding = std::array<float, minilm::kHidden>;

struct Work {
  std::vector<Embedding> embeddings;  // of all sentences; this rank fills its own
  double first_result = 0;            // seconds from the start of the job
  double busy = 0;                    // seconds inside the encoder, waits for weights included
};

void prefetch_layer(const minilm::Model& model, int layer) {
  if (layer < minilm::kLayers) dsm::prefetch(model.layers[static_cast<std::size_t>(layer)].bytes);
}

// Each rank takes every size-th sentence.
void work_data(const Options& options, const minilm::Model& model, const std::vector<Sentence>& sentences, Clock::time_point start, Work& work) {
  minilm::Encoder encoder(model);
  const bool ahead = options.prefetch && !options.local;
  if (ahead) prefetch_layer(model, 0);
  for (std::size_t i = static_cast<std::size_t>(dsm_rank()); i < sentences.size(); i += static_cast<std::size_t>(dsm_size())) {
    const auto begin = Clock::now();
    work.embeddings[i] = encoder.encode(sentences[i].ids, [&](int layer) {
      if (ahead) prefetch_layer(model, (layer + 1) % minilm::kLayers);
    });
    work.busy += seconds_since(begin);
    if (work.first_result == 0) work.first_result = seconds_since(start);
  }
}

// The activations between two stages: a slot a sentence modulo kSlots, in COHERENT global memory at home of the stage that
// writes it; the next stage pulls it by plain loads. `full` counts sentences written, `taken` sentences pulled; each on its own block.
struct Channel {
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotFloats = minilm::kMaxTokens * minilm::kHidden;
  static constexpr std::size_t kBytes = 2 * 4096 + kSlots * kSlotFloats * sizeof(float);
  char* base;
  std::atomic_ref<uint64_t> full() const { return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(base)); }
  std::atomic_ref<uint64_t> taken() const { return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(base + 4096)); }
  float* slot(std::size_t sentence) const { return reinterpret_cast<float*>(base + 2 * 4096) + sentence % kSlots * kSlotFloats; }
};

template <class Ready>
void wait_until(Ready&& ready, const char* what) {
  const auto begin = Clock::now();
  for (auto pause = std::chrono::microseconds(50); !ready(); pause = std::min(pause * 2, std::chrono::microseconds(1000))) {
    std::this_thread::sleep_for(pause);  // ranks outnumber cores: never spin
    if (seconds_since(begin) > 60) throw std::runtime_error(std::string("no ") + what + " for 60 s");
  }
}

// Stage s of S computes layers [s * 6 / S, (s + 1) * 6 / S).
void work_pipeline(const Options& options, const minilm::Model& model, const std::vector<Sentence>& sentences, Clock::time_point start, Work& work) {
  const int stages = std::min(dsm_size(), minilm::kLayers), stage = dsm_rank();
  std::vector<uint64_t> pointers(static_cast<std::size_t>(dsm_size()));
  dsm::Array<char> memory;
  if (stage + 1 < stages) memory = dsm::Array<char>(Channel::kBytes);
  uint64_t mine = reinterpret_cast<uint64_t>(memory.data());
  MPI_Allgather(&mine, 1, MPI_UINT64_T, pointers.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  if (stage < stages) {
    const int first = stage * minilm::kLayers / stages, last = (stage + 1) * minilm::kLayers / stages;
    const Channel out{memory.data()};
    const Channel in{stage == 0 ? nullptr : reinterpret_cast<char*>(pointers[static_cast<std::size_t>(stage - 1)])};
    minilm::Encoder encoder(model);
    if (options.prefetch && !options.local)
      for (int layer = first; layer < last; layer++) prefetch_layer(model, layer);
    std::vector<float> hidden;
    for (std::size_t i = 0; i < sentences.size(); i++) {
      if (stage > 0) {
        wait_until([&] { return in.full().load(std::memory_order_acquire) > i; }, "hidden states from the stage before");
        const float* from = in.slot(i);
        hidden.assign(from, from + sentences[i].ids.size() * minilm::kHidden);
        in.taken().store(i + 1, std::memory_order_release);
      }
      const auto begin = Clock::now();
      if (stage == 0) encoder.embed(sentences[i].ids, hidden);
      for (int layer = first; layer < last; layer++) encoder.layer(layer, hidden);
      if (stage + 1 == stages) work.embeddings[i] = minilm::Encoder::pool(hidden);
      work.busy += seconds_since(begin);
      if (stage + 1 < stages) {
        wait_until([&] { return out.taken().load(std::memory_order_acquire) + Channel::kSlots > i; }, "progress of the stage behind");
        std::copy(hidden.begin(), hidden.end(), out.slot(i));
        out.full().store(i + 1, std::memory_order_release);
      } else if (work.first_result == 0) {
        work.first_result = seconds_since(start);
      }
    }
  }
  dsm::barrier();
}

// --- report ----------------------------------------------------------------------------------------------------------------

void print_table(const std::vector<Sentence>& sentences, const std::vector<Embedding>& embeddings) {
  const std::size_t shown = std::min<std::size_t>(sentences.size(), 12);
  std::printf("similarity\n");
  for (std::size_t i = 0; i < shown; i++) {
    std::printf("  %2zu", i);
    for (std::size_t k = 0; k <= i; k++) {
      double dot = 0;
      for (std::size_t x = 0; x < minilm::kHidden; x++) dot += static_cast<double>(embeddings[i][x]) * embeddings[k][x];
      std::printf(" %5.2f", dot);
    }
    std::printf("%*s  %.60s\n", static_cast<int>(6 * (shown - 1 - i)), "", sentences[i].name.c_str());
  }
  if (shown < sentences.size()) std::printf("  (%zu more sentences)\n", sentences.size() - shown);
}

// The largest difference to the golden data, infinite where a number is none.
double golden_difference(const std::vector<Sentence>& sentences, const std::vector<Embedding>& embeddings) {
  double most = 0;
  for (std::size_t i = 0; i < sentences.size(); i++)
    for (std::size_t k = 0; k < sentences[i].expected.size(); k++) {
      const double off = std::abs(static_cast<double>(sentences[i].expected[k]) - embeddings[i][k]);
      most = std::isnan(off) ? HUGE_VAL : std::max(most, off);  // std::max would let a NaN pass
    }
  return most;
}

struct RankReport {
  double first_result, busy, total;
};

void print_report(const Options& options, const std::vector<RankReport>& ranks, const std::vector<std::map<std::string, uint64_t>>& domains,
                  const std::vector<std::map<std::string, uint64_t>>& during, double load_seconds, std::size_t local_bytes, std::size_t sentences) {
  uint64_t read = 0;
  for (const auto& d : domains) read += d.at("file_read_bytes");
  if (options.local) read = local_bytes * ranks.size();
  std::printf("report: %zu sentences, %zu ranks, %zu domains, %s%s\n", sentences, ranks.size(), domains.size(), options.pipeline ? "pipeline" : "data parallel",
              options.local ? ", local copies" : options.prefetch ? ", next layer prefetched" : ", no prefetch");
  std::printf("  read from disk        %llu bytes by all ranks, %.2f s\n", static_cast<unsigned long long>(read), load_seconds);
  double stalled = 0;
  for (std::size_t d = 0; d < domains.size(); d++) {
    const auto& n = domains[d];
    const auto count = [&](const char* name) { return static_cast<unsigned long long>(n.at(name)); };
    std::printf("  domain %-2zu             homed %llu, fetched %llu (%llu during compute), cached %llu, on the wire %llu out %llu in\n", d,
                count("home_bytes"), count("fetched_bytes"), static_cast<unsigned long long>(during[d].at("fetched_bytes")), count("cached_bytes"),
                count("wire_sent_bytes"), count("wire_received_bytes"));
    std::printf("                        faults: %llu loads, %llu stores, %llu upgrades, %llu without a message; prefetched %llu, hits %llu; evicted %llu; stalled %.1f ms\n",
                count("faults_read"), count("faults_write"), count("faults_upgrade"), count("faults_local"), count("prefetched"), count("prefetch_hits"),
                count("evicted_clean") + count("evicted_dirty"), static_cast<double>(during[d].at("fault_wait_ns")) / 1e6);
    stalled += static_cast<double>(during[d].at("fault_wait_ns")) / 1e9;
  }
  double busy = 0, first = 1e9, total = 0;
  for (const RankReport& r : ranks) {
    busy += r.busy;
    total = std::max(total, r.total);
    if (r.first_result > 0) first = std::min(first, r.first_result);
  }
  const double compute = std::max(busy - stalled, 0.0);
  std::printf("  time stalled          %.1f ms of %.1f ms in the encoder, over all ranks\n", stalled * 1e3, busy * 1e3);
  std::printf("  utilisation           %.1f %% = compute / (compute + stall)\n", busy > 0 ? 100 * compute / (compute + stalled) : 0.0);
  std::printf("  time to first result  %.1f ms after the weights were published\n", first * 1e3);
  std::printf("  total time            %.1f ms, %.1f sentences/s\n", total * 1e3, static_cast<double>(sentences) / total);
}

// Counters of every domain, at rank 0 only.
std::vector<std::map<std::string, uint64_t>> gather_counters(const std::map<std::string, uint64_t>& since) {
  std::vector<uint64_t> mine;
  for (auto& [name, value] : dsm::counters()) mine.push_back(value - (since.empty() ? 0 : since.at(name)));
  std::vector<uint64_t> all(mine.size() * static_cast<std::size_t>(dsm_size()));
  MPI_Gather(mine.data(), static_cast<int>(mine.size()), MPI_UINT64_T, all.data(), static_cast<int>(mine.size()), MPI_UINT64_T, 0, MPI_COMM_WORLD);
  std::vector<std::map<std::string, uint64_t>> domains(static_cast<std::size_t>(dsm_domains()));
  for (int rank = dsm_size() - 1; rank >= 0; rank--) {
    std::size_t i = static_cast<std::size_t>(rank) * mine.size();
    for (auto& [name, value] : dsm::counters()) domains[static_cast<std::size_t>(dsm_domain_of(rank))][name] = all[i++];
  }
  return domains;
}

int run(const Options& options) {
  const dsm::Session session;
  const bool root = session.rank() == 0;
  const std::vector<Sentence> sentences = read_sentences(options, root);

  const auto load_begin = Clock::now();
  std::unique_ptr<dsm::Weights> weights;
  std::unique_ptr<LocalWeights> local;
  if (options.local)
    local = std::make_unique<LocalWeights>(options.model);
  else
    weights = std::make_unique<dsm::Weights>(options.model);
  const minilm::Model model = minilm::make_model([&](const std::string& name, std::size_t elements) {
    if (local) return local->tensor(name, elements);
    const std::span<const float> numbers = (*weights)[name].as<float>();
    if (numbers.size() != elements) throw std::runtime_error(name + ": has another shape than all-MiniLM-L6-v2");
    return numbers.data();
  });
  const double load_seconds = seconds_since(load_begin);

  dsm::barrier();
  const auto before = dsm::counters();
  const auto start = Clock::now();
  Work work;
  work.embeddings.resize(sentences.size());
  options.pipeline ? work_pipeline(options, model, sentences, start, work) : work_data(options, model, sentences, start, work);
  const double mine_total = seconds_since(start);
  dsm::barrier();

  // Each embedding was made by one rank, and is zero in the others.
  std::vector<Embedding> all(sentences.size());
  MPI_Reduce(work.embeddings.data(), all.data(), static_cast<int>(sentences.size()) * minilm::kHidden, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  const RankReport mine{work.first_result, work.busy, mine_total};
  std::vector<RankReport> ranks(static_cast<std::size_t>(session.size()));
  MPI_Gather(&mine, sizeof mine, MPI_BYTE, ranks.data(), sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
  const auto domains = gather_counters({}), during = gather_counters(before);
  int failed = 0;
  if (root) {
    if (options.table) print_table(sentences, all);
    print_report(options, ranks, domains, during, load_seconds, local ? local->file_bytes : 0, sentences.size());
    if (!options.golden.empty()) {
      const double off = golden_difference(sentences, all);
      failed = !(off <= 2e-6);
      std::printf("golden: largest difference %.3g, %s\n", off, failed ? "beyond 2e-6: WRONG" : "within 2e-6");
    }
  }
  MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  MPI_Init(&argc, &argv);
  openblas_set_num_threads(1);  // the ranks are the parallelism
  int code = 1;
  try {
    code = run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "sharded_inference: %s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
