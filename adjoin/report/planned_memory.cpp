#include "adjoin/report/planned_memory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/plan/dry_run.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/failures.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::report {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// The plan as text, or the reason why there is none: a process writes it for the process that waits for it.
std::string plan_text(const train::Configuration& configuration) {
  try {
    Json ranks = Json::array();
    train::with_adjoin_errors([&] {
      for (const plan::RankPlan& plan : plan::plan_longest_step(configuration, train::task_kind(configuration).make))
        ranks.push_back({plan.rank, plan.highest, plan.checkpoint_copies});
    });
    return ranks.dump();
  } catch (...) {
    return Json(message_of(std::current_exception())).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
}

/// The code of the separate process; what it prints about its data is discarded.
[[noreturn]] void write_plan(int pipe, const train::Configuration& configuration) {
  const int nowhere = ::open("/dev/null", O_RDWR);
  if (nowhere >= 0)
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, descriptor);
  const std::string text = plan_text(configuration);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(pipe, text.data() + done, text.size() - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  ::_exit(0);
}

/// Reads a pipe until it is closed; none if that takes too long.
std::optional<std::string> text_until(int pipe, Clock::time_point end) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{pipe, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return std::nullopt;
    const ssize_t count = ::read(pipe, buffer, sizeof buffer);
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

PlannedMemory plan_of(const train::Configuration& configuration, Clock::time_point end) {
  if (train::grid_sizes(configuration).ranks() > train::kMostThreads) return {.trouble = "there are too many ranks"};
  int pipe[2];
  if (Clock::now() >= end) return {.trouble = "the other plans took too long"};
  if (::pipe2(pipe, O_CLOEXEC) != 0) return {.trouble = "planning failed"};
  std::fflush(nullptr);  // else both processes would write what is in the buffers
  const pid_t process = ::fork();
  if (process == 0) write_plan(pipe[1], configuration);
  ::close(pipe[1]);
  const std::optional<std::string> text = process < 0 ? std::nullopt : text_until(pipe[0], end);
  ::close(pipe[0]);
  if (process < 0) return {.trouble = "planning failed"};
  if (!text) ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  if (!text) return {.trouble = "planning takes too long here; adjoin train --dry-run prints the plan"};
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_string()) return {.trouble = json.get<std::string>()};
  if (!json.is_array()) return {.trouble = "planning failed"};
  PlannedMemory planned;
  for (const Json& rank : json)
    planned.ranks.push_back(
        {.rank = rank[0].get<int>(), .highest = rank[1].get<int64_t>(), .checkpoint_copies = rank[2].get<int64_t>()});
  return planned;
}

}  // namespace

std::vector<PlannedMemory> planned_memory(const std::vector<Run>& runs, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  std::vector<PlannedMemory> planned;
  for (const Run& run : runs) {
    if (!run.configuration)
      planned.push_back({.trouble = "its configuration is not known"});
    else if (!run.configuration->task.empty())
      planned.push_back({.trouble = "only the program of its task can plan it, by plan::dry_run"});
    else if (!run.fact("ranks").is_array())
      planned.push_back({.trouble = "the memory of its ranks is not known"});
    else
      planned.push_back(plan_of(*run.configuration, end));
  }
  return planned;
}

}  // namespace adjoin::report
