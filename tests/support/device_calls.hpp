#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/with_type.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/communicator.hpp"
#include "tests/support/elements.hpp"

namespace adjoin::testing {

/// One rank's part of a random sequence of calls on a device, blocking, begun and asynchronous, whose results are those of the same
/// calls on the host, to the bit. The rank never waits for its device before the end: its stream writes what it gives before a call
/// and overwrites it after, and its memory is then used again. All ranks draw the same sequence.
class DeviceCalls {
 public:
  using Counts = std::vector<int64_t>;
  /// Memory of a device that is used again, when it is freed, in the order of this thread's current stream.
  using Allocate = std::function<std::shared_ptr<void>(int64_t bytes, Device device)>;

  DeviceCalls(const Communicator& world, uint32_t seed, Device device, Allocate allocate)
      : world_(world),
        host_(world.subset(all_ranks(world.size()))),
        begun_(world.subset(all_ranks(world.size()))),
        stream_(world.stream()),
        device_(device),
        allocate_(std::move(allocate)),
        common_(seed),
        own_(seed * 100 + static_cast<uint32_t>(world.rank())),
        ones_(memory(kMostBytes, ElementType::uint8)) {
    device_runtime()->to_device(ones_.buffer, {}, {}, std::vector<char>(kMostBytes, 1).data());
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) draw(4) == 0 && world_.size() > 1 ? exchange() : collective();
    while (!under_way_.empty()) wait();
    for (const Item& item : ended_) check(item);
    world_.barrier();  // peers may still read this rank's memory
  }

 private:
  static constexpr int64_t kMostBytes = 8 * 12000;  // of a buffer
  struct Memory {
    std::shared_ptr<void> owner;
    Buffer buffer;
  };
  struct Item {
    std::string name;
    ElementType type{};
    Counts counts, receive_counts;
    Memory in, out, kept;
    std::vector<char> expected;  // of `out`
    std::vector<int64_t> sent_sizes, sent_strides, sizes, strides;
    std::vector<Message> messages;
    std::unique_ptr<Pending> begun;
    std::optional<Handle> handle;
  };

  int64_t draw(int64_t below) { return static_cast<int64_t>(common_() % static_cast<uint32_t>(below)); }

  Memory memory(int64_t count, ElementType type) {
    const auto owner = count > 0 ? allocate_(count * size_of(type), device_) : nullptr;
    return {owner, {owner.get(), count, type, device_}};
  }
  std::vector<char> random_bytes(int64_t count, ElementType type) {
    return with_type(type, [&](auto zero) { return elements_of<decltype(zero)>(count, own_); });
  }
  /// Writes it on this rank's stream, from elsewhere on the device.
  void write(const Buffer& to, const std::vector<char>& bytes) {
    if (to.count == 0) return;
    const Memory there = memory(to.count, to.type);
    device_runtime()->to_device(there.buffer, {}, {}, bytes.data());
    device_runtime()->copy_box(to, {}, {}, there.buffer, {}, {});
  }

  void overwrite(const Buffer& x) {
    const ConstBuffer ones(ones_.buffer.data, x.count, x.type, device_);
    if (x.count > 0) device_runtime()->copy_box(x, {}, {}, ones, {}, {});
  }

  void collective() {
    Item& item = ended_.emplace_back();
    item.type = static_cast<ElementType>(draw(kElementTypes));
    Call call{.collective = static_cast<Collective>(draw(kCollectives))};
    do call.reduction = static_cast<Reduction>(draw(kReductions));
    while (!is_defined(call.reduction, item.type));
    const CollectiveKind& kind = kind_of(*call.collective);
    item.name = std::string(kind.name) + " " + std::string(name(item.type)) + " " + std::string(name(call.reduction));
    const int size = world_.size(), me = world_.rank();
    if (has_root(*call.collective)) call.root = static_cast<int>(draw(size));
    const bool is_root = call.root < 0 || call.root == me;
    const int64_t most = draw(4) == 0 ? 3000 : 20, whole = draw(most);
    std::vector<int64_t> table;  // of what each gives to each
    for (int i = 0; i < size * size; ++i) table.push_back(draw(3) == 0 ? 0 : draw(most));
    for (int peer = 0; peer < size; ++peer) {
      const bool each = call.collective == Collective::all_to_all;
      item.counts.push_back(table[static_cast<size_t>(each ? me * size + peer : peer)]);
      item.receive_counts.push_back(table[static_cast<size_t>(peer * size + me)]);
    }
    const auto sum = [](const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); };
    const auto extent = [&](Extent of, const Counts& all) {
      return of == Extent::none        ? 0
             : of == Extent::whole     ? whole
             : of == Extent::own_block ? all[static_cast<size_t>(me)]
                                       : sum(all);
    };
    const bool gives = is_root || kind.root != CollectiveKind::Root::gives,
               gets = is_root || kind.root != CollectiveKind::Root::gets;
    const bool is_all_to_all = call.collective == Collective::all_to_all;
    const int64_t given = gives || kind.is_in_place ? extent(kind.gives, item.counts) : 0;
    const int64_t got =
        gets || kind.is_in_place ? extent(kind.gets, is_all_to_all ? item.receive_counts : item.counts) : 0;
    const bool in_place =
        kind.is_in_place || (draw(2) == 0 && gives && gets && !is_all_to_all && kind.gives != Extent::none);
    const int64_t start = std::accumulate(item.counts.begin(), item.counts.begin() + me, int64_t{0});
    const std::vector<char> input = random_bytes(given, item.type), garbage = random_bytes(got, item.type);

