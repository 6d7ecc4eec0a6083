#include "adjoin/program/weights.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "adjoin/program/declared.hpp"

namespace adjoin::program {
namespace {

/// Where a tensor lies in a record.
struct Place {
  std::string record;
  at::ScalarType type;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  bool is_parameter, requires_gradient;

  auto operator<=>(const Place&) const = default;
};

std::vector<int64_t> numbers_of(const Json& json, const char* key) {
  std::vector<int64_t> numbers;
  for (const Json& size : list(json, key)) {
    const auto number = size_of(size).example;
    require(number.has_value() && *number >= 0, [&] { return in_quotes(key) + " holds what is no number from 0 on"; });
    numbers.push_back(*number);
  }
  return numbers;
}

Place place_in(const Json& entry, const std::string& folder) {
  require(!boolean(object(entry, "use_pickle")), "it is stored as a Python object, and not as plain numbers");
  const Json& meta = object(entry, "tensor_meta");
  const std::optional<int64_t> offset = size_of(object(meta, "storage_offset")).example;
  require(offset.has_value() && *offset >= 0, "its offset is no number from 0 on");
  Place place{.record = folder + text(entry, "path_name"),
              .type = element_type(object(meta, "dtype")),
              .sizes = numbers_of(meta, "sizes"),
              .strides = numbers_of(meta, "strides"),
              .offset = *offset,
              .is_parameter = boolean(object(entry, "is_param")),
              .requires_gradient = boolean(object(meta, "requires_grad"))};
  require(place.sizes.size() == place.strides.size() && place.sizes.size() <= 64,
          "it has another number of strides than of sizes");
  require(!place.requires_gradient || c10::isFloatingType(place.type) || c10::isComplexType(place.type),
          "its elements can have no gradient");
  return place;
}

/// The number of elements up to the last one; 0 for a tensor without any.
int64_t end_of(const Place& place) {
  if (std::ranges::find(place.sizes, 0) != place.sizes.end()) return 0;
  int64_t end = place.offset;
  bool fits = !__builtin_add_overflow(end, 1, &end);
  for (size_t i = 0; i < place.sizes.size() && fits; ++i) {
    int64_t reach = 0;
    fits = !__builtin_mul_overflow(place.sizes[i] - 1, place.strides[i], &reach) &&
           !__builtin_add_overflow(end, reach, &end);
  }
  require(fits, "its sizes and strides are beyond 2^63 - 1");
  return end;
}

at::Tensor read_one(const Archive& archive, const Place& place) {
  const int64_t bytes = archive.bytes_of(place.record), end = end_of(place);
  const auto element = static_cast<int64_t>(c10::elementSize(place.type));
  require(end <= bytes / element, [&] {
    return "its sizes need " + std::to_string(end) + " elements, and the record " + place.record + " has " +
           std::to_string(bytes / element);
  });
  int64_t count = 1;
  for (const int64_t size : place.sizes)
    require(size == 0 || !__builtin_mul_overflow(count, size, &count), "its sizes are beyond 2^63 - 1");
  require(end == 0 || count <= end, "its elements lie one over another");  // a copy would need more than the file has
  if (bytes % element != 0) archive.refuse("the record " + place.record + " ends within an element");
  const bool is_whole = place.offset == 0 && end == bytes / element && end > 0;
  const at::Tensor memory =
      is_whole ? at::empty_strided(place.sizes, place.strides, place.type) : at::empty({bytes / element}, place.type);
  archive.read(place.record, memory.data_ptr(), bytes);
  if (place.type == at::kBool) {  // any other byte would be neither true nor false
    const auto* begin = static_cast<const uint8_t*>(memory.data_ptr());
    require(std::all_of(begin, begin + bytes, [](uint8_t byte) { return byte <= 1; }), "a boolean is neither 0 nor 1");
  }
  return is_whole ? memory : memory.as_strided(place.sizes, place.strides, end == 0 ? 0 : place.offset).clone();
}

/// Calls visit(name, place) with each tensor of a configuration.
template <class Visit>
void for_each_place(const Archive& archive, const std::string& configuration, const Visit& visit) {
  const std::string folder = configuration.substr(0, configuration.rfind('/') + 1);
  const Json json = Json::parse(archive.text(configuration), nullptr, false);
  if (!json.is_object() || !json.contains("config") || !json["config"].is_object())
    archive.refuse("the record " + configuration + " is not as torch.export writes it");
  for (const auto& [name, entry] : json["config"].items()) {
    try {
      visit(name, place_in(entry, folder));
    } catch (const InvalidArgument& error) {
      archive.refuse("the tensor " + in_quotes(name) + ": " + error.what());
    }
  }
}

}  // namespace

std::map<std::string, at::Tensor> read_tensors(const Archive& archive, const std::string& configuration) {
  std::map<Place, at::Tensor> read_once;
  std::map<std::string, at::Tensor> tensors;
  for_each_place(archive, configuration, [&](const std::string& name, const Place& place) {
    at::Tensor& tensor = read_once[place];
    if (!tensor.defined()) {
      tensor = read_one(archive, place);
      if (place.is_parameter) tensor.requires_grad_(place.requires_gradient);
    }
    tensors[name] = tensor;
  });
  return tensors;
}

void for_each_record_with(const Archive& archive, const std::string& configuration,
                          const std::function<at::Tensor(const std::string& name)>& value,
                          const std::function<void(const std::string& record, const std::string& bytes)>& write) {
  std::map<std::string, std::vector<std::pair<std::string, Place>>> places;  // by record
  for_each_place(archive, configuration,
                 [&](const std::string& name, const Place& place) { places[place.record].emplace_back(name, place); });
  for (const std::string& record : archive.records()) {
    std::string bytes = archive.text(record);
    for (const auto& [name, place] : places[record]) {
      const at::Tensor x = value(name);
      if (!x.defined()) continue;
      require(x.sizes() == place.sizes, "the file has other sizes than when it was read");
      read_one(archive, place);  // its checks
      const auto elements = static_cast<int64_t>(bytes.size() / c10::elementSize(place.type));
      if (end_of(place) > 0)
        at::from_blob(bytes.data(), {elements}, place.type)
            .as_strided(place.sizes, place.strides, place.offset)
            .copy_(x);
    }
    write(record, bytes);
  }
}

}  // namespace adjoin::program
