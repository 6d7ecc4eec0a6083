#pragma once

#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/observer.hpp"
#include "adjoin/comm/backend.hpp"

namespace adjoin {

/// One call of one operation, from its arguments' check to its end: tells the backend and the observer of it.
class CheckedCall {
 public:
  CheckedCall(std::string_view name, Backend& backend, Observer* observer, std::source_location where)
      : backend_(backend),
        observer_(observer),
        operation_{.name = name, .rank = backend.rank(), .size = backend.size(), .where = where} {}
  ~CheckedCall();
  CheckedCall(const CheckedCall&) = delete;
  CheckedCall& operator=(const CheckedCall&) = delete;

  int rank() const { return operation_.rank; }

  /// Throws InvalidArgument that says where, what was expected and what came.
  [[noreturn]] void fail(const std::string& expected, const std::string& came) const;

  void check_rank(const char* role, int rank) const;
  void check_tag(int tag) const;
  void check_buffer(const char* role, ConstBuffer buffer) const;
  void check_box(const Message& message) const;
  void check_elements(const char* role, ConstBuffer buffer, int64_t count) const;
  /// That no byte is of both.
  void check_apart(ConstBuffer in, ConstBuffer out) const;
  /// That `block` is this rank's own place in `all`, or apart from it.
  void check_own_or_apart(ConstBuffer block, ConstBuffer all, std::span<const int64_t> counts) const;
  void check_same_type(ConstBuffer in, ConstBuffer out) const;
  void check_reduction(Reduction reduction, ElementType type) const;
  void check_counts(const char* role, std::span<const int64_t> counts) const;

  /// What others are told of the call.
  struct About {
    ConstBuffer elements = {};
    int root = -1, peer = -1, tag = -1;
    std::string_view reduction = {};
    std::span<const int64_t> counts = {}, receive_counts = {};
  };
  /// The arguments are right: the operation follows, until this goes out of scope.
  void begin(const About& about);

 private:
  Backend& backend_;
  Observer* observer_;
  Operation operation_;
  bool begun_ = false;
};

}  // namespace adjoin
