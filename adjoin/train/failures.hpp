#pragma once

#include <exception>
#include <functional>
#include <string>

namespace adjoin::train {

/// Runs `work`; what LibTorch, the file system and the allocator throw becomes an error of ours, in one line without
/// their stack frames.
/// Throws: IoError for a std::filesystem::filesystem_error; Error for a c10::Error and for std::bad_alloc, which says
///         what was asked for and what there is; else what `work` throws.
void in_our_words(const std::function<void()>& work);

/// Of an error that comes with a line that says what to do: what it says without that line.
struct Advised {
  std::string failure, advice;
};

/// Throws an error again with a line of advice behind it, as the class of Error that it is, and Advised too; without advice as it
/// is.
[[noreturn]] void throw_advised(const std::exception_ptr& error, const std::string& advice);

}  // namespace adjoin::train
