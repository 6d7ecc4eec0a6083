#include "adjoin/insitu/fields.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "adjoin/base/error.hpp"

namespace adjoin::insitu {
using nlohmann::json;

namespace {

/// Whether a value is a number of a kind: a whole one is a size or a count.
template <class Number>
auto is_at_least(Number least) {
  return [least](const json& value) {
    const bool is_of_kind = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
    const double most = std::is_integral_v<Number> ? 0x1p31 : std::numeric_limits<double>::max();
    return is_of_kind && value.get<double>() >= static_cast<double>(least) && value.get<double>() <= most;
  };
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

template <class Value, class Fits>
Value Fields::get(const std::string& key, const std::optional<Value>& otherwise, const Fits& fits,
                  const std::string& expected) const {
  const json* found = value(key);
  if (!found && otherwise) return *otherwise;
  if (!found || !std::invoke(fits, *found)) refuse(key, expected);
  return found->get<Value>();
}

int64_t Fields::integer(const std::string& key, std::optional<int64_t> otherwise, int64_t least) const {
  return get(key, otherwise, is_at_least(least), "a whole number of at least " + std::to_string(least));
}

double Fields::number(const std::string& key, double otherwise, double least, double most) const {
  const auto fits = [&](const json& found) { return is_at_least(least)(found) && found.get<double>() <= most; };
  return get(key, std::optional(otherwise), fits, "a number from " + json(least).dump() + " to " + json(most).dump());
}

bool Fields::flag(const std::string& key, bool otherwise) const {
  return get(key, std::optional(otherwise), &json::is_boolean, "true or false");
}

std::string Fields::word(const std::string& key, const std::optional<std::string>& otherwise) const {
  return get(key, otherwise, &json::is_string, "a word");
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

template <class Number>
std::vector<Number> Fields::each(const std::string& key, std::optional<Number> otherwise, Number least,
                                 size_t count) const {
  const json* found = value(key);
  if (!found && otherwise) return std::vector(count, *otherwise);
  const json one_for_all(count, found ? *found : json()), &all = found && found->is_array() ? *found : one_for_all;
  if (all.size() != count || !std::ranges::all_of(all, is_at_least(least)))
    refuse(key, std::string(std::is_integral_v<Number> ? "a whole number" : "a number") + " of at least " +
                    json(least).dump() + ", or a list of " + std::to_string(count));
  return all.get<std::vector<Number>>();
}
template std::vector<int64_t> Fields::each(const std::string&, std::optional<int64_t>, int64_t, size_t) const;
template std::vector<double> Fields::each(const std::string&, std::optional<double>, double, size_t) const;

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
