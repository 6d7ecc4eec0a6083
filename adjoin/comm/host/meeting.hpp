#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin::host {

/// Processes of one host that tell each other what they need to share memory, by whatever means they have before they do.
class Meeting {
 public:
  virtual ~Meeting() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// What each rank gives, in the order of ranks. Called by all, equally often.
  /// Throws: CommunicationError where a rank does not come
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

/// The value of every rank, in the order of ranks. Called by all.
template <class T>
std::vector<T> gather_all(Meeting& meeting, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const std::string& bytes : meeting.exchange({reinterpret_cast<const char*>(&mine), sizeof(T)})) {
    if (bytes.size() != sizeof(T)) throw CommunicationError("a rank was built from another version of adjoin");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}

/// Carries out `step` on all ranks. Returns the error that it throws on the first rank on which it throws one, the same text on
/// all, or "".
inline std::string failure_of_all(Meeting& meeting, const std::function<void()>& step) {
  std::string text;
  try {
    step();
  } catch (const std::exception& e) {
    text = *e.what() ? e.what() : "unknown error";
  }
  for (const std::string& failure : meeting.exchange(text))
    if (!failure.empty()) return failure;
  return "";
}

}  // namespace adjoin::host
