#include "adjoin/task/grid_sizes.hpp"

#include "adjoin/base/cores.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

GridShape GridSizes::shape() const {
  const auto axis = [](const char* name, int64_t size) { return GridShape::Axis{name, static_cast<int>(size)}; };
  return GridShape({axis("replica", dp / ep), axis("ep", ep), axis("pp", pp), axis("cp", cp), axis("tp", tp)});
}

std::string GridSizes::to_string() const {
  std::string text = "dp " + std::to_string(dp) + (ep > 1 ? " (ep " + std::to_string(ep) + ")" : "");
  if (pp > 1) text += ", pp " + std::to_string(pp);
  if (cp > 1) text += ", cp " + std::to_string(cp);
  return text + ", tp " + std::to_string(tp) + (sp ? ", sp" : "");
}

std::string GridSizes::needs() const {
  return "--dp " + std::to_string(dp) + (pp > 1 ? " times --pp " + std::to_string(pp) : "") +
         (cp > 1 ? " times --cp " + std::to_string(cp) : "") + " times --tp " + std::to_string(tp) + " needs " +
         (ranks() == 1 ? "1 rank" : std::to_string(ranks()) + " ranks");
}

const Communicator& batch_ranks(const Grid& grid) {
  return grid.group({"replica", "ep"});
}

const GridSizes& grid_sizes(const Configuration& c) {
  return c;
}

std::string layout_text(const Configuration& c) {
  return grid_sizes(c).to_string() + (c.zero != 1 ? ", zero " + std::to_string(c.zero) : "");
}

Configuration with_all_ranks(Configuration c) {
  if (c.dp != 0) return c;
  const int64_t others = c.pp * c.cp * c.tp, ranks = started_by_mpi() ? mpi_job_size() : usable_cores();
  require(others >= 1 && ranks >= others && ranks % others == 0, [&] {
    return "--dp 0: " + std::to_string(ranks) +
           (started_by_mpi() ? " ranks of the MPI job" : " cores of this machine") + " are not a multiple of --pp " +
           std::to_string(c.pp) + " times --cp " + std::to_string(c.cp) + " times --tp " + std::to_string(c.tp);
  });
  c.dp = ranks / others;
  return c;
}

bool keeps_scores(const Configuration& c) {
  return c.cp > 1 && c.cp_method == nn::AttentionMethod::gathered;
}

std::vector<std::string> remarks(const Configuration& c) {
  std::vector<std::string> lines;
  if (c.recompute == Recompute::attention && !keeps_scores(c))
    lines.push_back(std::string("--recompute attention acts like none: ") +
                    (c.cp == 1 ? "with --cp 1 attention keeps no scores" : "only --cp-method gathered keeps scores"));
  if (c.zero > 1 && c.dp * c.cp == 1)
    lines.push_back("--zero " + std::to_string(c.zero) +
                    " acts like 1: with --dp 1 and --cp 1 each matrix is on only one rank");
  if (c.experts.count > 1 && c.experts.top_k == 1 && c.experts.normalises_gates)
    lines.push_back(
        "--top-k 1: a gate of one expert is always 1, so routers learn by --balance-loss and --z-loss alone, unless "
        "--no-normalise-gates is given");
  return lines;
}

void validate(const GridSizes& sizes) {
  require(sizes.dp >= 1 && sizes.pp >= 1 && sizes.cp >= 1 && sizes.tp >= 1, [&] {
    return "--dp is " + std::to_string(sizes.dp) + ", --pp " + std::to_string(sizes.pp) + ", --cp " +
           std::to_string(sizes.cp) + " and --tp " + std::to_string(sizes.tp) + ", expected at least 1";
  });
  require(sizes.ep >= 1 && sizes.dp % sizes.ep == 0, [&] {
    return "--ep " + std::to_string(sizes.ep) + " does not divide --dp " + std::to_string(sizes.dp) +
           ": expert-parallel ranks are some of the data-parallel ones; --ep 1 puts all experts on each";
  });
  require(!sizes.sp || sizes.tp > 1, "--sp splits rows over tensor-parallel ranks, and --tp is 1");
}

}  // namespace adjoin::train