    std::vector<char> host_in = input, host_out = garbage;
    item.in = memory(given, item.type), item.out = in_place && given >= got ? item.in : memory(got, item.type);
    Buffer in{host_in.data(), given, item.type}, out{host_out.data(), got, item.type};
    Buffer device_in = item.in.buffer, device_out = item.out.buffer;
    if (item.out.owner != item.in.owner) write(device_out, garbage);
    write(device_in, input);
    if (in_place && given >= got) {  // the output is the input, or this rank's block of it
      const int64_t begin = kind.gives == kind.gets ? 0 : start;
      out = in.slice(begin, got), device_out = device_in.slice(begin, got);
    } else if (in_place) {
      write(device_out.slice(start, given), input);
      in = out.slice(start, given), device_in = device_out.slice(start, given);
      std::ranges::copy(input, static_cast<char*>(in.data));
    }
    if (has_blocks(*call.collective)) call.counts = item.counts;
    if (is_all_to_all) call.receive_counts = item.receive_counts;
    const auto with = [&](const Buffer& from, const Buffer& to) {
      Call made = call;
      made.in = from, made.out = to;
      return made;
    };
    if (call.collective == Collective::barrier) in = out = device_in = device_out = {};
    host_.carry_out(with(in, out));
    item.expected.assign(static_cast<const char*>(out.data), static_cast<const char*>(out.data) + out.bytes());
    item.out.buffer = device_out;
    start_call(item, with(device_in, device_out));
  }

  /// To the next rank, of a box; into another box of as many elements.
  void exchange() {
    Item& item = ended_.emplace_back();
    item.type = static_cast<ElementType>(draw(kElementTypes));
    item.name = "message " + std::string(name(item.type));
    const int size = world_.size(), next = (world_.rank() + 1) % size, previous = (world_.rank() + size - 1) % size;
    const int64_t rows = draw(30), columns = draw(draw(4) == 0 ? 300 : 10);
    const bool is_turned = draw(2) == 0;
    item.sent_sizes = {rows, columns}, item.sent_strides = {columns + 1, 1};
    item.sizes = is_turned ? Counts{columns, rows} : Counts{rows, columns};
    item.strides = is_turned ? Counts{1, columns + 2} : Counts{1, rows + 2};
    const int64_t given = rows * (columns + 1), got = (rows + 2) * (columns + 2), count = rows * columns;
    const std::vector<char> input = random_bytes(given, item.type), garbage = random_bytes(got, item.type);
    std::vector<char> host_in = input;
    item.expected = garbage;
    item.in = memory(given, item.type), item.out = memory(got, item.type);
    write(item.out.buffer, garbage);
    write(item.in.buffer, input);
    const bool is_box = draw(4) > 0;
    const auto messages = [&](void* in, void* out, Device device) {
      Message send{Message::Kind::send, next, {in, count, item.type, device}, 3};
      Message receive{Message::Kind::receive, previous, {out, count, item.type, device}, 3};
      if (is_box) send.sizes = item.sent_sizes, send.strides = item.sent_strides;
      if (is_box) receive.sizes = item.sizes, receive.strides = item.strides;
      return std::vector{send, receive};
    };
    host_.exchange(messages(host_in.data(), item.expected.data(), {}));
    item.messages = messages(item.in.buffer.data, item.out.buffer.data, device_);
    if (draw(2) == 0) return start_call(item, {.name = "exchange", .messages = item.messages});
    const std::span<const Message> both = item.messages;
    item.begun = world_.begin().carry_out({.name = "isend", .messages = both.first(1)});
    world_.carry_out({.name = "recv", .messages = both.last(1)});
    under_way_.push_back(&item);
  }

  void start_call(Item& item, Call&& call) {
    switch (draw(4)) {
      case 0:
        item.begun = begun_.begin().carry_out(std::move(call));
        break;
      case 1:
        item.handle = stream_.carry_out(std::move(call));
        break;
      default:
        world_.carry_out(std::move(call));
    }
    under_way_.push_back(&item);
    while (std::ssize(under_way_) > draw(4)) wait();
  }

  /// Ends the oldest call, and overwrites and frees its memory. An operation has also ended when its handle has died.
  void wait() {
    Item& item = *under_way_.front();
    under_way_.pop_front();
    if (item.begun) item.begun->wait();
    if (item.handle && draw(2) == 0) {
      item.handle->wait();
    } else if (item.handle) {
      for (const bool is_done_before = draw(2) == 0; is_done_before && !item.handle->done();) std::this_thread::yield();
      item.handle.reset();
    }
    item.kept = memory(item.out.buffer.count, item.type);
    if (item.out.buffer.count > 0) device_runtime()->copy_box(item.kept.buffer, {}, {}, item.out.buffer, {}, {});
    overwrite(item.out.buffer);
    overwrite(item.in.buffer);
    item.in = item.out = {};
    item.begun.reset(), item.handle.reset();
  }

  void check(const Item& item) const {
    std::vector<char> came(item.expected.size());
    if (came.empty()) return;
    device_runtime()->to_host(came.data(), item.kept.buffer, {}, {});
    EXPECT_TRUE(with_type(item.type,
                          [&](auto zero) {
                            return same_bits<decltype(zero)>(came.data(), item.expected.data(), item.kept.buffer.count);
                          }))
        << item.name << " on " << text(device_);
  }

  const Communicator world_, host_, begun_;
  const AsyncCommunicator stream_;
  const Device device_;
  const Allocate allocate_;
  std::minstd_rand common_;
  std::mt19937 own_;
  const Memory ones_;
  std::deque<Item> ended_;
  std::deque<Item*> under_way_;
};

}  // namespace adjoin::testing
