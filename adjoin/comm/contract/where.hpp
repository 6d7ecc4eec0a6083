#pragma once

#include <cstdint>
#include <source_location>

namespace adjoin {

/// A place in a caller's code, in C++ or another language. The file name lives as long as the process.
class Where {
 public:
  constexpr Where() = default;
  constexpr Where(const char* file_name, uint32_t line) : file_name_(file_name), line_(line) {}
  constexpr Where(const std::source_location& place) : Where(place.file_name(), place.line()) {}  // NOLINT

  /// As a default argument: the place where the function is called.
  static constexpr Where current(std::source_location place = std::source_location::current()) { return place; }

  constexpr const char* file_name() const { return file_name_; }
  constexpr uint32_t line() const { return line_; }

 private:
  const char* file_name_ = "";
  uint32_t line_ = 0;
};

}  // namespace adjoin
