#include "adjoin/comm/contract/call_text.hpp"

#include <algorithm>
#include <string_view>

namespace adjoin {

namespace {

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t n = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), n, to);
  to[n] = 0;
}

}  // namespace

CallText& CallText::operator=(const Call& of) {
  const ConstBuffer elements = of.elements();
  call.collective = of.collective;
  call.in.count = elements.count;
  call.in.type = elements.type;
  call.reduction = of.reduction;
  call.root = of.root;
  call.sequence = of.sequence;
  has_messages = !of.messages.empty();
  put(name, of.name);
  put(algorithm, of.algorithm);
  if (path != of.where.file_name()) {
    const std::string_view all = path = of.where.file_name();
    put(file, all.substr(all.size() - std::min(all.size(), sizeof(file) - 1)));
  }
  line = of.where.line();
  if (!has_messages) return *this;
  const Message* named = of.message();
  message = named ? *named : send_of(elements, 0, 0);
  return *this;
}

std::string describe(const CallText& text, std::span<const int64_t> counts, std::span<const int64_t> receive_counts) {
  Call call = text.call;
  call.counts = counts;
  call.receive_counts = receive_counts;
  const Message message = text.message;
  call.name = text.name;
  call.algorithm = text.algorithm;
  call.out = {nullptr, call.in.count, call.in.type};
  if (text.has_messages) call.messages = {&message, 1};
  const std::string_view path = text.file;
  return describe(call, std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(text.line));
}

}  // namespace adjoin
