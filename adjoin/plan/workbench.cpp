#include "adjoin/plan/workbench.hpp"

#include <ATen/Parallel.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "adjoin/base/cores.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/version.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/measure/stopwatch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/lab/measure/workload.hpp"
#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::plan {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostMeasuredRanks = 16;  // in a group; the time of larger groups is extrapolated in proportion
constexpr int kFormat = 3;                  // format of the stored measurements
constexpr const char* kMessages = "messages";
constexpr double kCloseRows = 0.05;  // rows closer than this get their time from measured ones
// Sizes of messages that are measured; each is 8 times the previous one.
constexpr int64_t kLeastBytes = 1 << 12, kMostBytes = 1 << 24;

int64_t workers_of(const JobHosts& placement) {
  if (started_by_mpi()) return mpi_job_size();
  return std::min<int64_t>(placement.ranks_a_host(), usable_cores());
}

int threads_of(const train::Configuration& c, const JobHosts& placement) {
  return train::threads_of_a_rank(c.threads_per_rank,
                                  started_by_mpi() ? mpi_job_ranks_here() : placement.ranks_a_host());
}

/// What distinguishes this machine, this build and these workers from others.
Json about(const train::Configuration& c, int64_t workers, int threads) {
  const Machine machine = this_machine();
#ifdef __OPTIMIZE__
  const char* build = "optimised";
#else
  const char* build = "not optimised";
#endif
  Json json{{"adjoin", kVersion},
            {"form", kFormat},
            {"build", build},
            {"compiler", __VERSION__},
            {"host", machine.host},
            {"cores", machine.cores},
            {"usable_cores", machine.usable_cores},
            {"simd", machine.simd},
            {"memory", machine.memory},
            {"workers", workers},
            {"threads", threads},
            {"deterministic", c.deterministic},
            {"checked", c.checked}};
  if (started_by_mpi())
    json.update({{"mpi", mpi_library_version()},
                 {"ranks_here", mpi_job_ranks_here()},
                 {"memory_of_host", text_of("host_memory", c)}});
  return json;
}

/// What decides how long a segment of a given kind and shape takes.
std::string model_text(const train::Configuration& c) {
  std::string text;
  for (const train::Field& field : train::fields())
    if (field.group == "Model" || field.name == "precision") text += train::text_of(field, c) + " ";
  if (!c.has_program()) return text;
  std::error_code missing;  // another file may come to have the same name
  const auto written = std::filesystem::last_write_time(c.program, missing).time_since_epoch().count();
  return text + std::to_string(written) + " on " + c.data;
}

/// Interpolates linearly between the points of a curve; beyond the last point in proportion. `points`: x and y in turn,
/// ascending.
double interpolated(const std::vector<double>& points, double x) {
  const size_t count = points.size() / 2;
  if (x <= points[0] || count == 1) return points[1];
  size_t i = 1;
  while (i + 1 < count && points[2 * i] < x) ++i;
  const double x0 = points[2 * i - 2], y0 = points[2 * i - 1], x1 = points[2 * i], y1 = points[2 * i + 1];
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

/// Computes on all ranks for about so many seconds; returns the share of the time in which one of them had no processor.
double lost_while_computing(const Communicator& world, double seconds) {
  world.barrier();
  measure::Stopwatch watch;
  measure::Stopwatch::Lap lap;
  while (lap.seconds < seconds) lap += watch.lap();
  double lost = lap.lost();
  world.all_reduce(buffer(lost), Reduction::max);
  return lost;
}

}  // namespace

/// `ranks_a_host` of its ranks are on one host; all its hosts have the same number of its ranks.
struct Workbench::Group {
  int64_t ranks = 1, ranks_a_host = 1;

  Group(const PlannedCall& call, const JobHosts& placement) : ranks(call.ranks) {
    const int64_t on_host = placement.ranks_a_host();
    const int64_t stride = std::max<int64_t>(1, (call.span - 1) / std::max<int64_t>(1, call.ranks - 1));
    ranks_a_host = std::clamp<int64_t>(on_host / stride, 1, ranks);
    while (ranks % ranks_a_host != 0) --ranks_a_host;
  }
  Group(int64_t all, int64_t on_one_host) : ranks(all), ranks_a_host(on_one_host) {}
  std::string text() const { return std::to_string(ranks) + " ranks, " + std::to_string(ranks_a_host) + " a host"; }
};

