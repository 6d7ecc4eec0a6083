#include "adjoin/plan/measurements.hpp"

#include <fstream>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/data/token_cache.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::plan {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::map<std::string, std::vector<double>>;

constexpr const char* kEnding = ".measured.json";

}  // namespace

Measurements::Measurements(Json about, bool anew)
    : about_(std::move(about)), place_(data::cache_place(about_, kEnding)) {
  if (!anew) numbers_ = kept();
}

Numbers Measurements::kept() const {
  if (!place_) return {};
  std::ifstream file(*place_);
  try {
    const Json json = Json::parse(file);
    if (json.at("about") == about_) return json.at("measured").get<Numbers>();
  } catch (const Json::exception&) {  // there is no file, or one that cannot be trusted
  }
  return {};
}

const std::vector<double>* Measurements::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &found->second;
}

void Measurements::add(const std::string& name, std::vector<double> numbers, bool keeps) {
  numbers_[name] = std::move(numbers);
  if (keeps) more_.insert(name);
}

std::string Measurements::text() const {
  return Json(numbers_).dump();
}

void Measurements::take(const std::string& text) {
  numbers_ = Json::parse(text).get<Numbers>();
}

void Measurements::keep() {
  if (!place_ || more_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(place_->parent_path(), error);
  if (error) throw IoError(place_->parent_path().string() + ": " + error.message());
  Numbers all = kept();
  for (const std::string& name : std::exchange(more_, {})) all[name] = numbers_.at(name);
  train::write_atomically(*place_, Json{{"about", about_}, {"measured", all}}.dump(1) + "\n");
}

}  // namespace adjoin::plan
