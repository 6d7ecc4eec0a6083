#include "adjoin/lab/simulator.hpp"

#include <algorithm>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"

namespace adjoin::lab {

namespace {

using algorithm::Network;
using algorithm::Transfer;
using diagnosis::Worker;

/// The messages of one rank's program, packed so that thousands of ranks fit into memory: peers are stored relative to
/// the rank, so that ranks of a symmetric algorithm have equal messages, and equal consecutive steps are stored once.
class PackedProgram {
 public:
  struct Item {
    int32_t shift = 0;  // the peer is rank + shift, modulo the number of ranks
    int32_t place = 0;  // index among the step's transfers
    int64_t bytes = 0;
    bool is_send = false;
    bool operator==(const Item&) const = default;
  };

  /// Throws: InvalidArgument for a peer that is not one of the ranks.
  PackedProgram(const algorithm::Program& program, int rank, int ranks, int64_t bytes_per_element);

  /// A position in the program; the default is the first step.
  struct Cursor {
    size_t index = 0;
    int64_t repeat = 0, step = 0;
  };
  bool is_over(const Cursor& at) const { return at.index == repeated_.size(); }
  /// The items of a step, sorted by direction, peer and place; those of one peer are in the order of the program.
  std::span<const Item> items(const Cursor& at) const;
  void advance(Cursor& at) const;
  int64_t steps() const { return steps_; }

  bool operator==(const PackedProgram&) const = default;

 private:
  struct Repeated {  // a sequence of equal steps
    size_t first = 0, count = 0;
    int64_t repeats = 0;
    bool operator==(const Repeated&) const = default;
  };
  void add(std::span<const Item> step);

  std::vector<Item> items_;
  std::vector<Repeated> repeated_;
  int64_t steps_ = 0;
};

PackedProgram::PackedProgram(const algorithm::Program& program, int rank, int ranks, int64_t bytes_per_element) {
  std::vector<Item> step;
  for (const algorithm::Step& given : program.steps) {
    step.clear();
    for (const Transfer& transfer : given.transfers) {
      require(transfer.peer >= 0 && transfer.peer < ranks, [&] {
        return "the program of rank " + std::to_string(rank) + ": expected peers from 0 to " +
               std::to_string(ranks - 1) + ", got " + std::to_string(transfer.peer);
      });
      step.push_back({.shift = (transfer.peer - rank + ranks) % ranks,
                      .place = static_cast<int32_t>(step.size()),
                      .bytes = transfer.slice.count * bytes_per_element,
                      .is_send = transfer.kind == Transfer::Kind::send});
    }
    std::sort(step.begin(), step.end(), [](const Item& a, const Item& b) {
      return std::tie(a.is_send, a.shift, a.place) < std::tie(b.is_send, b.shift, b.place);
    });
    add(step);
  }
}

void PackedProgram::add(std::span<const Item> step) {
  ++steps_;
  if (!repeated_.empty()) {
    Repeated& last = repeated_.back();
    if (std::equal(step.begin(), step.end(), items_.begin() + static_cast<std::ptrdiff_t>(last.first), items_.end())) {
      ++last.repeats;
      return;
    }
  }
  repeated_.push_back({.first = items_.size(), .count = step.size(), .repeats = 1});
  items_.insert(items_.end(), step.begin(), step.end());
}

std::span<const PackedProgram::Item> PackedProgram::items(const Cursor& at) const {
  const Repeated& here = repeated_[at.index];
  return {items_.data() + here.first, here.count};
}

void PackedProgram::advance(Cursor& at) const {
  ++at.step;
  if (++at.repeat < repeated_[at.index].repeats) return;
  at.repeat = 0;
  ++at.index;
}

/// A moment and the time in seconds by which moments are compared.
struct Time {
  Moment moment;
  double seconds = 0;
};

struct Rank {
  std::shared_ptr<const PackedProgram> program;
  PackedProgram::Cursor at = {};
  std::vector<bool> met = {};  // for each item of the step, whether its other end is posted
  size_t pending = 0;          // number of items that are not complete
  bool sends = false, receives = false;
  std::vector<int> outgoing = {}, incoming = {};  // messages that wait for a port
  Moment end = {};
};

/// A message with both ends posted.
struct Flight {
  int from = 0, to = 0, place = 0;
  int64_t bytes = 0, step = 0;
  Time ready = {}, end = {};
};

class Simulator {
 public:
  Simulator(int ranks, const ProgramOf& program_of, int64_t bytes_per_element, const Network& network,
            const OnMessage& on_message)
      : network_(network), on_message_(on_message), ranks_(static_cast<size_t>(ranks)) {
    std::shared_ptr<const PackedProgram> last;
    for (int r = 0; r < ranks; ++r) {
      auto program = std::make_shared<const PackedProgram>(program_of(r), r, ranks, bytes_per_element);
      if (!last || *program != *last) last = std::move(program);
      rank(r).program = last;
    }
  }

