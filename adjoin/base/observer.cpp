#include "adjoin/base/observer.hpp"

#include <vector>

namespace adjoin {

namespace {

std::string list_of_counts(std::span<const int64_t> counts) {
  std::string text;
  for (const int64_t count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return "{" + text + "}";
}

std::string describe_elements(const Operation& operation) {
  const std::string type(name(operation.type));
  if (!operation.receive_counts.empty())
    return type + ", sends " + list_of_counts(operation.counts) + ", receives " +
           list_of_counts(operation.receive_counts);
  return type + " x " + (operation.counts.empty() ? std::to_string(operation.count) : list_of_counts(operation.counts));
}

}  // namespace

std::string describe(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

std::string describe(const Operation& operation) {
  return describe(operation, describe(operation.where));
}

std::string describe(const Operation& operation, const std::string& where) {
  std::vector<std::string> parts;
  if (!operation.algorithm.empty()) parts.emplace_back(operation.algorithm);
  if (operation.root >= 0) parts.push_back("root " + std::to_string(operation.root));
  if (operation.peer >= 0)
    parts.push_back((operation.name == "recv" ? "from rank " : "to rank ") + std::to_string(operation.peer));
  if (operation.tag >= 0) parts.push_back("tag " + std::to_string(operation.tag));
  if (!operation.reduction.empty()) parts.emplace_back(operation.reduction);
  if (operation.name != "barrier" && operation.name != "subset") parts.push_back(describe_elements(operation));
  std::string list;
  for (const std::string& part : parts) list += (list.empty() ? "" : ", ") + part;
  return std::string(operation.name) + " #" + std::to_string(operation.sequence) +
         (list.empty() ? "" : " (" + list + ")") + " at " + where;
}

}  // namespace adjoin