Workbench::Workbench(const train::Configuration& configuration, const JobHosts& placement, double seconds,
                     double tolerance, bool measures_anew)
    : configuration_(configuration),
      placement_(placement),
      seconds_(seconds),
      tolerance_(tolerance),
      workers_(workers_of(placement)),
      threads_(threads_of(configuration, placement)),
      ranks_a_core_(std::max(1.0, static_cast<double>(placement.ranks_a_host()) / usable_cores())),
      measurements_(about(configuration, workers_, threads_), measures_anew) {
  if (!started_by_mpi()) return;
  on_workers(workers_, [&](const Communicator& world) {
    measurements_.take(text_from_rank(0, measurements_.text(), world));  // the cache folders of hosts may differ
  });
  spent_ = 0;
}

void Workbench::keep() {
  if (mpi_job_rank() == 0) measurements_.keep();
}

void Workbench::on_workers(int64_t ranks, const std::function<void(const Communicator& world)>& work) {
  train::WorkerOptions options = configuration_;
  static_cast<train::GridSizes&>(options) = {.dp = ranks};
  options.threads_per_rank = threads_;
  double seconds = 0;
  train::run_workers(options, [&](const Communicator& world) {
    const auto begin = Clock::now();
    work(world);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    const int64_t most = largest_of_all(took, world);  // so that all processes continue alike
    if (train::is_first_of_process(world)) seconds = 1e-9 * static_cast<double>(most);
  });
  spent_ += seconds;
}

const std::vector<double>* Workbench::numbers_of(const std::string& name, std::function<Reading()> measure,
                                                 const std::string& kind) {
  const std::vector<double>* known = measurements_.find(name);
  if (known == nullptr) wanted_.try_emplace(name, MeasuredPart{name, kind.empty() ? name : kind, std::move(measure)});
  return known;
}

bool Workbench::measure() {
  if (wanted_.empty()) return false;
  std::vector<MeasuredPart> parts;
  for (auto& [name, part] : wanted_) parts.push_back(std::move(part));
  wanted_.clear();
  calls_.clear();
  measure_in_rounds(parts, seconds_, tolerance_, [this] { return spent_; });
  for (const MeasuredPart& part : parts) {
    const Reading* best = part.best(tolerance_);
    if (best == nullptr) continue;
    const bool is_sure = part.is_sure(tolerance_);
    measurements_.add(part.name, best->numbers, is_sure);
    ++measured_;
    unsure_ += is_sure ? 0 : 1;
  }
  for (const MeasuredPart& part : parts)
    if (part.readings.empty()) estimate_from_others(part);
  return true;
}

void Workbench::estimate_from_others(const MeasuredPart& part) {
  const std::map<std::string, double>& of_kind = work_.at(part.kind);
  double work = 0;
  std::vector<double> sums(4);
  for (const auto& [other, its_work] : of_kind)
    if (const std::vector<double>* known = measurements_.find(other)) {
      work += its_work;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += known->at(i);
    }
  for (double& sum : sums) sum *= of_kind.at(part.name) / work;
  measurements_.add(part.name, sums, /*keeps=*/unsure_ == 0);
}

std::function<Reading()> Workbench::timing_of(const SegmentTrial& trial) {
  train::Configuration plain = trial.configuration;
  plain.zero = 1;
  models::Segment segment = trial.segment;
  segment.recomputes = false;
  return [this, plain, segment, &task = trial.task, rank = trial.grid.world().rank(), batch = trial.batch,
          input = trial.input, place = trial.place, splits = trial.backward.splits, order = trial.order] {
    Reading reading;
    on_workers(workers_, [&](const Communicator& world) {
      const nn::AssumedExperts assumed(nn::AssumedExperts::Spread::even, /*alone=*/true);
      SilentRank alone(grid_sizes(plain), rank);
      const SegmentTrial mine{.configuration = plain,
                              .task = task,
                              .segment = segment,
                              .grid = alone.grid,
                              .batch = batch,
                              .input = input,
                              .calls = *alone.calls,
                              .order = order,
                              .place = place,
                              .backward = {.splits = splits}};
      const auto [seconds, lost] = time_segment(mine, parts_of_step(plain) > 1, world, seconds_ / 300);
      if (train::is_first_of_process(world))
        reading = {{seconds.forward, seconds.backward, seconds.weight_gradients, seconds.waiting}, lost};
    });
    return reading;
  };
}