  Simulation run() {
    for (int r = 0; r < size(); ++r) post(r);
    begin_what_can();
    while (!ends_.empty()) {
      now_ = flights_[static_cast<size_t>(ends_.top().flight)].end;
      while (!ends_.empty() && ends_.top().seconds == now_.seconds) {
        const int flight = ends_.top().flight;
        ends_.pop();
        land(flight);
      }
      begin_what_can();
    }
    return result();
  }

 private:
  struct Landing {
    double seconds;
    int flight;
    bool operator>(const Landing& other) const { return seconds > other.seconds; }
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  Flight& flight(int id) { return flights_[static_cast<size_t>(id)]; }
  int peer_of(int r, const PackedProgram::Item& item) const { return (r + item.shift) % size(); }

  /// Posts the next step that has transfers.
  void post(int r) {
    Rank& me = rank(r);
    while (!me.program->is_over(me.at) && me.program->items(me.at).empty()) me.program->advance(me.at);
    if (me.program->is_over(me.at)) {
      me.end = now_.moment;
      return;
    }
    const auto items = me.program->items(me.at);
    me.pending = items.size();
    me.met.assign(items.size(), false);
    for (size_t i = 0; i < items.size(); ++i)
      if (!me.met[i]) meet(r, i);
  }

  /// Looks for the other end of an item among the items that its peer has posted.
  void meet(int r, size_t mine) {
    const PackedProgram::Item& item = rank(r).program->items(rank(r).at)[mine];
    const int p = peer_of(r, item);
    Rank& peer = rank(p);
    if (peer.pending == 0) return;
    const auto items = peer.program->items(peer.at);
    const auto key = std::tuple(!item.is_send, (r - p + size()) % size());
    const auto of = [](const PackedProgram::Item& other) { return std::tuple(other.is_send, other.shift); };
    auto found =
        std::lower_bound(items.begin(), items.end(), key,
                         [&](const PackedProgram::Item& other, const auto& wanted) { return of(other) < wanted; });
    const auto index = [&] { return static_cast<size_t>(found - items.begin()); };
    while (found != items.end() && of(*found) == key && peer.met[index()]) ++found;
    if (found == items.end() || of(*found) != key) return;
    peer.met[index()] = true;
    rank(r).met[mine] = true;
    if (item.is_send)
      make_ready(r, item, p, *found);
    else
      make_ready(p, *found, r, item);
  }

  void make_ready(int from, const PackedProgram::Item& send, int to, const PackedProgram::Item& receive) {
    if (send.bytes != receive.bytes)
      throw CommunicationError("the message of rank " + std::to_string(from) + " in its " + step_of(from) +
                               " to rank " + std::to_string(to) + " in its " + step_of(to) + " is sent as " +
                               std::to_string(send.bytes) + " bytes, but received as " + std::to_string(receive.bytes));
    int id = static_cast<int>(flights_.size());
    if (free_.empty())
      flights_.emplace_back();
    else
      id = free_.back(), free_.pop_back();
    flight(id) = {from, to, send.place, send.bytes, rank(from).at.step + 1, now_, {}};
    candidates_.push_back(id);
  }

  /// Begins each candidate whose two ports are free; the others then wait at both.
  void begin_what_can() {
    const auto is_before = [&](int a, int b) {
      const Flight &x = flight(a), &y = flight(b);
      return std::tie(x.ready.seconds, x.place, x.from) < std::tie(y.ready.seconds, y.place, y.from);
    };
    if (!std::is_sorted(candidates_.begin(), candidates_.end(), is_before))
      std::sort(candidates_.begin(), candidates_.end(), is_before);
    for (const int id : candidates_) {
      Flight& f = flight(id);
      Rank &from = rank(f.from), &to = rank(f.to);
      if (!from.sends && !to.receives) {
        begin(id);
      } else {
        from.outgoing.push_back(id);
        to.incoming.push_back(id);
      }
    }
    candidates_.clear();
  }

