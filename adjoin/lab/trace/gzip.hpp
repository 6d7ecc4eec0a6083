#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace adjoin::lab {

/// The bytes of a gzip file, made while its text comes in pieces.
class GzipText {
 public:
  GzipText();
  ~GzipText();

  void add(std::string_view text);
  /// What is still to come of the file: all of it. Nothing can be added then.
  std::string finish();

 private:
  void deflate(std::string_view text, int flush);

  std::unique_ptr<struct GzipState> state_;
  std::string bytes_;
};

}  // namespace adjoin::lab