SegmentSeconds Workbench::segment(const SegmentTrial& trial, const std::string& name, int64_t rows, int64_t weights) {
  auto& of_this_name = segments_[name];
  auto nearest = std::ranges::find_if(of_this_name, [&](const auto& known) {
    return std::abs(static_cast<double>(known.first - rows)) <= kCloseRows * static_cast<double>(rows);
  });
  const double work = static_cast<double>(rows) * static_cast<double>(weights);
  const std::string kind = work == 0 ? "" : trial.segment.kind.empty() ? trial.segment.name : trial.segment.kind;
  if (nearest == of_this_name.end()) {
    of_this_name.emplace_back(
        rows, "segment " + hexadecimal(mix(hash_of(model_text(configuration_) + name))) + " " + std::to_string(rows));
    nearest = std::prev(of_this_name.end());
    if (work > 0) work_[kind][nearest->second] = work;
  }
  const std::vector<double>* known = measurements_.find(nearest->second);
  if (known == nullptr) {
    if (!wanted_.contains(nearest->second)) numbers_of(nearest->second, timing_of(trial), kind);
    return {};
  }
  SegmentSeconds seconds{known->at(0), known->at(1), known->at(2), known->at(3)};
  if (rows != nearest->first) seconds = seconds * (static_cast<double>(rows) / static_cast<double>(nearest->first));
  if (trial.segment.recomputes) seconds.backward += seconds.forward;
  return seconds * ranks_a_core_;
}

Reading Workbench::timed_update(bool of_matrices) {
  Reading reading;
  on_workers(workers_, [&](const Communicator& world) {
    std::vector<double> points;  // elements and seconds
    measure::Stopwatch::Lap all;
    parallel::Rule rule = rule_of(configuration_);
    if (!of_matrices) rule.of_matrices.reset();
    for (const int64_t features : of_matrices ? std::vector<int64_t>{128, 512} : std::vector<int64_t>{16, 2048}) {
      const SilentRank alone({}, 0);
      torch::nn::Linear layer(torch::nn::LinearOptions(features, features).bias(false));
      layer->to(train::weight_type(configuration_.precision));
      parallel::Optimizer optimizer(nn::parameters_of(*layer, alone.grid, {"tp"}), rule,
                                    {.weight_decay = configuration_.weight_decay, .clip = configuration_.clip});
      const at::Tensor gradient = at::ones_like(layer->weight.detach());
      std::vector<double> seconds;
      for (int i = 0; i < 4; ++i) {
        layer->weight.mutable_grad() = gradient.clone();
        world.barrier();
        measure::Stopwatch watch;
        optimizer.step(1e-4);
        const measure::Stopwatch::Lap lap = watch.lap();
        double took = threads_ == 1 ? lap.processor : lap.seconds;
        world.all_reduce(buffer(took), Reduction::max);
        if (i == 0) continue;
        seconds.push_back(took);
        all += lap;
      }
      const double work =
          of_matrices ? rule.of_matrices->cost(features, features) : static_cast<double>(features * features);
      points.insert(points.end(), {work, measure::median(seconds)});
    }
    double lost = all.lost();
    world.all_reduce(buffer(lost), Reduction::max);
    if (train::is_first_of_process(world)) reading = {points, lost};
  });
  return reading;
}

double Workbench::update(const RankPlan& rank) {
  const std::string name = "update of " + text_of("optimizer", configuration_) + " " +
                           text_of("precision", configuration_) + (configuration_.clip > 0 ? " clipped" : "");
  const auto seconds = [&](bool of_matrices, double work) {
    if (work == 0) return 0.0;
    const std::vector<double>* known =
        numbers_of(name + (of_matrices ? " of matrices" : ""), [=, this] { return timed_update(of_matrices); });
    return known == nullptr ? 0 : ranks_a_core_ * interpolated(*known, work);
  };
  return seconds(false, static_cast<double>(rank.updated_weights)) + seconds(true, rank.solved_matrices);
}

