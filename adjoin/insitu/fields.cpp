#include "adjoin/insitu/fields.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"

namespace adjoin::insitu {
using nlohmann::json;

namespace {

constexpr double kMost = 0x1p31;  // of sizes and counts

std::optional<int64_t> integer_of(const json& value, int64_t least) {
  const double number = value.is_number_integer() ? value.get<double>() : kMost + 1;
  const bool fits = number >= static_cast<double>(least) && number <= kMost;
  return fits ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

}  // namespace

Fields::Fields(std::string place, const json& object) : place_(std::move(place)), object_(object) {
  if (!object.is_object()) refuse("expected an object {…}");
}

void Fields::refuse(const std::string& what) const {
  throw InvalidArgument(place_ + ": " + what);
}

void Fields::refuse(const std::string& key, const std::string& expected) const {
  const json* found = value(key);
  const std::string got = found ? found->dump(-1, ' ', false, json::error_handler_t::replace) : "nothing";
  refuse("\"" + key + "\": expected " + expected + ", got " + got.substr(0, 60));
}

const json* Fields::value(const std::string& key) const {
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

int64_t Fields::integer(const std::string& key, std::optional<int64_t> otherwise, int64_t least) const {
  const json* found = value(key);
  if (!found && otherwise) return *otherwise;
  const auto number = found ? integer_of(*found, least) : std::nullopt;
  if (!number) refuse(key, "a whole number of at least " + std::to_string(least));
  return *number;
}

double Fields::number(const std::string& key, double otherwise, double least, double most) const {
  const json* found = value(key);
  if (!found) return otherwise;
  const bool fits = found->is_number() && found->get<double>() >= least && found->get<double>() <= most;
  if (!fits) refuse(key, "a number from " + json(least).dump() + " to " + json(most).dump());
  return found->get<double>();
}

bool Fields::flag(const std::string& key, bool otherwise) const {
  const json* found = value(key);
  if (!found) return otherwise;
  if (!found->is_boolean()) refuse(key, "true or false");
  return found->get<bool>();
}

std::string Fields::word(const std::string& key, std::optional<std::string> otherwise) const {
  const json* found = value(key);
  if (!found && otherwise) return *otherwise;
  if (!found || !found->is_string()) refuse(key, "a word");
  return found->get<std::string>();
}

std::vector<std::string> Fields::words(const std::string& key) const {
  const json* found = value(key);
  if (!found) return {};
  if (found->is_string()) return {found->get<std::string>()};
  const bool are_words = found->is_array() && !found->empty() &&
                         std::ranges::all_of(*found, [](const json& one) { return one.is_string(); });
  if (!are_words) refuse(key, "a word, or a list of words");
  return found->get<std::vector<std::string>>();
}

std::vector<int64_t> Fields::per_dim(const std::string& key, int64_t otherwise, int64_t least, size_t dims) const {
  const json* found = value(key);
  if (!found) return std::vector(dims, otherwise);
  if (const auto number = integer_of(*found, least)) return std::vector(dims, *number);
  std::vector<int64_t> numbers;
  if (found->is_array() && found->size() == dims)
    for (const json& one : *found)
      if (const auto number = integer_of(one, least)) numbers.push_back(*number);
  if (numbers.size() != dims)
    refuse(key, "a whole number of at least " + std::to_string(least) + ", or a list of " + std::to_string(dims));
  return numbers;
}

void Fields::end() const {
  for (const auto& [key, unused] : object_.items())
    if (!known_.contains(key)) refuse("\"" + key + "\" is not known here");
}

json parsed(const std::string& what, const std::string& text) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    const std::string message = error.what();
    throw InvalidArgument(what + ": is no JSON: " + message.substr(message.find(']') + 2));
  }
}

}  // namespace adjoin::insitu
