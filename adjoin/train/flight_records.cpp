#include "adjoin/train/flight_records.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/observers.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/lab/flight_reading.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/train/failures.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

FlightRecords::FlightRecords(fs::path out) : out_(std::move(out)) {}

Communicator FlightRecords::watch(const Communicator& world) {
  const auto record = std::make_shared<lab::FlightRecord>(world.rank(), world.size());
  const std::lock_guard lock(mutex_);
  of_ranks_[world.rank()] = record;
  return also_observed_by(world, record);
}

void FlightRecords::keep(const Communicator& world) {
  const fs::path folder = out_ / lab::kFlightFolder;
  const std::string what = "writing " + folder.string();
  std::string refusal;
  on_root(world, what, [&] {
    refusal = refusal_of([&] {
      fs::remove_all(folder);
      fs::create_directory(folder);
    });
  });
  lab::FlightRecord* record = [&] {
    const std::lock_guard lock(mutex_);
    return of_ranks_.at(world.rank()).get();
  }();
  on_all(world, what, [&] {
    if (refusal.empty()) refusal = refusal_of([&] { record->keep_in(folder / lab::flight_file_name(world.rank())); });
  });
  const std::vector<int64_t> is_refused = numbers_of_all(!refusal.empty(), world);
  std::vector<int> refused;
  for (int rank = 0; rank < world.size(); ++rank)
    if (is_refused[static_cast<size_t>(rank)] != 0) refused.push_back(rank);
  if (refused.empty() || world.rank() != refused.front()) return;
  std::error_code has_others;
  fs::remove(folder, has_others);
  note("warning: " + refusal + "; the run goes on without the flight record of " + ranks_text(refused));
}

void FlightRecords::note_end() {
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, record] : of_ranks_) record->note_end();
}

std::string FlightRecords::note_failure(const std::string& why) {
  const std::lock_guard lock(mutex_);
  bool is_kept = false;
  for (const auto& [rank, record] : of_ranks_) {
    record->note_failure(why);
    is_kept |= record->is_kept();
  }
  return is_kept ? "see the last calls of all ranks: adjoin flight " + out_.string() : "";
}

void run_recorded(const Configuration& configuration, FlightRecords& records,
                  const std::function<void(const Communicator& world)>& work) {
  try {
    run_workers(
        configuration, [&](const Communicator& world) { work(records.watch(world)); },
        [&](const std::string& why) { return records.note_failure(why); });
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    throw_advised(cause, records.note_failure(message_of(cause)));
  }
  records.note_end();
}

}  // namespace adjoin::train
