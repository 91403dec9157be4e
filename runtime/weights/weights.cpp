#include "runtime/weights/weights.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/base/units.hpp"
#include "runtime/weights/hub_folder.hpp"
#include "runtime/weights/input_file.hpp"
#include "runtime/weights/manifest.hpp"
#include "runtime/weights/progress.hpp"
#include "runtime/weights/slices.hpp"

namespace farpage::weights {
namespace {

constexpr uint64_t kReadBytes = 4_MiB;  // per pread: large enough for any disk, small enough for a progress line

std::vector<std::byte> to_bytes(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Collective. Every rank brings how it fared; all leave with success, or with the error of the lowest rank that has
// one.
Result<> agree(transport::Bootstrap& bootstrap, const Result<>& mine) {
  std::vector<std::byte> text;
  if (!mine.ok()) {
    text = to_bytes(fmt::format("{}", mine.failure().message));
    text.insert(text.begin(), static_cast<std::byte>(mine.status()));
  }
  DSM_ASSIGN(const auto all, bootstrap.all_gather(text));
  for (size_t rank = 0; rank < all.size(); rank++)
    if (!all[rank].empty())
      return error(static_cast<Status>(all[rank][0]), "rank {}: {}", rank, as_text(std::span(all[rank]).subspan(1)));
  return success();
}

// Collective. Rank 0 reads the headers; everybody gets them. The same failure everywhere.
Result<Manifest> share_manifest(engine::Node& node, transport::Bootstrap& bootstrap, const std::string& directory) {
  std::vector<std::byte> mine = to_bytes(directory);
  if (bootstrap.rank().value == 0) {
    Manifest manifest{directory, Status::Ok, {}, {}};
    auto files = read_hub_folder(directory);
    if (files.ok()) {
      manifest.files = std::move(files).value();
      for (const WeightFile& file : manifest.files) node.counters().add(Counter::file_read_bytes, file.data_begin());
    } else {
      manifest.status = files.status();
      manifest.problem = files.failure().message;
    }
    mine = encode(manifest);
  }
  DSM_ASSIGN(const auto all, bootstrap.all_gather(mine));
  DSM_ASSIGN(Manifest manifest, decode(all[0]));
  for (size_t rank = 1; rank < all.size(); rank++)
    if (as_text(all[rank]) != manifest.directory)
      return error(Status::Mismatch, "weights: rank 0 opens '{}', rank {} opens '{}'", manifest.directory, rank,
                   as_text(all[rank]));
  if (manifest.status != Status::Ok) return Error{manifest.status, manifest.problem};
  return manifest;
}

// Collective. Rank 0 allocates one region per file that has data; everybody learns where they are.
Result<std::vector<WindowOffset>> share_regions(engine::Node& node, transport::Bootstrap& bootstrap,
                                                const AllocateRegion& allocate, const std::vector<WeightFile>& files) {
  std::vector<WindowOffset> regions;
  Result<> mine = success();
  if (bootstrap.rank().value == 0) {
    for (const WeightFile& file : files) {
      if (file.data_bytes() == 0) continue;
      auto region = allocate(spread(file.data_bytes(), bootstrap.size(), node.options().immutable_block_bytes));
      if (!region.ok()) {
        mine = error(region.status(), "{}: {}", file.path, region.failure().message);
        break;
      }
      regions.push_back(*region);
    }
    if (!mine.ok()) {
      for (const WindowOffset region : regions)
        (void)node.free_region(region);  // the first failure is the one to report
      regions.clear();
    }
  }
  DSM_TRY(agree(bootstrap, mine));
  DSM_ASSIGN(const auto all, bootstrap.all_gather(std::as_bytes(std::span(regions))));
  regions.resize(all[0].size() / sizeof(WindowOffset));
  if (!regions.empty()) std::memcpy(regions.data(), all[0].data(), all[0].size());
  return regions;
}

// The parts of a region that this rank homes, as [first, end) bytes of the region.
struct Part {
  uint64_t first;
  uint64_t end;
};
std::vector<Part> parts_of(const memory::RegionDescriptor& region, RankId rank) {
  std::vector<Part> parts;
  for (uint32_t i = 0; i < region.slices; i++) {
    const uint64_t end = i + 1 < region.slices ? region.slice[i + 1].first_byte : region.bytes;
    if (region.slice[i].rank == rank.value) parts.push_back({region.slice[i].first_byte, end});
  }
  return parts;
}

struct Loading {
  const WeightFile* file;
  const memory::RegionDescriptor* region;
  std::vector<Part> parts;
};

Result<> read_parts(engine::Node& node, const std::vector<Loading>& loadings, uint64_t total_bytes) {
  uint64_t share_bytes = 0;
  for (const Loading& loading : loadings)
    for (const Part& part : loading.parts) share_bytes += part.end - part.first;
  Progress progress(node.shape().rank.value == 0, share_bytes, total_bytes);
  for (const Loading& loading : loadings) {
    if (loading.parts.empty()) continue;
    DSM_ASSIGN(const InputFile input, InputFile::open(loading.file->path));
    if (input.bytes() != loading.file->bytes)
      return error(Status::Io, "{}: {} bytes here, {} at rank 0", loading.file->path, input.bytes(),
                   loading.file->bytes);
    for (const Part& part : loading.parts)
      for (uint64_t at = part.first; at < part.end; at += kReadBytes) {
        // Straight into home memory: the kernel's copy is the only one.
        const uint64_t bytes = std::min(kReadBytes, part.end - at);
        DSM_TRY(input.read(node.window().at(loading.region->offset + at), bytes, loading.file->data_begin() + at));
        node.counters().add(Counter::file_read_bytes, bytes);
        progress.add(bytes);
      }
  }
  return success();
}

// This rank's part of filling and publishing; no collective inside but publish, which all homes of a region reach only
// after all ranks have agreed that the reading went well.
Result<> resolve_all(engine::Node& node, const std::vector<WeightFile>& files, const std::vector<WindowOffset>& regions,
                     std::vector<Loading>& out) {
  size_t next = 0;
  for (const WeightFile& file : files) {
    if (file.data_bytes() == 0) continue;
    DSM_ASSIGN(const memory::RegionDescriptor* region, node.resolve(regions[next++]));
    out.push_back({&file, region, parts_of(*region, node.shape().rank)});
  }
  return success();
}

Result<> publish_all(engine::Node& node, const std::vector<Loading>& loadings) {
  for (const Loading& loading : loadings)
    if (!loading.parts.empty()) DSM_TRY(node.publish(loading.region->offset));
  return success();
}

}  // namespace

Result<std::unique_ptr<Weights>> Weights::open(engine::Node& node, transport::Bootstrap& bootstrap,
                                               const AllocateRegion& allocate, const std::string& directory) {
  DSM_ASSIGN(const Manifest manifest, share_manifest(node, bootstrap, directory));
  std::unique_ptr<Weights> weights(new Weights(node, bootstrap));
  DSM_ASSIGN(weights->regions_, share_regions(node, bootstrap, allocate, manifest.files));
  for (const WeightFile& file : manifest.files) weights->file_bytes_ += file.bytes;

  std::vector<Loading> loadings;
  Result<> mine = resolve_all(node, manifest.files, weights->regions_, loadings);
  if (mine.ok()) mine = read_parts(node, loadings, weights->file_bytes_);
  Result<> all = agree(bootstrap, mine);
  if (all.ok()) all = agree(bootstrap, publish_all(node, loadings));
  if (all.ok()) all = agree(bootstrap, weights->name_tensors(manifest.files));
  if (!all.ok()) {
    (void)weights->close();  // what went wrong first is what the caller needs to know
    return all.failure();
  }
  return weights;
}

Result<> Weights::name_tensors(const std::vector<WeightFile>& files) {
  size_t next = 0;
  for (const WeightFile& file : files) {
    const std::byte* data = file.data_bytes() == 0 ? nullptr : node_.window().at(regions_[next++]);
    DSM_ASSIGN(std::vector<TensorEntry> entries, parse_header(file.header, file.bytes, file.path));
    for (TensorEntry& entry : entries)
      tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                          data == nullptr ? nullptr : data + entry.begin, entry.end - entry.begin});
  }
  for (size_t i = 0; i < tensors_.size(); i++) by_name_[tensors_[i].name] = i;
  return success();
}

Result<> Weights::close() {
  DSM_TRY(agree(bootstrap_, success()));  // nobody reads any more
  Result<> mine = success();
  if (bootstrap_.rank().value == 0)
    for (const WindowOffset region : regions_)
      if (auto freed = node_.free_region(region); !freed.ok() && mine.ok()) mine = freed.failure();
  regions_.clear();
  tensors_.clear();
  by_name_.clear();
  return agree(bootstrap_, mine);
}

const Tensor* Weights::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? nullptr : &tensors_[place->second];
}

}  // namespace farpage::weights
