// Weights on a real job (run under mpirun, any number of ranks, any DSM_DOMAIN). Rank 0 writes a folder of shards; all
// ranks open it and compare every byte of every tensor. Also shows: the files are read once per job (rchar of
// /proc/self/io summed over the ranks), errors are the same everywhere and leave no home memory behind, close gives the
// memory back.
#include <cstring>
#include <fstream>
#include <span>

#include "runtime/base/check.hpp"
#include "runtime/base/options.hpp"
#include "runtime/engine/node.hpp"
#include "runtime/weights/weights.hpp"
#include "tests/weights/safetensors_file.hpp"
#include "transport/bootstrap.hpp"
#include "transport/launcher.hpp"

namespace farpage::weights {
namespace {

constexpr uint64_t kBigBytes = 24 * 1024 * 1024 + 24, kSmallBytes = 5;
constexpr const char* kIndexName = "model.safetensors.index.json";

template <class T>
T value_of(Result<T> result) {
  DSM_CHECK(result.ok(), "{}", result.failure().message);
  return std::move(result).value();
}

uint64_t rchar() {
  std::ifstream file("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value)
    if (name == "rchar:") return value;
  return 0;
}

uint64_t sum_over_ranks(transport::Bootstrap& bootstrap, uint64_t mine) {
  uint64_t sum = 0;
  for (const auto& bytes : value_of(bootstrap.all_gather(std::as_bytes(std::span(&mine, 1))))) {
    uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    sum += value;
  }
  return sum;
}

std::string text_of_rank_0(transport::Bootstrap& bootstrap, const std::string& mine) {
  const auto all = value_of(bootstrap.all_gather(std::as_bytes(std::span(mine))));
  return {reinterpret_cast<const char*>(all[0].data()), all[0].size()};
}

void write_model(const testing::TemporaryFolder& folder) {
  folder.write("m-1.safetensors", testing::safetensors_file(
                                      fmt::format(R"({{"scalar":{{"dtype":"I64","shape":[],"data_offsets":[0,8]}},)"
                                                  R"("empty":{{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]}},)"
                                                  R"("big":{{"dtype":"F32","shape":[{},2],"data_offsets":[8,{}]}}}})",
                                                  (kBigBytes - 8) / 8, kBigBytes),
                                      kBigBytes));
  folder.write("m-2.safetensors",
               testing::safetensors_file(R"({"small":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", kSmallBytes));
  folder.write("m-3.safetensors",
               testing::safetensors_file(R"({"none":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0));
  folder.write(kIndexName,
               R"({"weight_map":{"scalar":"m-1.safetensors","empty":"m-1.safetensors","big":"m-1.safetensors",)"
               R"("small":"m-2.safetensors","none":"m-3.safetensors"}})");
}

// `first` is the tensor's place in its file's data section.
void check_bytes(const Weights& weights, const char* name, uint64_t bytes, uint64_t first) {
  const Tensor* tensor = weights.find(name);
  DSM_CHECK(tensor != nullptr, "{}", name);
  DSM_CHECK(tensor->bytes == bytes, "{}: {} bytes", name, tensor->bytes);
  const char* data = reinterpret_cast<const char*>(tensor->data);
  for (uint64_t i = 0; i < bytes; i++) DSM_CHECK(data[i] == testing::data_byte(first + i), "{}: byte {}", name, i);
}

class Job {
 public:
  Job(engine::Node& node, transport::Bootstrap& bootstrap) : node_(node), bootstrap_(bootstrap) {}

  void run(const std::string& folder, uint64_t file_bytes) {
    const uint64_t home_before = sum_over_ranks(bootstrap_, node_.counters().get(Counter::home_bytes));
    const uint64_t counted_before = counted_reads();
    const uint64_t rchar_before = rchar();
    auto weights = value_of(open(folder));
    const uint64_t read = sum_over_ranks(bootstrap_, rchar() - rchar_before);
    if (node_.shape().rank.value == 0) fmt::print("files {} bytes, rchar of all ranks {}\n", file_bytes, read);
    DSM_CHECK(read >= file_bytes, "{} of {} bytes read", read, file_bytes);
    DSM_CHECK(read <= file_bytes + file_bytes / 100, "{} bytes read for {}", read, file_bytes);
    // The counter of the domains counts the files, each once; the index beside them is not weights.
    DSM_CHECK(counted_reads() - counted_before == weights->file_bytes());
    DSM_CHECK(weights->file_bytes() < file_bytes);
    DSM_CHECK(weights->file_bytes() + 4096 > file_bytes);

    DSM_CHECK(weights->tensors().size() == 5);
    check_bytes(*weights, "scalar", 8, 0);
    check_bytes(*weights, "big", kBigBytes - 8, 8);
    check_bytes(*weights, "small", kSmallBytes, 0);
    check_bytes(*weights, "empty", 0, 0);
    check_bytes(*weights, "none", 0, 0);
    DSM_CHECK(weights->find("big")->shape == (std::vector<int64_t>{(kBigBytes - 8) / 8, 2}));
    DSM_CHECK(weights->find("no such tensor") == nullptr);

    value_of(weights->close());
    DSM_CHECK(sum_over_ranks(bootstrap_, node_.counters().get(Counter::home_bytes)) == home_before);
  }

  void expect_error(const std::string& folder, Status status, std::string_view part) {
    const uint64_t home_before = sum_over_ranks(bootstrap_, node_.counters().get(Counter::home_bytes));
    const auto result = open(folder);
    DSM_CHECK(!result.ok());
    DSM_CHECK(result.status() == status, "{}", result.failure().message);
    DSM_CHECK(result.failure().message.find(part) != std::string::npos, "'{}' lacks '{}'", result.failure().message,
              part);
    DSM_CHECK(text_of_rank_0(bootstrap_, result.failure().message) == result.failure().message);
    DSM_CHECK(sum_over_ranks(bootstrap_, node_.counters().get(Counter::home_bytes)) == home_before);
  }

 private:
  // Of all domains: each rank adds its domain's counter if it leads it.
  uint64_t counted_reads() {
    return sum_over_ranks(bootstrap_, node_.shape().leader() ? node_.counters().get(Counter::file_read_bytes) : 0);
  }
  Result<std::unique_ptr<Weights>> open(const std::string& folder) {
    return Weights::open(
        node_, bootstrap_, [this](const memory::RegionDescriptor& wanted) { return allocate(wanted); }, folder);
  }

  // One region after the other through this rank's arena; nothing is given back to it, the arena is large.
  Result<WindowOffset> allocate(memory::RegionDescriptor wanted) {
    const memory::Range arena = node_.arena(node_.shape().rank);
    wanted.offset = arena.offset + used_;
    wanted.owner_rank = node_.shape().rank.value;
    wanted.ranks = node_.shape().ranks;
    wanted.generation = 1;
    wanted.state = memory::RegionState::Live;
    used_ += round_up(wanted.bytes, kRunBytes);
    DSM_ASSIGN(const memory::RegionDescriptor* region, node_.create_region(wanted));
    return region->offset;
  }

  engine::Node& node_;
  transport::Bootstrap& bootstrap_;
  uint64_t used_ = 0;
};

uint64_t folder_bytes(const std::string& folder) {
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) sum += entry.file_size();
  return sum;
}

int run() {
  const Options options = value_of(options_from_environment(nullptr));
  const auto bootstrap = value_of(transport::open_bootstrap(transport::launched_by_mpirun()));
  set_process_name(fmt::format("rank {}", bootstrap->rank().value));
  const auto node = value_of(engine::Node::open(options, *bootstrap));
  const bool first = bootstrap->rank().value == 0;
  {
    const testing::TemporaryFolder own;  // rank 0's is used by all
    const std::string folder = text_of_rank_0(*bootstrap, own.path());
    Job job(*node, *bootstrap);
    if (first) write_model(own);
    value_of(bootstrap->barrier());
    job.run(folder, folder_bytes(folder));
    job.run(folder, folder_bytes(folder));  // the same again: nothing of the first is in the way

    job.expect_error(folder + "/none", Status::Io, "none");
    const std::string wrong_folder = first ? folder : folder + "/";
    if (bootstrap->size() > 1) job.expect_error(wrong_folder, Status::Mismatch, "rank 1 opens");
    value_of(bootstrap->barrier());
    if (first) std::filesystem::resize_file(folder + "/m-1.safetensors", kBigBytes);
    value_of(bootstrap->barrier());
    job.expect_error(folder, Status::Io, "m-1.safetensors: cut short");
    value_of(bootstrap->barrier());
    if (first) std::filesystem::remove(folder + "/m-2.safetensors");
    if (first) std::filesystem::remove(folder + "/m-1.safetensors");
    value_of(bootstrap->barrier());
    job.expect_error(folder, Status::Io, "m-1.safetensors: missing");
    value_of(bootstrap->barrier());
  }
  value_of(node->close());
  if (first) fmt::print("weights_job: ok\n");
  return 0;
}

}  // namespace
}  // namespace farpage::weights

int main() { return farpage::weights::run(); }
