#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>

namespace adjoin {

/// Values that are made when they are first requested, and kept. Any thread may request them.
class Memo {
 public:
  /// The value of `make()`, which is called only where the key has none yet; of two threads that call it at once, the first
  /// one's value is kept. The reference is valid as long as the memo lives.
  template <class Make>
  const std::invoke_result_t<Make>& once(const std::string& key, const Make& make) {
    using Value = std::invoke_result_t<Make>;
    const std::pair place(std::type_index(typeid(Value)), key);
    {
      const std::lock_guard lock(mutex_);
      const auto found = values_.find(place);
      if (found != values_.end()) return *static_cast<const Value*>(found->second.get());
    }
    const auto made = std::make_shared<const Value>(make());  // without the lock, since it may request other values
    const std::lock_guard lock(mutex_);
    return *static_cast<const Value*>(values_.emplace(place, made).first->second.get());
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::type_index, std::string>, std::shared_ptr<const void>> values_;
};

}  // namespace adjoin
