#include "adjoin/train/failures.hpp"

#include <c10/util/Exception.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/machine.hpp"

namespace adjoin::train {
namespace {

std::string shown_bytes(double bytes) {
  char text[64];
  const bool is_large = bytes >= 1 << 30;
  std::snprintf(text, sizeof text, "%.1f %s", bytes / (is_large ? 1 << 30 : 1 << 20), is_large ? "GiB" : "MiB");
  return text;
}

/// What this process may use and uses, in bytes: memory, or addresses if their limit is tighter.
struct Allowance {
  double limit = 0, used = 0;
};

Allowance allowance() {
  const Machine machine = this_machine();
  double addresses = 0, resident = 0;  // in pages
  std::ifstream("/proc/self/statm") >> addresses >> resident;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto memory = static_cast<double>(machine.memory_limit > 0 ? machine.memory_limit : machine.memory);
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur != RLIM_INFINITY && static_cast<double>(limit.rlim_cur) < memory)
    return {static_cast<double>(limit.rlim_cur), addresses * page};
  return {memory, resident * page};
}

std::string out_of_memory(const std::string& asked) {
  const auto [limit, used] = allowance();
  return "there is not enough memory" + asked + ": this process may use " + shown_bytes(limit) + " and uses " +
         shown_bytes(used);
}

/// The bytes of the tensor for which LibTorch's allocator found no memory; none if the message does not say that.
std::optional<double> bytes_refused(std::string_view message) {
  constexpr std::string_view kBefore = "you tried to allocate ";
  const size_t at = message.find(kBefore);
  if (at == message.npos) return std::nullopt;
  message.remove_prefix(at + kBefore.size());
  double bytes = 0;
  const auto [end, error] = std::from_chars(message.data(), message.data() + message.size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

std::string in_one_line(const c10::Error& error) {
  std::string line = error.what_without_backtrace();
  if (const auto bytes = bytes_refused(line)) return out_of_memory(" for a tensor of " + shown_bytes(*bytes));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return "LibTorch: " + line;
}

template <class Kind>
class AdvisedError final : public Kind, public Advised {
 public:
  AdvisedError(const Kind& error, const std::string& line)
      : Kind(error.what() + ("\n" + line)), Advised{.failure = error.what(), .advice = line} {}
};

std::string in_one_line(const std::filesystem::filesystem_error& error) {
  const std::string& where = (error.path2().empty() ? error.path1() : error.path2()).string();
  return (where.empty() ? "" : where + ": ") + error.code().message();
}

}  // namespace

void with_adjoin_errors(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    throw Error(in_one_line(error));
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError(in_one_line(error));
  } catch (const std::bad_alloc&) {
    throw Error(out_of_memory(""));
  }
}

void throw_advised(const std::exception_ptr& error, const std::string& advice) {
  if (advice.empty()) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    throw AdvisedError(e, advice);
  } catch (const CommunicationError& e) {
    throw AdvisedError(e, advice);
  } catch (const IoError& e) {
    throw AdvisedError(e, advice);
  } catch (const InternalError& e) {
    throw AdvisedError(e, advice);
  } catch (...) {
    throw AdvisedError(Error(message_of(error)), advice);
  }
}

}  // namespace adjoin::train
