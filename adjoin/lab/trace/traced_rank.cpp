#include "adjoin/lab/trace/traced_rank.hpp"

#include <cstring>
#include <map>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"

namespace adjoin::lab {
namespace {

/// Packs numbers, and texts; each different text is stored once, and numbers refer to it.
class Packer {
 public:
  void add(int64_t number) { numbers_.push_back(number); }
  void add(uint64_t number) { add(static_cast<int64_t>(number)); }
  void add_text(std::string_view text) {
    const auto [found, is_new] = places_.try_emplace(text, std::ssize(places_));
    add(found->second);
    if (!is_new) return;
    lengths_.push_back(std::ssize(text));
    texts_ += text;
  }
  std::string bytes() const {
    const int64_t counts[] = {std::ssize(lengths_), std::ssize(numbers_)};
    std::string bytes(reinterpret_cast<const char*>(counts), sizeof counts);
    for (const std::vector<int64_t>* part : {&lengths_, &numbers_})
      bytes.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(int64_t));
    return bytes + texts_;
  }

 private:
  std::map<std::string_view, int64_t> places_;
  std::vector<int64_t> lengths_, numbers_;
  std::string texts_;
};

class Unpacker {
 public:
  Unpacker(std::string_view bytes, std::vector<std::string>& texts) : bytes_(bytes), texts_(texts) {
    std::vector<int64_t> lengths(static_cast<size_t>(number()));
    numbers_left_ = number();
    for (int64_t& length : lengths) length = number();
    std::string_view rest = bytes_.substr(static_cast<size_t>(numbers_left_) * sizeof(int64_t));
    for (const int64_t length : lengths) {
      texts_.emplace_back(rest.substr(0, static_cast<size_t>(length)));
      rest.remove_prefix(static_cast<size_t>(length));
    }
  }
  int64_t number() {
    if (bytes_.size() < sizeof(int64_t)) throw InternalError("a rank's part of a trace ends early");
    int64_t value = 0;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  const std::string& text() { return texts_.at(static_cast<size_t>(number())); }

 private:
  std::string_view bytes_;
  std::vector<std::string>& texts_;
  int64_t numbers_left_ = 0;
};

void pack(Packer& to, const TimedCall& call) {
  to.add(static_cast<int64_t>(call.kind));
  to.add_text(call.name);
  to.add_text(call.algorithm);
  to.add(call.group);
  to.add(call.number);
  to.add(call.meeting);
  to.add(call.bytes);
  to.add_text(call.where.file_name());
  to.add(int64_t{call.where.line()});
  to.add(int64_t{call.is_beside});
  to.add(call.begin);
  to.add(call.end);
  to.add(std::ssize(call.messages));
  for (const TimedMessage& message : call.messages) {
    to.add(int64_t{message.peer});
    to.add(int64_t{message.tag});
    to.add(int64_t{message.is_send});
    to.add(message.bytes);
  }
}

TimedCall unpack_call(Unpacker& from) {
  TimedCall call;
  call.kind = static_cast<TimedCall::Kind>(from.number());
  call.name = from.text();
  call.algorithm = from.text();
  call.group = static_cast<uint64_t>(from.number());
  call.number = static_cast<uint64_t>(from.number());
  call.meeting = static_cast<uint64_t>(from.number());
  call.bytes = from.number();
  const char* const file = from.text().c_str();
  call.where = Where(file, static_cast<uint32_t>(from.number()));
  call.is_beside = from.number() != 0;
  call.begin = from.number();
  call.end = from.number();
  call.messages.resize(static_cast<size_t>(from.number()));
  for (TimedMessage& message : call.messages) {
    message.peer = static_cast<int>(from.number());
    message.tag = static_cast<int>(from.number());
    message.is_send = from.number() != 0;
    message.bytes = from.number();
  }
  return call;
}

}  // namespace

std::string packed(const TracedRank& record) {
  const Timeline::Taken& did = record.did;
  Packer to;
  to.add(int64_t{record.rank});
  to.add_text(record.name);
  to.add_text(record.host);
  to.add(std::ssize(record.clock));
  for (const ClockReading& reading : record.clock)
    for (const int64_t number : {reading.at, reading.offset, reading.error}) to.add(number);
  to.add(std::ssize(did.calls));
  for (const TimedCall& call : did.calls) pack(to, call);
  to.add(std::ssize(did.slices));
  for (const TimedSlice& slice : did.slices) {
    to.add_text(slice.name);
    for (const int64_t number : {slice.number, slice.stage, slice.begin, slice.end}) to.add(number);
  }
  to.add(std::ssize(did.groups));
  for (const auto& [id, ranks] : did.groups) {
    to.add(id);
    to.add(std::ssize(ranks));
    for (const int rank : ranks) to.add(int64_t{rank});
  }
  return to.bytes();
}

TracedRank unpacked(std::string_view bytes) {
  TracedRank record;
  Unpacker from(bytes, record.texts);
  record.rank = static_cast<int>(from.number());
  record.name = from.text();
  record.host = from.text();
  record.clock.resize(static_cast<size_t>(from.number()));
  for (ClockReading& reading : record.clock)
    for (int64_t* const number : {&reading.at, &reading.offset, &reading.error}) *number = from.number();
  for (int64_t left = from.number(); left > 0; --left) record.did.calls.push_back(unpack_call(from));
  for (int64_t left = from.number(); left > 0; --left) {
    TimedSlice slice;
    slice.name = from.text();
    for (int64_t* const number : {&slice.number, &slice.stage, &slice.begin, &slice.end}) *number = from.number();
    record.did.slices.push_back(slice);
  }
  for (int64_t left = from.number(); left > 0; --left) {
    std::vector<int>& ranks = record.did.groups[static_cast<uint64_t>(from.number())];
    ranks.resize(static_cast<size_t>(from.number()));
    for (int& rank : ranks) rank = static_cast<int>(from.number());
  }
  return record;
}

std::vector<TracedRank> gathered_records(const TracedRank& mine, const Communicator& world) {
  const std::string bytes = packed(mine);
  const std::vector<int64_t> lengths = numbers_of_all(std::ssize(bytes), world);
  const bool is_root = world.rank() == 0;
  std::string all(is_root ? static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) : 0, '\0');
  world.gather({bytes.data(), std::ssize(bytes), ElementType::uint8}, {all.data(), std::ssize(all), ElementType::uint8},
               lengths, 0);
  std::vector<TracedRank> records;
  std::string_view rest = all;
  for (size_t rank = 0; is_root && rank < lengths.size(); ++rank) {
    records.push_back(unpacked(rest.substr(0, static_cast<size_t>(lengths[rank]))));
    rest.remove_prefix(static_cast<size_t>(lengths[rank]));
  }
  return records;
}

}  // namespace adjoin::lab