Reading Workbench::timed_call(const std::string& operation, const Group& group, int64_t bytes) {
  // As many groups at once as in a step.
  const int64_t ranks_a_host = std::min(kMostMeasuredRanks, placement_.ranks_a_host());
  const int64_t ranks =
      started_by_mpi() ? mpi_job_size() : std::max(group.ranks, ranks_a_host / group.ranks * group.ranks);
  const measure::Effort efforts{.turns = 5, .least_turns = 3, .seconds = seconds_ / 1200};
  Reading reading;
  on_workers(ranks, [&](const Communicator& world) {
    const int64_t on_host = placement_.ranks_a_host(), hosts = group.ranks / group.ranks_a_host;
    const int64_t host = world.rank() / on_host, place = world.rank() % on_host;
    const Communicator mine = *world.split(
        static_cast<int>(host / hosts * (on_host / group.ranks_a_host) + place / group.ranks_a_host), world.rank());
    const measure::Workload workload(mine, bytes);
    const auto collective = collective_named(operation);
    const int next = (mine.rank() + 1) % mine.size(), previous = (mine.rank() + mine.size() - 1) % mine.size();
    // In a step each rank has just written what it sends.
    const measure::Contender contender{{[&] { workload.write(); },
                                        [&] {
                                          if (collective) return workload.call(*collective);
                                          mine.sendrecv(workload.in(), next, workload.out(), previous);
                                        }}};
    // Ranks that wait for each other may give their processor away, so what else runs shows only before and after.
    const bool have_cores = ranks_a_core_ <= 1;
    double lost = have_cores ? lost_while_computing(world, seconds_ / 6000) : 0;
    const auto times = measure::time_in_turns(world, {&contender, 1}, efforts);
    if (have_cores) lost = std::max(lost, lost_while_computing(world, seconds_ / 6000));
    if (train::is_first_of_process(world)) reading = {{measure::median(times[0].parts[1])}, lost};
  });
  return reading;
}

double Workbench::point(const std::string& operation, const Group& group, int64_t bytes) {
  const std::string name = operation + " of " + group.text() + ", " + std::to_string(bytes) + " bytes";
  const std::vector<double>* known =
      numbers_of(name, [this, operation, group, bytes] { return timed_call(operation, group, bytes); });
  return known == nullptr ? 0 : known->front();
}

double Workbench::measured(const std::string& operation, const Group& group, double bytes) {
  if (group.ranks == 1) return 0;
  const int64_t most = started_by_mpi() ? mpi_job_size() : kMostMeasuredRanks;
  if (group.ranks > most) {
    const auto ratio = static_cast<double>(group.ranks) / static_cast<double>(most);
    return ratio * measured(operation, {most, std::min(most, group.ranks_a_host)}, bytes / ratio);
  }
  // Interpolates linearly between two sizes; beyond the largest in proportion.
  int64_t below = kLeastBytes, above = kLeastBytes;
  while (static_cast<double>(above) < bytes && above < kMostBytes) {
    below = above;
    above *= 8;
  }
  const double high = point(operation, group, above);
  if (below == above) return high;
  return interpolated({static_cast<double>(below), point(operation, group, below), static_cast<double>(above), high},
                      bytes);
}

double Workbench::call(const PlannedCall& call) {
  const auto [found, is_new] = calls_.try_emplace(
      {call.collective ? static_cast<int>(*call.collective) : -1, call.ranks, call.span, call.bytes});
  if (is_new) found->second = seconds_of(call);
  return found->second;
}

double Workbench::seconds_of(const PlannedCall& call) {
  const Group group(call, placement_);
  // Measured by the bytes of the largest buffer; for a gathering call that is the result.
  const bool gathers = call.collective == Collective::all_gather || call.collective == Collective::gather;
  const auto bytes = static_cast<double>(gathers ? call.bytes * call.ranks : call.bytes);
  const std::string operation = call.collective ? std::string(name(*call.collective)) : kMessages;
  if (!placement_.network || group.ranks_a_host == group.ranks) return measured(operation, group, bytes);
  // First within each host, then between hosts; all groups of a host share its network.
  const int64_t hosts = group.ranks / group.ranks_a_host;
  const auto sharing = static_cast<double>(placement_.ranks_a_host()) / static_cast<double>(group.ranks_a_host);
  const algorithm::Network network{placement_.network->alpha, placement_.network->beta * sharing};
  const double within = measured(operation, {group.ranks_a_host, group.ranks_a_host}, bytes);
  if (!call.collective) return std::max(within, network.alpha + network.beta * bytes);
  const auto whole = static_cast<int64_t>(bytes);
  const std::string_view algorithm = algorithm::choose(*call.collective, static_cast<int>(hosts), whole);
  const algorithm::Request request =
      algorithm::request_of(*call.collective, /*root=*/0, whole, std::vector<int64_t>(hosts, whole / hosts));
  return within + algorithm::seconds_of(request, algorithm, 1, network);
}

}  // namespace adjoin::plan
