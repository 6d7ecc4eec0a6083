#include "adjoin/c/call.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fenv.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/values.hpp"

namespace adjoin::c {
namespace {

thread_local std::string last_text;
thread_local int last_rank = -1;
thread_local std::weak_ptr<World> whole, used;

struct Listener {
  std::mutex mutex;
  void (*tell)(const char*, void*) = nullptr;
  void* user = nullptr;
};
Listener& listener = *new Listener;  // outlives the program's static objects

class Warnings final : public c10::WarningHandler {
  void process(const c10::Warning& warning) override { tell(warning.msg()); }
};

/// What is the program's on this thread, kept while adjoin works on it.
class Guest : NotCopied {
 public:
  explicit Guest(int threads) : threads_before_(at::get_num_threads()) {
    ::feholdexcept(&environment_);
    ::fesetround(FE_TONEAREST);
    if (threads > 0 && threads != threads_before_) at::set_num_threads(threads);
  }
  ~Guest() {
    if (at::get_num_threads() != threads_before_) at::set_num_threads(threads_before_);
    ::fesetenv(&environment_);
  }

 private:
  fenv_t environment_ = {};
  const int threads_before_;
  const at::AutoGradMode records_{true};
  Warnings warnings_;
  const c10::WarningUtils::WarningHandlerGuard gives_warnings_{&warnings_};
};

[[noreturn]] void tell_difference(World& world, const std::string& function, int64_t number) {
  const std::vector<int64_t> all = numbers_of_all(number, world.group);
  const auto rank = static_cast<int>(std::ranges::find_if(all, [&](int64_t n) { return n != all[0]; }) - all.begin());
  const std::string first = text_from_rank(0, function, world.group), ranks = "ranks 0 and " + std::to_string(rank),
                    second = text_from_rank(rank, function, world.group);
  if (first != second)
    throw Failure{ADJOIN_INVALID, ranks + " call different functions: " + first + " and " + second, rank};
  throw Failure{ADJOIN_INVALID, ranks + " give " + first + " different arguments that must be equal", rank};
}

}  // namespace

std::optional<Failure> failure_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Failure& failure) {
    return failure;
  } catch (const InvalidArgument& e) {
    return Failure{ADJOIN_INVALID, e.what()};
  } catch (const CommunicationError& e) {
    return Failure{ADJOIN_COMMUNICATION, e.what()};
  } catch (const IoError& e) {
    return Failure{ADJOIN_IO, e.what()};
  } catch (const std::bad_alloc&) {
    return Failure{ADJOIN_NO_MEMORY, message_of(std::current_exception())};
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    return Failure{text.find("allocate memory") == text.npos ? ADJOIN_INTERNAL : ADJOIN_NO_MEMORY, text};
  } catch (...) {
    return Failure{ADJOIN_INTERNAL, message_of(std::current_exception())};
  }
}

int guarded(const std::function<void()>& work) noexcept {
  int code = ADJOIN_NO_MEMORY;
  try {
    std::optional<Failure> failure = failure_of([&] {
      const Guest guest(latest_world() ? latest_world()->threads : 0);
      work();
    });
    if (!failure) return ADJOIN_OK;
    code = failure->code;
    last_rank = failure->rank;
    if (last_rank < 0) std::sscanf(failure->text.c_str(), "rank %d:", &last_rank);
    std::ranges::replace(failure->text, '\n', ';');
    last_text = printable(failure->text);
  } catch (...) {  // no memory for the text
    last_text.clear();
  }
  return code;
}

void tell(const std::string& message) {
  const std::lock_guard lock(listener.mutex);
  if (listener.tell) listener.tell(message.c_str(), listener.user);
}

std::shared_ptr<World> latest_world() {
  const std::shared_ptr<World> world = used.lock();
  return world ? world : whole.lock();
}

void check_has_no_world() {
  require(whole.expired(), "this thread has a world already: end it first, as a thread has one at a time");
}

void set_latest_world(const std::shared_ptr<World>& world) {
  used = world;
  if (!world->whole) whole = world;
}

void settle(World& world, const std::string& function, const std::string& same, const std::optional<Failure>& mine,
            std::span<double> sums) {
  const Communicator& group = world.group;
  if (group.size() == 1) {
    if (mine) throw Failure{mine->code, mine->text, 0};
    return;
  }
  // Squares of the numbers that ranks add are whole numbers below 2^53.
  const int64_t most = std::max<int64_t>(3, std::min<int64_t>(65'521, (int64_t{1} << 26) / group.size()));
  const auto number = static_cast<int64_t>(hash_of(function + "\n" + (mine ? "" : same)) % static_cast<uint64_t>(most));
  const auto n = static_cast<double>(number);
  std::array<double, 5> words{mine ? 1.0 : 0.0, n, n * n};  // as many of all functions, which may differ
  std::ranges::copy(sums.first(std::min<size_t>(sums.size(), 2)), words.begin() + 3);
  group.all_reduce(buffer(words));
  if (words[0] > 0) {
    const std::vector<int64_t> codes = numbers_of_all(mine ? mine->code : 0, group);
    const auto rank =
        static_cast<int>(std::ranges::find_if(codes, [](int64_t code) { return code != 0; }) - codes.begin());
    const std::string text = text_from_rank(rank, mine ? mine->text : "", group);
    throw Failure{static_cast<int>(codes[static_cast<size_t>(rank)]), "rank " + std::to_string(rank) + ": " + text,
                  rank};
  }
  if (words[1] * words[1] != words[2] * group.size()) tell_difference(world, function, number);
  std::copy_n(words.begin() + 3, sums.size(), sums.begin());
}

void ask_for_memory(double bytes) {
  at::empty({static_cast<int64_t>(std::min(bytes, 0x1p60))}, at::kByte);
}

std::string text_of(const char* name, const char* text) {
  require(text != nullptr, name, ": expected a text, got null");
  return text;
}

}  // namespace adjoin::c

extern "C" {

const char* adjoin_last_error(void) {
  return adjoin::c::last_text.c_str();
}

int adjoin_last_error_rank(void) {
  return adjoin::c::last_rank;
}

int adjoin_on_message(void (*tell)(const char* text, void* user), void* user) {
  const std::lock_guard lock(adjoin::c::listener.mutex);
  adjoin::c::listener.tell = tell;
  adjoin::c::listener.user = user;
  return ADJOIN_OK;
}

}  // extern "C"
