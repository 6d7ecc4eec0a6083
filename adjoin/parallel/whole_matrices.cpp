#include "adjoin/parallel/whole_matrices.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {
namespace {

std::vector<int> ranks_of(const nn::Parameter& parameter) {
  std::vector<int> ranks = parameter.layout.grid().ranks();
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// A matrix before it is known who solves it.
struct Job {
  size_t member;
  Range rows;
  int64_t columns;
  double cost;
  int first_holder;              // a rank that has its first row
  std::optional<int64_t> whole;  // where it begins in the holder's shard, if no other rank has any of it
};

std::vector<Job> jobs_of(const nn::Parameter& parameter, const Layout& shards, size_t member, const MatrixRule& rule) {
  const std::vector<int64_t>& shape = shards.shape();
  const std::vector<int64_t>& rows = parameter.matrices;
  require(shape.size() >= 2 && std::reduce(rows.begin(), rows.end()) == shape[0], [&] {
    return "the matrices of '" + parameter.name + "' have " + std::to_string(std::reduce(rows.begin(), rows.end())) +
           " rows, expected those of a tensor of shape " + shape_text(shape);
  });
  std::map<int, int> holders;  // the first rank that has each part of the rows
  for (int cell = 0; cell < shards.grid().cells(); ++cell)
    holders.try_emplace(shards.parts_of(cell)[0], shards.grid().rank_of(cell));
  const bool has_rows_alone = std::ssize(holders) == shards.grid().cells();  // no copies, and no other dim is cut
  const int64_t columns = c10::multiply_integers(shape.begin() + 1, shape.end());
  std::vector<Job> jobs;
  int64_t begin = 0;
  for (const int64_t of_matrix : rows) {
    Job job{member, {begin, begin + of_matrix}, columns, rule.cost(of_matrix, columns), 0, std::nullopt};
    begin += of_matrix;
    if (of_matrix * columns == 0) continue;
    std::optional<int> first;
    shards.split(0).visit_overlaps(job.rows, [&](int part, Range common, int64_t offset) {
      if (first) return;
      first = part;
      if (has_rows_alone && common == job.rows) job.whole = offset;
    });
    job.first_holder = holders.at(*first);
    jobs.push_back(job);
  }
  return jobs;
}

/// Who does which job.
struct Division {
  std::vector<size_t> owners;  // for each job, the index of a rank
  double most = 0;             // that a rank has to do
};

/// The most expensive jobs first: to the rank that has the first row while it has no more than `near` to do, else to the one
/// that has least to do.
Division divided(const std::vector<Job>& jobs, const std::vector<int>& ranks, double near) {
  Division division{std::vector<size_t>(jobs.size())};
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return jobs[a].cost > jobs[b].cost; });
  std::vector<double> work(ranks.size(), 0);
  for (const size_t job : order) {
    const auto holder = work.begin() + (std::ranges::lower_bound(ranks, jobs[job].first_holder) - ranks.begin());
    const auto chosen = *holder + jobs[job].cost <= near ? holder : std::ranges::min_element(work);
    *chosen += jobs[job].cost;
    division.owners[job] = static_cast<size_t>(chosen - work.begin());
    division.most = std::max(division.most, *chosen);
  }
  return division;
}

/// Moves as few as possible where no rank then has more to do.
std::vector<size_t> owners_of(const std::vector<Job>& jobs, const std::vector<int>& ranks) {
  Division even = divided(jobs, ranks, 0), near = divided(jobs, ranks, even.most);
  return std::move(near.most <= even.most ? near : even).owners;
}

at::Tensor box_of(at::Tensor tensor, const Piece& piece) {
  for (size_t dim = 0; dim < piece.sizes.size(); ++dim)
    tensor = tensor.narrow(static_cast<int64_t>(dim), piece.offset[dim], piece.sizes[dim]);
  return tensor;
}

}  // namespace

