#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adjoin::nn::fixed {

/// Asks MKL and oneDNN to keep an element's order of summands, for the rest of the process. By themselves they do so on AMD's processors; on
/// Intel's the order depends on the sizes of the matrices, MKL's from some 100 summands on and oneDNN's by AMX. Without effect where
/// LibTorch has used them before, or the environment has MKL_CBWR and ONEDNN_MAX_CPU_ISA.
/// Cost:   with AVX-512 none for large products; 1.1 to 1.25 of the time of small ones, 1.2 of attention's, 2 of a row's alone. Products
///         of bfloat16 take about 12 times as long as by AMX
/// Source: "Conditional numerical reproducibility" in oneMKL's developer guide, "CPU dispatcher control" in oneDNN's
void ask_for_one_order();

/// What came out of a promise: the cases that were tried, and those in which it was broken.
struct KeptPromise {
  std::string kernel;  ///< "gelu of bfloat16"
  int64_t tried = 0, broken = 0;
  uint64_t first_result = 0;  ///< a hash of what the first case gave: equal on machines whose kernels are alike
};

/// Tries on this machine all that the same bits in every layout need of LibTorch's kernels as adjoin calls them, in float32 and
/// bfloat16: that an element does not change with what is computed beside it, nor with the number of threads. Of products, their
/// sums over leaves, activations and their gradients, softmax and norms, sums of columns, and attention of samples that are padded
/// by their own length. In turns until `seconds` have passed, each at least once (about half a second in all).
/// Not to be called beside other work of LibTorch in this process: it changes the number of threads, and sets it back.
std::vector<KeptPromise> kept_promises(double seconds);

/// kept_promises(0) of this process, tried once, while other threads that ask for it wait.
const std::vector<KeptPromise>& promises_of_process();

}  // namespace adjoin::nn::fixed
