#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/c/objects.hpp"

/// How a function of adjoin.h runs: errors become values, on all ranks alike, and nothing of the caller's state changes.
namespace adjoin::c {

/// What a function returns instead of ADJOIN_OK.
struct Failure {
  int code = ADJOIN_INTERNAL;
  std::string text;
  int rank = -1;
};
/// What `work` throws; none where it ends well.
std::optional<Failure> failure_of(const std::function<void()>& work);

/// Runs `work` as the program's guest, with the world's threads for kernels, and keeps the text of what it throws for
/// adjoin_last_error.
int guarded(const std::function<void()>& work) noexcept;

/// Sends a message to the program's callback.
void tell(const std::string& message);

/// The world, or the part of one, that this thread used last; nullptr for none. A thread has one world, so that it is known where a
/// handle is wrong.
std::shared_ptr<World> latest_world();
/// Throws: InvalidArgument where one lives
void check_has_no_world();
void set_latest_world(const std::shared_ptr<World>& world);

/// Lets all ranks know how each came so far: by one all-reduce of 40 bytes. They throw the failure of the first rank that has one, as
/// Failure, or one of their own where they are in different functions or `same` differs, which is what must be equal on all.
/// `sums`, two at most, are added up over the ranks on the way.
void settle(World& world, const std::string& function, const std::string& same, const std::optional<Failure>& mine,
            std::span<double> sums = {});

/// Numbers and texts that must be equal on all ranks.
class Same {
 public:
  template <class Value>
  Same& operator<<(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>)
      text.append(reinterpret_cast<const char*>(&value), sizeof(value));  // rates may differ in their last digits
    else
      text += std::string(value) + '\0';
    return *this;
  }
  std::string text;
};

/// Work in which ranks wait for each other. An error that one rank has alone, such as a lack of memory that nobody asked for before,
/// ends the world.
template <class Work>
void together(World& world, const Work& work) {
  const std::optional<Failure> failure = failure_of(work);
  if (!failure) return;
  const bool is_of_all = failure->code == ADJOIN_INVALID || failure->code == ADJOIN_IO || failure->rank >= 0;
  if (is_of_all || failure->code == ADJOIN_COMMUNICATION) throw Failure(*failure);
  world.group.abort(failure->text);
  throw Failure{ADJOIN_COMMUNICATION, "rank " + std::to_string(world.group.rank()) + ": " + failure->text};
}

/// Work in which ranks do not wait for each other, or all fail alike by InvalidArgument: what else fails on one rank is told to all.
template <class Work>
void settled(World& world, const std::string& function, const Work& work) {
  const std::optional<Failure> failure = failure_of(work);
  if (failure && (failure->code == ADJOIN_INVALID || failure->code == ADJOIN_COMMUNICATION)) throw Failure(*failure);
  settle(world, function, "", failure);
}

/// Asks for so much memory, and gives it back: a lack of it is told before ranks wait for each other. It costs less than 1 us, as no page is
/// touched. Throws: c10::Error, which becomes ADJOIN_NO_MEMORY
void ask_for_memory(double bytes);

/// A place for a result. Throws: InvalidArgument where it is null
template <class Result>
void check_place(const char* name, const Result* place) {
  require(place != nullptr, name, ": expected a place for the result, got null");
}

/// Throws: InvalidArgument for null
std::string text_of(const char* name, const char* text);

/// The object of a handle, for the thread that made its world.
template <class What>
std::shared_ptr<What> object(adjoin_handle handle) {
  std::shared_ptr<What> what = Handles::all().get<What>(handle);
  require(what->home().thread == std::this_thread::get_id(),
          "calls on a world, and on what is made on it, come from the thread that made it");
  set_latest_world(what->home().shared_from_this());
  return what;
}

/// The object of a handle, when all ranks know what is known of a call before anything else is sent: `local(object, same)` checks
/// arguments, reads arrays, and may fail on one rank alone. Where the handle is wrong, the ranks of the world that this thread used
/// last are told. `sums` as in `settle`.
template <class What, class Local>
std::shared_ptr<What> agreed(const char* function, adjoin_handle handle, const Local& local,
                             std::span<double> sums = {}) {
  std::shared_ptr<What> what;
  Same same;
  const std::optional<Failure> failure = failure_of([&] {
    what = object<What>(handle);
    local(*what, same);
  });
  if (const std::shared_ptr<World> world = latest_world()) settle(*world, function, same.text, failure, sums);
  if (failure) throw Failure(*failure);
  return what;
}

/// A function that all ranks call: what is `agreed`, and then `work(object)`, in which ranks may wait for each other.
template <class What, class Local, class Work>
int by_all(const char* function, adjoin_handle handle, const Local& local, const Work& work,
           std::span<double> sums = {}) noexcept {
  return guarded([&] {
    const std::shared_ptr<What> what = agreed<What>(function, handle, local, sums);
    together(what->home(), [&] { work(what); });
  });
}
}  // namespace adjoin::c
