#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace adjoin::cli {

/// The lines of a file descriptor, as they come.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  /// Waits for a line and returns it together with lines that are already there, at most `most`; none at the end. The last line
  /// may lack its line end.
  /// Throws: IoError
  std::vector<std::string> next(size_t most);

 private:
  bool take_line(std::vector<std::string>& lines);
  bool has_come() const;
  void read();

  int descriptor_;
  bool ended_ = false;
  std::string buffer_;
  size_t begin_ = 0, searched_ = 0;  // begin of the next line, and how far its end has been searched
};

}  // namespace adjoin::cli
