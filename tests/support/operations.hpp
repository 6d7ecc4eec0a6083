#pragma once

#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing {

using OperationCall = std::function<void(const Communicator&, std::vector<float>&)>;

/// One call of each operation, of small and of larger messages; x has 4 * size elements or many more.
inline std::vector<OperationCall> every_operation() {
  const auto even = [](const Communicator& w, const std::vector<float>& x) {
    return std::vector<int64_t>(static_cast<size_t>(w.size()), static_cast<int64_t>(x.size()) / w.size());
  };
  const auto own = [](const Communicator& w, std::vector<float>& x) {
    const auto n = static_cast<int64_t>(x.size()) / w.size();
    return buffer(x).slice(n * w.rank(), n);
  };
  return {
      [](const Communicator& w, std::vector<float>&) { w.barrier(); },
      [](const Communicator& w, std::vector<float>& x) { w.broadcast(buffer(x), w.size() - 1); },
      [](const Communicator& w, std::vector<float>& x) { w.reduce(const_buffer(x), buffer(x), Reduction::sum, 0); },
      [](const Communicator& w, std::vector<float>& x) { w.all_reduce(buffer(x), Reduction::max); },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.gather(own(w, x), buffer(out), even(w, x), 0);
      },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.scatter(buffer(x), own(w, out), even(w, x), 0);
      },
      [=](const Communicator& w, std::vector<float>& x) { w.all_gather(own(w, x), buffer(x), even(w, x)); },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.reduce_scatter(buffer(x), own(w, out), even(w, x));
      },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.all_to_all(buffer(x), even(w, x), buffer(out), even(w, x));
      },
      [](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.sendrecv(buffer(x), (w.rank() + 1) % w.size(), buffer(out), (w.rank() + w.size() - 1) % w.size());
      },
  };
}

}  // namespace adjoin::testing