WholeMatrices::WholeMatrices(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members,
                             const MatrixRule& rule)
    : world_(parameters[members[0]].grid.world()) {
  const std::vector<int> ranks = ranks_of(parameters[members[0]]);
  const int me = world_.rank();
  std::vector<Job> jobs;
  std::vector<Layout> shards;
  for (size_t member = 0; member < members.size(); ++member) {
    const nn::Parameter& parameter = parameters[members[member]];
    shards.push_back(sharded(parameter.layout));
    const std::vector<Job> more = jobs_of(parameter, shards.back(), member, rule);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  const std::vector<size_t> owners = owners_of(jobs, ranks);
  std::vector<std::vector<std::vector<Range>>> moved(members.size());  // for each member and rank, rows that move
  for (auto& of_ranks : moved) of_ranks.resize(ranks.size());
  std::vector<int64_t> here(members.size(), 0);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    const int owner = ranks[owners[i]];
    const bool stays = job.whole && job.first_holder == owner;
    if (!stays) moved[job.member][owners[i]].push_back(job.rows);
    if (owner != me) continue;
    mine_.push_back({job.member, stays, stays ? *job.whole : here[job.member], job.rows.size(), job.columns});
    if (!stays) here[job.member] += job.rows.size();
    scratch_ = std::max(scratch_, rule.scratch(job.rows.size(), job.columns));
  }
  const GridShape owner_grid({{"owners", static_cast<int>(ranks.size())}}, ranks);
  for (size_t member = 0; member < members.size(); ++member) {
    const std::vector<int64_t>& shape = shards[member].shape();
    // Covering, since the rows of matrices that stay where they are move to none.
    const Layout whole(owner_grid, shape, {{Split::covering(std::move(moved[member]), shape[0], 0), {"owners"}}});
    members_.push_back({members[member], shards[member].shape_on(me), whole.shape_on(me), moved_,
                        plan_move(shards[member], whole, me), plan_move(whole, shards[member], me)});
    moved_ += c10::multiply_integers(members_.back().whole_shape);
  }
}

/// What a member moves between.
struct WholeMatrices::Sides {
  at::Tensor shard, whole;
};

void WholeMatrices::move(const std::vector<Sides>& sides, bool back) const {
  std::vector<Message> messages;
  std::vector<at::Tensor> boxes;  // which own the messages' sizes and strides
  for (const Message::Kind kind : {Message::Kind::receive, Message::Kind::send})
    for (size_t i = 0; i < members_.size(); ++i) {
      const bool receives = kind == Message::Kind::receive;
      const MovePlan& plan = back ? members_[i].back : members_[i].there;
      const at::Tensor& from = back ? sides[i].whole : sides[i].shard;
      const at::Tensor& to = back ? sides[i].shard : sides[i].whole;
      auto own = plan.sends.begin();  // what stays here is in the same order in the sends and in the receives
      for (const Piece& piece : receives ? plan.receives : plan.sends) {
        const at::Tensor box = box_of(receives ? to : from, piece);
        if (piece.peer != world_.rank()) {
          boxes.push_back(box);
          messages.push_back(
              {.kind = kind,
               .peer = piece.peer,
               .buffer = {box.data_ptr(), box.numel(), element_type(box.scalar_type()), buffer_device(box)},
               .sizes = boxes.back().sizes(),
               .strides = boxes.back().strides()});
        } else if (receives) {
          own = std::find_if(own, plan.sends.end(), [&](const Piece& sent) { return sent.peer == world_.rank(); });
          box.copy_(box_of(from, *own++));
        }
      }
    }
  if (!messages.empty()) world_.exchange(messages);
}

void WholeMatrices::solve(const std::vector<at::Tensor>& shards, const MatrixRule& rule) const {
  const at::TensorOptions options = shards[members_[0].parameter].options();
  const at::Tensor whole = at::empty({moved_}, options);
  std::vector<Sides> sides;
  for (const Member& member : members_)
    sides.push_back(
        {shards[member.parameter].view(member.shape),
         whole.narrow(0, member.offset, c10::multiply_integers(member.whole_shape)).view(member.whole_shape)});
  move(sides, /*back=*/false);
  {
    const at::Tensor scratch = at::empty({scratch_}, options.dtype(rule.type.value_or(whole.scalar_type())));
    for (const Matrix& matrix : mine_) {
      const Sides& of_member = sides[matrix.member];
      const at::Tensor rows = (matrix.stays ? of_member.shard : of_member.whole).narrow(0, matrix.begin, matrix.rows);
      rule.solve(rows.view({matrix.rows, matrix.columns}), scratch);
    }
  }
  move(sides, /*back=*/true);
}

std::vector<std::shared_ptr<const WholeMatrices>> whole_matrices(const std::vector<nn::Parameter>& parameters,
                                                                 const Rule& rule) {
  std::vector<std::pair<std::vector<int>, std::vector<size_t>>> members;  // by ranks, in the order of the parameters
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!takes_matrices(rule, parameters[i])) continue;
    const std::vector<int> ranks = ranks_of(parameters[i]);
    auto found = std::ranges::find(members, ranks, [](const auto& known) { return known.first; });
    if (found == members.end()) found = members.insert(found, {ranks, {}});
    found->second.push_back(i);
  }
  std::vector<std::shared_ptr<const WholeMatrices>> all;
  for (auto& [ranks, of_ranks] : members)
    all.push_back(std::make_shared<WholeMatrices>(parameters, std::move(of_ranks), *rule.of_matrices));
  return all;
}

}  // namespace adjoin::parallel
