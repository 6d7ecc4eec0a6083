// Compiled with OpenMP, which LibTorch's threads come from.
#include "adjoin/movement/on_threads.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace adjoin {

void on_threads(int64_t size, int64_t grain, const std::function<void(Range part)>& work) {
  at::parallel_for(0, size, grain, [&](int64_t begin, int64_t end) { work({begin, end}); });
}

void on_one_thread_each(int64_t size, int64_t unit, const std::function<void(Range piece)>& compute) {
  const int64_t units = (size + unit - 1) / unit;
  const int64_t pieces = std::min<int64_t>(units, at::get_num_threads());
  // A loop of one turn would run outside of a parallel region, where operations use all threads; the second turn does nothing.
  at::parallel_for(0, std::max<int64_t>(pieces, 2), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradient;
#ifdef _OPENMP
    const int threads = at::get_num_threads();  // which sets the number at its first call on a thread
    omp_set_num_threads(1);                     // of this thread alone
#endif
    for (int64_t piece = begin; piece < std::min(end, pieces); ++piece) {
      const Range of = balanced_range(units, static_cast<int>(pieces), static_cast<int>(piece));
      compute(Range{of.begin * unit, std::min(of.end * unit, size)});
    }
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
  });
}

}  // namespace adjoin
