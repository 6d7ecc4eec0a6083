#pragma once

#include <exception>
#include <functional>
#include <string>

namespace adjoin::train {

/// Runs `work`. What LibTorch, the file system and the allocator throw becomes an error of this library, in one line without
/// their stack frames.
/// Throws: IoError for a std::filesystem::filesystem_error; Error for a c10::Error, and for std::bad_alloc with the memory that
///         was requested and what is available; else what `work` throws.
void with_adjoin_errors(const std::function<void()>& work);

/// For an error whose last line says what to do: its text without that line.
struct Advised {
  std::string failure, advice;
};

/// Throws an error again with a line of advice added, in its own class of Error, which is then also an Advised; without advice
/// the error is unchanged.
[[noreturn]] void throw_advised(const std::exception_ptr& error, const std::string& advice);

}  // namespace adjoin::train
