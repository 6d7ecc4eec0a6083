#include "adjoin/comm/contract/call.hpp"

#include <vector>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

namespace {

std::string describe_elements(const Call& call) {
  const ConstBuffer elements = call.elements();
  const std::string type(name(elements.type));
  if (!call.receive_counts.empty())
    return type + ", sends {" + joined(call.counts) + "}, receives {" + joined(call.receive_counts) + "}";
  return call.counts.empty() ? describe(elements) : type + " x {" + joined(call.counts) + "}";
}

}  // namespace

ConstBuffer Call::elements() const {
  if (collective) return collective == Collective::scatter ? ConstBuffer(out) : in;
  if (messages.size() == 1 && message()) return messages[0].buffer;
  ConstBuffer sent{nullptr, 0, messages.empty() ? ElementType::float32 : messages[0].buffer.type};
  for (const Message& m : messages)
    if (m.is_send()) sent.count += m.buffer.count;
  return sent;
}

Signature signature_of(const Call& call) {
  const ConstBuffer elements = call.elements();
  const bool has_counts = !call.counts.empty();
  return {.collective = *call.collective,
          .type = elements.type,
          .reduction = call.reduction,
          .root = call.root,
          .elements = call.collective == Collective::all_to_all ? 0
                      : has_counts                              ? hash_of(call.counts)
                                                                : static_cast<uint64_t>(elements.count),
          .algorithm = call.algorithm.empty() ? 0 : hash_of(call.algorithm)};
}

std::string describe(const Where& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

std::string describe(ConstBuffer buffer) {
  return std::string(name(buffer.type)) + " x " + std::to_string(buffer.count);
}

std::string describe(const Call& call, const std::string& where) {
  std::vector<std::string> parts;
  if (!call.algorithm.empty()) parts.emplace_back(call.algorithm);
  if (call.root >= 0) parts.push_back("root " + std::to_string(call.root));
  if (const Message* message = call.message()) {
    parts.push_back((message->is_send() ? "to rank " : "from rank ") + std::to_string(message->peer));
    parts.push_back("tag " + std::to_string(message->tag));
  }
  if (call.collective && has_reduction(*call.collective)) parts.emplace_back(name(call.reduction));
  if (call.collective != Collective::barrier && (call.collective || call.name != "subset"))
    parts.push_back(describe_elements(call));
  return std::string(call.name) + " #" + std::to_string(call.sequence) +
         (parts.empty() ? "" : " (" + joined(parts) + ")") + " at " + (where.empty() ? describe(call.where) : where);
}

}  // namespace adjoin
