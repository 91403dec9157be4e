#include "runtime/weights/safetensors.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "runtime/weights/hostile_text.hpp"

namespace farpage::weights {
namespace {

using Json = nlohmann::json;

struct DtypeRow {
  std::string_view name;
  Dtype dtype;
  uint64_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {"F64", Dtype::F64, 8},         {"F32", Dtype::F32, 4},         {"F16", Dtype::F16, 2},  {"BF16", Dtype::BF16, 2},
    {"F8_E4M3", Dtype::F8_E4M3, 1}, {"F8_E5M2", Dtype::F8_E5M2, 1}, {"I64", Dtype::I64, 8},  {"I32", Dtype::I32, 4},
    {"I16", Dtype::I16, 2},         {"I8", Dtype::I8, 1},           {"U64", Dtype::U64, 8},  {"U32", Dtype::U32, 4},
    {"U16", Dtype::U16, 2},         {"U8", Dtype::U8, 1},           {"BOOL", Dtype::Bool, 1}};

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const DtypeRow& row : kDtypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

// Follows the parser through a header and keeps only what a header may hold, so that no input, however deep or long,
// builds a tree in memory. Returning false stops the parser; `problem` says why.
class HeaderReader : public Json::json_sax_t {
 public:
  std::vector<TensorEntry> tensors;
  std::string problem;
  size_t problem_byte = 0;  // of the header; 0: not known

