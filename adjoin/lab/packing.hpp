#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "adjoin/base/error.hpp"

namespace adjoin::lab {

/// Values as bytes, for another rank of the same program. The same calls pack and unpack; `parts_of(packing, value)`, found by the
/// value's type, names the parts of a value that is not plain data.
class Packing {
 public:
  Packing() = default;
  /// Unpacks; texts are stored in `texts`. Throws: InternalError where the bytes end too early
  Packing(std::string_view bytes, std::set<std::string>& texts) : left_(bytes), texts_(&texts) {}

  template <class... Values>
  void operator()(Values&... values) {
    (add(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  bool packs() const { return texts_ == nullptr; }
  void add_bytes(void* bytes, size_t size) {
    if (packs()) {
      bytes_.append(static_cast<const char*>(bytes), size);
      return;
    }
    if (left_.size() < size) throw InternalError("what a rank has sent to the lab ends early");
    std::memcpy(bytes, left_.data(), size);
    left_.remove_prefix(size);
  }
  template <class Value>
  void add(Value& value) {
    if constexpr (requires { parts_of(*this, value); })
      parts_of(*this, value);
    else if constexpr (std::is_same_v<Value, std::string_view>)
      add_text(value);
    else if constexpr (std::is_trivially_copyable_v<Value>)
      add_bytes(&value, sizeof value);
    else
      add_list(value);
  }
  void add_text(std::string_view& text) {
    std::string copy(text);
    add_list(copy);
    if (!packs()) text = *texts_->insert(std::move(copy)).first;
  }
  template <class Key, class Value>
  void add_list(std::map<Key, Value>& map) {
    size_t size = map.size();
    add(size);
    auto next = map.begin();
    for (Key key{}; size > 0; --size) {
      if (packs()) key = next++->first;
      add(key);
      add(map[key]);
    }
  }
  template <class List>
  void add_list(List& list) {
    size_t size = list.size();
    add(size);
    if (!packs()) list.resize(size);
    for (auto& item : list) add(item);
  }

  std::string bytes_;
  std::string_view left_;
  std::set<std::string>* texts_ = nullptr;
};

}  // namespace adjoin::lab
