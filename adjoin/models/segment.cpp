#include "adjoin/models/segment.hpp"

#include "adjoin/movement/recompute.hpp"

namespace adjoin::models {

at::Tensor Model::operator()(at::Tensor x, const StepContext& context) const {
  for (const Segment& segment : segments) {
    if (!recomputes || &segment == &segments.back()) {  // the last one's backward comes next
      x = segment.forward(x, context);
      continue;
    }
    x = recomputed(
        [forward = segment.forward, context](const std::vector<at::Tensor>& in) { return forward(in[0], context); },
        {x});
  }
  return x;
}

void add_column_calls(Needs& needs, const RowOptions& options, const Communicator& group, const Load& load,
                      int64_t features) {
  if (group.size() == 1) return;
  const int64_t bytes = features * load.product_bytes, between = rows_between(options, group, load.rows);
  if (!options.split) {
    needs.backward.push_back({Collective::all_reduce, group.size(), load.rows * bytes});
    return;
  }
  needs.forward.push_back({Collective::all_gather, group.size(), between * bytes});
  needs.backward.push_back({Collective::all_gather, group.size(), between * bytes});
  needs.backward.push_back({Collective::reduce_scatter, group.size(), load.rows * bytes});
}

void add_row_calls(Needs& needs, const RowOptions& options, const Communicator& group, const Load& load,
                   int64_t features) {
  if (group.size() == 1) return;
  const int64_t bytes = features * load.product_bytes;
  if (!options.split) {
    needs.forward.push_back({Collective::all_reduce, group.size(), load.rows * bytes});
    return;
  }
  needs.forward.push_back({Collective::reduce_scatter, group.size(), load.rows * bytes});
  needs.backward.push_back({Collective::all_gather, group.size(), rows_between(options, group, load.rows) * bytes});
}

}  // namespace adjoin::models
