#include "adjoin/lab/silent_backend.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "adjoin/base/box.hpp"

namespace adjoin::lab {

void SilentBackend::exchange(std::span<const Message> messages, const Call&) {
  constexpr std::array<char, 16> kZero{};
  for (const Message& message : messages) {
    const Buffer& out = message.buffer;
    if (message.is_send() || out.count == 0) continue;
    const std::vector<int64_t> count{out.count}, unit{1};
    const auto sizes = message.sizes.empty() ? std::span<const int64_t>(count) : message.sizes;
    const std::vector<int64_t> nowhere(sizes.size(), 0);
    copy_box(out.data, sizes, message.sizes.empty() ? std::span<const int64_t>(unit) : message.strides, kZero.data(),
             sizes, nowhere, out.bytes() / out.count);
  }
}

/// The block that this rank gives itself, cut or filled with zeros, is what it gets from every other one: where ranks tell each other
/// what they want, that is as much as they want of this one.
void SilentBackend::give_own_block(const Call& call) {
  const bool gathers = call.collective == Collective::all_gather;
  const auto mine = call.counts.begin() + rank_;
  const ConstBuffer own =
      gathers ? call.in : call.in.slice(std::accumulate(call.counts.begin(), mine, int64_t{0}), *mine);
  int64_t before = 0;
  for (const int64_t count : gathers ? call.counts : call.receive_counts) {
    const Buffer block = call.out.slice(before, count);
    const auto same = static_cast<size_t>(std::min(own.bytes(), block.bytes()));
    const bool is_own = block.data == own.data;
    if (block.count > 0 && !is_own) std::memset(block.data, 0, static_cast<size_t>(block.bytes()));
    if (same > 0 && !is_own) std::memcpy(block.data, own.data, same);
    before += count;
  }
}

void SilentBackend::run_collective(const Call& call) {
  const bool has_blocks = call.collective == Collective::all_to_all || call.collective == Collective::all_gather;
  if (has_blocks && call.out.data != nullptr && call.in.data != nullptr) return give_own_block(call);
  const bool works_in_place = call.out.data == call.in.data;  // its own numbers are kept
  if (!works_in_place && call.out.data != nullptr) std::memset(call.out.data, 0, static_cast<size_t>(call.out.bytes()));
}

std::shared_ptr<Backend> SilentBackend::subset(std::span<const int> ranks, const Call&) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  std::vector<int> hosts;
  for (const int rank : ranks) hosts.push_back(hosts_[static_cast<size_t>(rank)]);
  return std::make_shared<SilentBackend>(static_cast<int>(place - ranks.begin()), std::move(hosts));
}

bool SilentBackend::spans_hosts() const {
  return std::ranges::any_of(hosts_, [this](int host) { return host != hosts_[0]; });
}

bool SilentBackend::overlaps() const {
  const std::set<int> hosts(hosts_.begin(), hosts_.end());
  return hosts.size() > 1 && hosts.size() == hosts_.size();
}

}  // namespace adjoin::lab
