#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace adjoin::insitu {

/// The keys of one JSON object of a description. Each function throws InvalidArgument that begins with the object's place and names the
/// key; `end` for a key that nobody has asked for.
class Fields {
 public:
  /// Throws: InvalidArgument unless it is an object
  Fields(std::string place, const nlohmann::json& object);

  bool has(const std::string& key) const { return object_.contains(key); }
  int64_t integer(const std::string& key, std::optional<int64_t> otherwise, int64_t least) const;
  double number(const std::string& key, double otherwise, double least, double most) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string word(const std::string& key, const std::optional<std::string>& otherwise) const;
  /// One word, or a list of some.
  std::vector<std::string> words(const std::string& key) const;
  /// One number for all of `count`, or a list with one for each; int64_t or double.
  template <class Number>
  std::vector<Number> each(const std::string& key, std::optional<Number> otherwise, Number least, size_t count) const;
  /// As it is written; nullptr where it is not there.
  const nlohmann::json* value(const std::string& key) const;
  void end() const;

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

 private:
  template <class Value, class Fits>
  Value get(const std::string& key, const std::optional<Value>& otherwise, const Fits& fits,
            const std::string& expected) const;

  std::string place_;
  const nlohmann::json& object_;
  mutable std::set<std::string> known_;
};

/// Parses a description. Throws: InvalidArgument, with `what` and the line
nlohmann::json parsed(const std::string& what, const std::string& text);

}  // namespace adjoin::insitu
