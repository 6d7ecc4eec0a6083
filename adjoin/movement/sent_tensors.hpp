#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {

/// Tensors that are being sent to other ranks while this rank goes on. Each is kept until it was received.
class SentTensors {
 public:
  /// As Communicator::isend, of a tensor in any memory. Nobody may write the tensor until it was received.
  void send(const at::Tensor& tensor, const Communicator& group, int to, int tag) {
    const at::Tensor contiguous = plain("isend", tensor).contiguous();
    under_way_.push_back({contiguous, group.isend(buffer_of_reals(contiguous), to, tag)});
  }
  /// Releases the tensors that were received.
  void drop_received() {
    std::erase_if(under_way_, [](const UnderWay& sent) {
      if (!sent.sending->done()) return false;
      sent.sending->wait();  // a device's stream may have yet to
      return true;
    });
  }
  /// Returns when all tensors were received.
  void wait() const {
    for (const UnderWay& sent : under_way_) sent.sending->wait();
  }

 private:
  struct UnderWay {
    at::Tensor tensor;
    std::unique_ptr<Pending> sending;
  };
  std::vector<UnderWay> under_way_;
};

}  // namespace adjoin
