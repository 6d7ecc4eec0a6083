#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace adjoin::lab {

/// The bytes of a gzip file, compressed while its text arrives in pieces.
class GzipText {
 public:
  GzipText();
  ~GzipText();

  void add(std::string_view text);
  /// Returns the complete file. Nothing can be added afterwards.
  std::string finish();

 private:
  void deflate(std::string_view text, int flush);

  std::unique_ptr<struct GzipState> state_;
  std::string bytes_;
};

}  // namespace adjoin::lab
