#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace adjoin::plan {

/// Numbers that were measured on this machine, by name, kept in the cache's folder (train::cache_folder) from one plan to the
/// next. Those of another machine, build or set of workers are never found.
class Measurements {
 public:
  /// `about`: what tells machine, build and workers from others. `anew`: what was kept is not looked at.
  Measurements(nlohmann::ordered_json about, bool anew);

  /// None where nothing of this name was measured.
  const std::vector<double>* find(const std::string& name) const;
  const std::vector<double>& add(const std::string& name, std::vector<double> numbers);

  /// All of them as a text, and what such a text says in place of what is here: so that the processes of a job know the same.
  std::string text() const;
  void take(const std::string& text);

  /// Keeps them, beside what others have kept since they were read; does nothing where nothing was added or there is no cache.
  /// Throws: IoError where the disk refuses
  void keep();

 private:
  std::map<std::string, std::vector<double>> kept() const;

  nlohmann::ordered_json about_;
  std::optional<std::filesystem::path> place_;
  std::map<std::string, std::vector<double>> numbers_;
  bool has_more_ = false;
};

}  // namespace adjoin::plan