  void begin(int id) {
    Flight& f = flight(id);
    rank(f.from).sends = rank(f.to).receives = true;
    f.end.moment = {now_.moment.messages + 1, now_.moment.bytes + f.bytes};
    f.end.seconds = f.end.moment.seconds(network_);
    ends_.push({f.end.seconds, id});
    ++messages_;
    if (on_message_) on_message_({f.from, f.to, f.bytes, f.step, now_.moment, f.end.moment});
  }

  void land(int id) {
    const Flight f = flight(id);
    free_.push_back(id);
    rank(f.from).sends = rank(f.to).receives = false;
    look_again(rank(f.from).outgoing);
    look_again(rank(f.to).incoming);
    for (const int r : {f.from, f.to})
      if (--rank(r).pending == 0) {
        rank(r).program->advance(rank(r).at);
        post(r);
      }
  }

  /// Makes candidates of the messages that wait at a port that is now free.
  void look_again(std::vector<int>& waiting) {
    const std::vector<int> ids = std::move(waiting);
    waiting.clear();
    for (const int id : ids) {
      Rank &from = rank(flight(id).from), &to = rank(flight(id).to);
      std::erase(&waiting == &from.outgoing ? to.incoming : from.outgoing, id);
      candidates_.push_back(id);
    }
  }

  std::string step_of(int r) {
    return "step " + std::to_string(rank(r).at.step + 1) + " of " + std::to_string(rank(r).program->steps());
  }

  Worker waiting(int r) {
    constexpr size_t kNamed = 4;
    const Rank& me = rank(r);
    Worker worker{.rank = r, .state = Worker::State::waits};
    const auto items = me.program->items(me.at);
    for (size_t i = 0; i < items.size(); ++i) {
      if (me.met[i]) continue;
      const int peer = peer_of(r, items[i]);
      worker.needs.push_back(peer);
      if (worker.needs.size() > kNamed) continue;
      worker.call += (worker.call.empty() ? "" : " and ") + std::string(items[i].is_send ? "send " : "receive ") +
                     std::to_string(items[i].bytes) + " bytes " + (items[i].is_send ? "to" : "from") + " rank " +
                     std::to_string(peer);
    }
    if (worker.needs.size() > kNamed) worker.call += " and " + std::to_string(worker.needs.size() - kNamed) + " more";
    worker.call = step_of(r) + ": " + worker.call;
    return worker;
  }

  Simulation result() {
    Simulation simulation{.ends = {}, .end = {}, .seconds = 0, .messages = messages_};
    std::vector<Worker> workers;
    for (int r = 0; r < size(); ++r) {
      if (!rank(r).program->is_over(rank(r).at)) workers.push_back(waiting(r));
      simulation.ends.push_back(rank(r).end);
      if (rank(r).end.seconds(network_) >= simulation.seconds)
        simulation.end = rank(r).end, simulation.seconds = rank(r).end.seconds(network_);
    }
    if (!workers.empty())
      throw CommunicationError(diagnosis::report("deadlock: these programs never end", workers, size()));
    return simulation;
  }

  const Network network_;
  const OnMessage& on_message_;
  std::vector<Rank> ranks_;
  std::vector<Flight> flights_;
  std::vector<int> free_;        // flights that have ended
  std::vector<int> candidates_;  // ready, and one of their ports became free recently
  std::priority_queue<Landing, std::vector<Landing>, std::greater<>> ends_;
  Time now_ = {};
  int64_t messages_ = 0;
};

}  // namespace

Simulation simulate(int ranks, const ProgramOf& program_of, int64_t bytes_per_element, const Network& network,
                    const OnMessage& on_message) {
  require(ranks >= 1, "simulate: expected at least 1 rank, got " + std::to_string(ranks));
  require(network.alpha >= 0 && network.beta >= 0, "simulate: expected alpha and beta that are not negative");
  return Simulator(ranks, program_of, bytes_per_element, network, on_message).run();
}

Simulation simulate(const algorithm::Request& request, std::string_view algorithm, int64_t bytes_per_element,
                    const Network& network, const OnMessage& on_message) {
  return simulate(
      request.size, [&](int rank) { return algorithm::program_of(request, algorithm, rank); }, bytes_per_element,
      network, on_message);
}

}  // namespace adjoin::lab
