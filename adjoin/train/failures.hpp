#pragma once

#include <functional>

namespace adjoin::train {

/// Runs `work`; what LibTorch, the file system and the allocator throw becomes an error of ours, in one line without
/// their stack frames.
/// Throws: IoError for a std::filesystem::filesystem_error; Error for a c10::Error and for std::bad_alloc, which says
///         what was asked for and what there is; else what `work` throws.
void in_our_words(const std::function<void()>& work);

}  // namespace adjoin::train
