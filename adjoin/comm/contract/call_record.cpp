#include "adjoin/comm/contract/call_record.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

namespace {

std::string elements_text(const CallRecord& call, std::span<const int64_t> counts, std::span<const int64_t> received) {
  const std::string type(name(call.type));
  const std::string place = call.device == Device() ? "" : " on " + text(call.device);
  if (!received.empty()) return type + ", sends {" + joined(counts) + "}, receives {" + joined(received) + "}" + place;
  return type + " x " + (counts.empty() ? std::to_string(call.count) : "{" + joined(counts) + "}") + place;
}

/// The file's name without its folders. The last one is kept, as calls in a row often come from one file.
const FixedText<53>& file_of(const Where& where) {
  thread_local const char* path = nullptr;
  thread_local FixedText<53> file;
  if (path != where.file_name()) {
    const std::string_view all = path = where.file_name();
    file = all.substr(all.rfind('/') + 1);
  }
  return file;
}

}  // namespace

void CallRecord::note(const Call& call) {
  // Other threads of the rank look for calls by these two while they are written.
  std::atomic_ref(group).store(call.group ? call.group->id : 0, std::memory_order_relaxed);
  std::atomic_ref(number).store(call.sequence, std::memory_order_relaxed);
  const ConstBuffer given = call.elements();
  kind = call.collective ? Kind::collective : call.messages.empty() ? Kind::other : Kind::messages;
  name = call.name;
  algorithm = call.algorithm.empty() ? call.moved_type : call.algorithm;
  type = given.type;
  device = given.device;
  meeting = call.meeting;
  count = given.count;
  elements = call.collective ? signature_of(call).elements : 0;
  root = call.root;
  to = from = tag = -1;
  if (const Message* message = call.message()) {
    (message->is_send() ? to : from) = message->peer;
    tag = message->tag;
  }
  exchanged = 0;
  reduction = call.reduction;
  note(call.where);
}

void CallRecord::note(const Where& where) {
  line = where.line();
  file = file_of(where);
}

void CallRecord::note_in_world(const Call& call) {
  note(call);
  const auto of_world = [&](int rank) { return call.group->world_ranks[static_cast<size_t>(rank)]; };
  if (root >= 0) root = of_world(root);
  if (!call.message()) exchanged = static_cast<uint16_t>(std::min<size_t>(call.messages.size(), UINT16_MAX));
  if (call.message())
    for (const Message& message : call.messages) (message.is_send() ? to : from) = of_world(message.peer);
}

std::string_view CallRecord::reduction_name() const {
  const auto collective = collective_named(name);
  return collective && has_reduction(*collective) ? adjoin::name(reduction) : "";
}

std::string CallRecord::where() const {
  return std::string(file) + ":" + std::to_string(line);
}

std::string describe(const CallRecord& call, const std::string& group, std::span<const int64_t> counts,
                     std::span<const int64_t> receive_counts) {
  std::vector<std::string> parts;
  if (!call.algorithm.empty()) parts.emplace_back(call.algorithm);
  if (call.root >= 0) parts.push_back("root " + std::to_string(call.root));
  if (call.to >= 0) parts.push_back("to rank " + std::to_string(call.to));
  if (call.from >= 0) parts.push_back("from rank " + std::to_string(call.from));
  if (call.tag >= 0) parts.push_back("tag " + std::to_string(call.tag));
  if (call.exchanged > 0) parts.push_back(counted(call.exchanged, "message"));
  if (const auto reduction = call.reduction_name(); !reduction.empty()) parts.emplace_back(reduction);
  if (call.name != "barrier" && call.name != "subset") parts.push_back(elements_text(call, counts, receive_counts));
  return std::string(call.name) + " #" + std::to_string(call.number) + group +
         (parts.empty() ? "" : " (" + joined(parts) + ")") + (call.file.empty() ? "" : " at " + call.where());
}

std::string describe(const Call& call) {
  CallRecord record;
  record.note(call);
  return describe(record, "", call.counts, call.receive_counts);
}

}  // namespace adjoin
