#include "adjoin/movement/tensor_message.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

constexpr size_t kMaxDims = 12;
using Header = std::array<int64_t, 2 + kMaxDims>;  // element type, number of dims, sizes

Header header_of(const at::Tensor& x) {
  require(x.dim() <= static_cast<int64_t>(kMaxDims),
          [&] { return "communication: expected at most 12 dims, got " + std::to_string(x.dim()); });
  Header header{static_cast<int64_t>(element_type(x.scalar_type())), x.dim()};
  std::copy(x.sizes().begin(), x.sizes().end(), header.begin() + 2);
  return header;
}

at::Tensor described_by(const Header& header) {
  return at::empty(at::IntArrayRef(header.data() + 2, static_cast<size_t>(header[1])),
                   at::TensorOptions().dtype(scalar_type(static_cast<ElementType>(header[0]))));
}

void exchange(Buffer out, const std::vector<int>& to, const std::vector<Buffer>& in, const std::vector<int>& from,
              const Communicator& group) {
  std::vector<Message> messages;
  for (const int peer : to) messages.push_back({Message::Kind::send, peer, out});
  for (size_t i = 0; i < from.size(); ++i) messages.push_back({Message::Kind::receive, from[i], in[i]});
  group.exchange(messages);
}

}  // namespace

std::vector<at::Tensor> exchange_tensors(const at::Tensor& x, const std::vector<int>& to, const std::vector<int>& from,
                                         const Communicator& group) {
  Header mine = header_of(x);
  std::vector<Header> headers(from.size());
  std::vector<Buffer> buffers;
  for (Header& header : headers) buffers.push_back(buffer(header));
  exchange(buffer(mine), to, buffers, from, group);

  const at::Tensor contiguous = x.contiguous();
  std::vector<at::Tensor> received;
  buffers.clear();
  for (const Header& header : headers) {
    received.push_back(described_by(header));
    buffers.push_back(as_buffer(received.back()));
  }
  exchange(as_buffer(contiguous), to, buffers, from, group);
  return received;
}

}  // namespace adjoin
