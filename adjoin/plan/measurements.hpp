#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace adjoin::plan {

/// Numbers that were measured on this machine, by name, kept in the cache's folder (data::cache_folder) from one plan to the
/// next. Numbers of another machine, build or set of workers are never found.
class Measurements {
 public:
  /// `about`: what distinguishes machine, build and workers from others. `anew`: ignores kept numbers.
  Measurements(nlohmann::ordered_json about, bool anew);

  /// Null where nothing of this name was measured.
  const std::vector<double>* find(const std::string& name) const;
  /// `keeps`: for later plans too.
  void add(const std::string& name, std::vector<double> numbers, bool keeps = true);

  /// `text`: all numbers as a text. `take`: replaces the numbers by those of such a text, so that the processes of a job have
  /// the same.
  std::string text() const;
  void take(const std::string& text);

  /// Adds them to the cache, where others may have added numbers since it was read; does nothing where nothing was added or
  /// there is no cache.
  void keep();

 private:
  std::map<std::string, std::vector<double>> kept() const;

  nlohmann::ordered_json about_;
  std::optional<std::filesystem::path> place_;
  std::map<std::string, std::vector<double>> numbers_;
  std::set<std::string> more_;  // the names of what must be kept
};

}  // namespace adjoin::plan
