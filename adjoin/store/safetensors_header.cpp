#include "adjoin/store/safetensors_header.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

using nlohmann::json;

constexpr struct {
  std::string_view name;
  at::ScalarType dtype;
} kTypes[] = {{"F64", at::kDouble},    {"F32", at::kFloat}, {"F16", at::kHalf},
              {"BF16", at::kBFloat16}, {"I64", at::kLong},  {"I32", at::kInt},
              {"U8", at::kByte},       {"BOOL", at::kBool}, {"C64", at::kComplexFloat}};

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 80;
  const std::string shown(text.substr(0, kShown));
  return json(shown + (text.size() > kShown ? "..." : "")).dump(-1, ' ', true, json::error_handler_t::replace);
}

at::ScalarType dtype_of(std::string_view name) {
  for (const auto& type : kTypes)
    if (type.name == name) return type.dtype;
  throw InvalidArgument("dtype is " + in_quotes(name) +
                        ", expected one of F64, F32, F16, BF16, I64, I32, U8, BOOL, C64");
}

/// Handles the events of the JSON parser one by one, so that a malicious header never becomes a tree in memory.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  SafetensorsHeader header;

  bool key(string_t& key) override {
    if (place_ == Place::top) {
      require(names_.insert(key).second, [&] { return "two entries are named " + in_quotes(key); });
      name_ = key;
    } else if (place_ == Place::metadata) {
      require(!header.metadata.contains(key), [&] { return "two metadata entries are named " + in_quotes(key); });
      name_ = key;
    } else {
      require(key == "dtype" || key == "shape" || key == "data_offsets",
              [&] { return in_entry("unknown key " + in_quotes(key)); });
      require(fields_.insert(key).second, [&] { return in_entry(in_quotes(key) + " is there twice"); });
    }
    key_ = key;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::entry;
      fields_.clear();
      offsets_.clear();
      tensor_ = {};
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::entry || key_ == "dtype") unexpected("a list");
    place_ = Place::list;
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata)
      header.metadata.emplace(name_, text);
    else if (place_ == Place::entry && key_ == "dtype")
      tensor_.dtype = with_name([&] { return dtype_of(text); });
    else
      unexpected("a string");
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::list) unexpected("a number");
    require(number <= static_cast<uint64_t>(INT64_MAX),
            [&] { return in_entry(key_ + " holds a number beyond 2^63 - 1"); });
    auto& list = key_ == "shape" ? tensor_.shape : offsets_;
    require(list.size() < kLongestList, [&] { return in_entry(key_ + " is longer than 64 numbers"); });
    list.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a number that is not an integer"); }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw InvalidArgument("the header is not JSON (at its byte " + std::to_string(position) + ")");
  }

 private:
  enum class Place : uint8_t { outside, top, metadata, entry, list };
  static constexpr size_t kLongestList = 64;

  std::string in_entry(const std::string& what) const { return "tensor " + in_quotes(name_) + ": " + what; }

  template <class Function>
  std::invoke_result_t<Function> with_name(Function function) const {
    try {
      return function();
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(in_entry(error.what()));
    }
  }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::outside:
        throw InvalidArgument("the header is " + what + ", expected an object");
      case Place::top:
        throw InvalidArgument("entry " + in_quotes(name_) + " is " + what + ", expected an object");
      case Place::metadata:
        throw InvalidArgument("metadata " + in_quotes(name_) + " is " + what + ", expected a string");
      default:
        throw InvalidArgument(in_entry(key_ + " is or holds " + what));
    }
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      require(fields_.contains(field), [&] { return in_entry("no " + std::string(field)); });
    require(offsets_.size() == 2, [&] { return in_entry("data_offsets are not two numbers"); });
    tensor_.name = name_;
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    const int64_t bytes = with_name([&] { return bytes_of(tensor_); });
    require(tensor_.begin <= tensor_.end && tensor_.end - tensor_.begin == bytes, [&] {
      return in_entry("data_offsets " + std::to_string(tensor_.begin) + " to " + std::to_string(tensor_.end) +
                      " do not span the " + std::to_string(bytes) + " bytes of its shape and dtype");
    });
    header.tensors.push_back(std::move(tensor_));
  }

  Place place_ = Place::outside;
  std::string name_, key_;
  std::set<std::string> names_, fields_;
  std::vector<int64_t> offsets_;
  StoredTensor tensor_;
};

void check_coverage(const std::vector<StoredTensor>& tensors, int64_t data_bytes) {
  int64_t covered = 0;
  for (const StoredTensor& tensor : tensors) {
    require(tensor.begin == covered, [&] {
      return "tensor " + in_quotes(tensor.name) + ": data begin at byte " + std::to_string(tensor.begin) +
             (tensor.begin > covered ? ", a hole after byte " : ", an overlap before byte ") + std::to_string(covered);
    });
    require(tensor.end <= data_bytes, [&] {
      return "tensor " + in_quotes(tensor.name) + ": data end at byte " + std::to_string(tensor.end) + " of " +
             std::to_string(data_bytes) + " (truncated?)";
    });
    covered = tensor.end;
  }
  require(covered == data_bytes,
          [&] { return std::to_string(data_bytes - covered) + " bytes after the last tensor belong to no tensor"; });
}

}  // namespace

std::string_view safetensors_type(at::ScalarType dtype) {
  for (const auto& type : kTypes)
    if (type.dtype == dtype) return type.name;
  throw InvalidArgument(std::string("safetensors files hold no tensors of type ") + c10::toString(dtype));
}

int64_t bytes_of(const TensorEntry& entry) {
  safetensors_type(entry.dtype);
  auto bytes = static_cast<int64_t>(c10::elementSize(entry.dtype));
  bool empty = false;
  for (const int64_t size : entry.shape) {
    require(size >= 0, "shape holds a negative size");
    empty = empty || size == 0;
    // Strides are products too, also in an empty tensor, so sizes of 0 count as 1 for the overflow check.
    require(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes), "shape's product is beyond 2^63 - 1");
  }
  return empty ? 0 : bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes) {
  require(text.starts_with('{'), "the header does not begin with {");
  require(text.find('\0') == text.npos, "the header holds a zero byte");  // the JSON parser would stop there
  HeaderReader reader;
  json::sax_parse(text, &reader);
  auto& tensors = reader.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_coverage(tensors, data_bytes);
  return std::move(reader.header);
}

std::string make_safetensors_header(const std::vector<TensorEntry>& entries,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names;
  int64_t offset = 0;
  for (const TensorEntry& entry : entries) {
    require(entry.name != "__metadata__" && names.insert(entry.name).second,
            [&] { return "safetensors: tensor name " + in_quotes(entry.name) + " is reserved or used twice"; });
    const int64_t begin = offset;
    offset += bytes_of(entry);
    auto& described = header[entry.name];
    described["dtype"] = safetensors_type(entry.dtype);
    described["shape"] = entry.shape;
    described["data_offsets"] = {begin, offset};
  }
  std::string text = header.dump();
  // So that the data begin at a cache line: the system then reads them a quarter faster.
  constexpr size_t kLine = 64, kLength = sizeof(uint64_t);
  text.resize((kLength + text.size() + kLine - 1) / kLine * kLine - kLength, ' ');
  return text;
}

}  // namespace adjoin::train
