#include "adjoin/train/metrics_line.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace adjoin::train {
namespace {

/// Collects a line's values while the parser reads them: building a tree for each of 100,000 lines would take several times as
/// long.
class LineReader {
 public:
  explicit LineReader(MetricsLine& line) : line_(line) {}

  bool is_whole() const { return has_step_ && !line_.kind.empty(); }
  size_t count() const { return count_; }

  bool null() { return true; }
  bool boolean(bool value) {
    if (depth_ == 1 && key_ == "skipped") line_.skipped = value;
    return true;
  }
  bool number_integer(int64_t value) { return integer(value); }
  bool number_unsigned(uint64_t value) { return integer(static_cast<int64_t>(value)); }
  bool number_float(double value, const std::string&) { return number(value); }
  bool string(std::string& value) {
    if (depth_ == 1 && key_ == "kind") line_.kind = value;
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool key(std::string& value) {
    if (depth_ == 1) key_.swap(value);
    return true;
  }
  bool start_object(size_t) { return ++depth_, true; }
  bool end_object() { return --depth_, true; }
  bool start_array(size_t) { return depth_++ > 0; }  // a line must be an object
  bool end_array() { return --depth_, true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  bool integer(int64_t value) {
    if (depth_ != 1 || key_ != "step") return number(static_cast<double>(value));
    line_.step = value;
    has_step_ = value >= 0;
    return has_step_;
  }
  bool number(double value) {
    if (depth_ != 1 || !std::isfinite(value)) return true;
    if (count_ == line_.numbers.size()) line_.numbers.emplace_back();
    line_.numbers[count_].first.assign(key_);
    line_.numbers[count_++].second = value;
    return true;
  }

  MetricsLine& line_;
  std::string key_;
  size_t count_ = 0;  // of numbers
  int depth_ = 0;
  bool has_step_ = false;
};

}  // namespace

double MetricsLine::number(std::string_view key, double otherwise) const {
  for (const auto& [name, value] : numbers)
    if (name == key) return value;
  return otherwise;
}

bool read_metrics_line(std::string_view text, MetricsLine& line) {
  line.kind.clear();
  line.skipped = false;
  LineReader reader(line);
  const bool is_json = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  line.numbers.resize(reader.count());
  return is_json && reader.is_whole();
}

}  // namespace adjoin::train