  bool start_object(size_t) override {
    switch (at_) {
      case At::Start: return at_ = At::Names, true;
      case At::Tensor: return at_ = At::Fields, seen_ = 0, true;
      case At::Metadata: return at_ = At::MetadataPairs, true;
      default: return unexpected("an object");
    }
  }
  bool end_object() override {
    switch (at_) {
      case At::Names: return at_ = At::End, true;
      case At::MetadataPairs: return at_ = At::Names, true;
      case At::Fields:
        if (seen_ != (kDtype | kShape | kOffsets))
          return refuse("has no {}", !(seen_ & kDtype) ? "dtype" : !(seen_ & kShape) ? "shape" : "data_offsets");
        return at_ = At::Names, true;
      default: return unexpected("the end of an object");
    }
  }
  bool key(std::string& name) override {
    if (at_ == At::Names) return begin_entry(name);
    if (at_ == At::Fields) return begin_field(name);
    return true;  // a pair of the metadata
  }
  bool string(std::string& text) override {
    if (at_ == At::MetadataPairs) return true;
    if (at_ != At::DtypeValue) return unexpected("a string");
    const auto dtype = dtype_named(text);
    if (!dtype) return refuse("has the unknown dtype '{}'", shown(text));
    tensors.back().dtype = *dtype;
    return at_ = At::Fields, true;
  }
  bool start_array(size_t) override {
    if (at_ == At::ShapeValue) return at_ = At::ShapeNumbers, true;
    if (at_ == At::OffsetsValue) return at_ = At::OffsetNumbers, true;
    return unexpected("an array");
  }
  bool end_array() override {
    if (at_ == At::OffsetNumbers && offsets_ != 2) return refuse("has {} data_offsets instead of 2", offsets_);
    return at_ = At::Fields, true;
  }
  bool number_unsigned(uint64_t value) override {
    if (at_ == At::ShapeNumbers) {
      if (tensors.back().shape.size() == kMaxDimensions) return refuse("has more than {} dimensions", kMaxDimensions);
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return refuse("has a dimension of {}", value);
      tensors.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (at_ == At::OffsetNumbers && offsets_ < 2) {
      (offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
      return true;
    }
    if (at_ == At::OffsetNumbers) return refuse("has more than 2 data_offsets");
    return unexpected("a number");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(int64_t value) override { return unexpected(fmt::format("the number {}", value)); }
  bool number_float(double, const std::string& text) override { return unexpected("the number " + shown(text)); }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& failure) override {
    problem = json_problem(failure.what());
    problem_byte = byte;
    return false;
  }

 private:
  enum class At {
    Start,
    Names,
    Tensor,
    Fields,
    DtypeValue,
    ShapeValue,
    ShapeNumbers,
    OffsetsValue,
    OffsetNumbers,
    Metadata,
    MetadataPairs,
    End
  };
  enum : unsigned { kDtype = 1, kShape = 2, kOffsets = 4 };

  bool begin_entry(const std::string& name) {
    if (!names_.insert(name).second) return problem = fmt::format("tensor '{}' is named twice", shown(name)), false;
    if (name == "__metadata__") return at_ = At::Metadata, true;
    // The C interface hands names out as C strings.
    if (name.find('\0') != name.npos)
      return problem = fmt::format("the name '{}' holds a zero byte", shown(name)), false;
    tensors.push_back({name, Dtype::F32, {}, 0, 0});
    return at_ = At::Tensor, true;
  }
  bool begin_field(const std::string& name) {
    const unsigned field = name == "dtype" ? kDtype : name == "shape" ? kShape : name == "data_offsets" ? kOffsets : 0u;
    if (field == 0) return refuse("has the unknown field '{}'", shown(name));
    if (seen_ & field) return refuse("has {} twice", name);
    seen_ |= field;
    offsets_ = 0;
    at_ = field == kDtype ? At::DtypeValue : field == kShape ? At::ShapeValue : At::OffsetsValue;
    return true;
  }
  template <class... Args>
  bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    problem = fmt::format("tensor '{}' {}", shown(tensors.back().name), fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool unexpected(const std::string& what) {
    const bool in_tensor = at_ != At::Start && at_ != At::Names && at_ != At::Metadata && at_ != At::MetadataPairs;
    problem = fmt::format(
        "{} where none may be ({})", what,
        in_tensor && !tensors.empty() ? "tensor '" + shown(tensors.back().name) + "'" : "top of the header");
    return false;
  }

  At at_ = At::Start;
  unsigned seen_ = 0;
  unsigned offsets_ = 0;
  std::unordered_set<std::string> names_;
};

// False: more bytes than 64 bits count.
bool tensor_bytes(const TensorEntry& tensor, uint64_t& out) {
  out = dtype_bytes(tensor.dtype);
  for (const int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(out, static_cast<uint64_t>(extent), &out)) return false;
  return true;
}

std::string shape_text(const TensorEntry& tensor) { return fmt::format("[{}]", fmt::join(tensor.shape, ", ")); }

// The tensors, by offset, cover the data section exactly once.
Result<> check_layout(const std::vector<TensorEntry>& tensors, uint64_t data_begin, uint64_t file_bytes,
                      const std::string& path) {
  uint64_t at = 0;  // data bytes covered so far
  const TensorEntry* before = nullptr;
  for (const TensorEntry& tensor : tensors) {
    const std::string name = shown(tensor.name);
    uint64_t bytes = 0;
    if (tensor.end < tensor.begin)
      return error(Status::Io, "{}: tensor '{}' ends at data byte {}, before its begin {}", path, name, tensor.end,
                   tensor.begin);
    if (!tensor_bytes(tensor, bytes))
      return error(Status::Io, "{}: tensor '{}' of shape {} has more bytes than 64 bits can count", path, name,
                   shape_text(tensor));
    if (bytes != tensor.end - tensor.begin)
      return error(Status::Io, "{}: tensor '{}' of shape {} needs {} bytes, its data_offsets [{}, {}] give {}", path,
                   name, shape_text(tensor), bytes, tensor.begin, tensor.end, tensor.end - tensor.begin);
    if (tensor.begin < at)
      return error(Status::Io, "{}: tensor '{}' begins at data byte {}, inside tensor '{}' which ends at {}", path,
                   name, tensor.begin, shown(before->name), at);
    if (tensor.begin > at)
      return error(Status::Io, "{}: hole of {} bytes at data byte {}, before tensor '{}'", path, tensor.begin - at, at,
                   name);
    if (tensor.end > file_bytes - data_begin)
      return error(
          Status::Io,
          "{}: cut short: the file ends at byte {}, {} bytes after its data begin, but tensor '{}' at data byte {}",
          path, file_bytes, file_bytes - data_begin, name, tensor.end);
    at = tensor.end;
    before = &tensor;
  }
  if (data_begin + at != file_bytes)
    return error(Status::Io, "{}: {} bytes belong to no tensor, from byte {} of the file on", path,
                 file_bytes - data_begin - at, data_begin + at);
  return success();
}

}  // namespace

uint64_t dtype_bytes(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }

Result<uint64_t> parse_header_length(std::string_view first_bytes, uint64_t file_bytes, const std::string& path) {
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes)
    return error(Status::Io, "{}: cut short: {} bytes, but a safetensors file begins with 8 bytes of header length",
                 path, file_bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; i++) length |= uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  if (length > kMaxHeaderBytes)
    return error(Status::Io, "{}: header of {} bytes; the format allows {}", path, length, kMaxHeaderBytes);
  if (length > file_bytes - kLengthBytes)
    return error(Status::Io, "{}: cut short: the header ends at byte {}, the file at {}", path, kLengthBytes + length,
                 file_bytes);
  return length;
}

Result<std::vector<TensorEntry>> parse_header(std::string_view header, uint64_t file_bytes, const std::string& path) {
  if (header.empty() || header.front() != '{')
    return error(Status::Io, "{}: byte {}: the header must begin with '{{'", path, kLengthBytes);
  HeaderReader reader;
  if (!Json::sax_parse(header.begin(), header.end(), &reader)) {
    if (reader.problem_byte == 0) return error(Status::Io, "{}: header: {}", path, reader.problem);
    return error(Status::Io, "{}: header, byte {} of the file: {}", path, kLengthBytes + reader.problem_byte - 1,
                 reader.problem);
  }
  std::vector<TensorEntry>& tensors = reader.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.name < b.name;
  });
  DSM_TRY(check_layout(tensors, kLengthBytes + header.size(), file_bytes, path));
  return std::move(tensors);
}

}  // namespace farpage::weights
