#pragma once

namespace adjoin {

/// Lets LibTorch's other threads communicate in place of this one while it waits for them: where backward is nested more than
/// 60 deep, as in checkpoints within checkpoints, LibTorch continues it on a thread of its own. Called by each movement, so
/// before a backward that contains one.
void remember_thread();

}  // namespace adjoin
