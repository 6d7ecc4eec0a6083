#include "adjoin/insitu/program_layer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/program.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::insitu {
namespace {

std::shared_ptr<program::Program> read_by_all(const std::string& file, const Communicator& world) {
  std::shared_ptr<program::Program> net;
  std::string failure, bytes;
  try {
    net = program::load_program(file);
    bytes = train::read_text(file);
  } catch (...) {
    failure = message_of(std::current_exception());
  }
  const std::vector<std::string> failures = texts_of_all(failure, world);
  const std::vector<int64_t> hashes = numbers_of_all(static_cast<int64_t>(hash_of(bytes)), world);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    require(failures[rank].empty(), "rank ", rank, ": ", failures[rank]);
    require(hashes[rank] == hashes[0], "rank ", rank, " reads another ", file, " than rank 0");
  }
  return net;
}

/// The sizes of an input of one sample, or of as many as the file fixes.
std::vector<int64_t> input_sizes(const program::TensorSpec& input, const Node& node, int64_t samples) {
  std::vector<int64_t> sizes{samples, node.channels};
  sizes.insert(sizes.end(), node.space.begin(), node.space.end());
  bool fits = input.sizes.size() == sizes.size();
  if (fits && input.sizes[0].is_fixed) sizes[0] = *input.sizes[0].example;
  for (size_t d = 1; fits && d < sizes.size(); ++d)
    fits = !input.sizes[d].is_fixed || input.sizes[d].example == sizes[d];
  require(fits, "expected a program of ", shape_text(sizes), ", got one of ", program::to_string(input));
  return sizes;
}

}  // namespace

DistributedTensor on_blocks(const at::Tensor& y, const nn::LayoutRule& rule, const DistributedTensor& x) {
  GlobalGrid& home = *piece_of(y).home;
  require(y.dim() == std::ssize(x.layout.shape()), "expected a program that makes [batch, channels, *space], got ",
          shape_text(y.sizes().vec()));
  const Layout layout = home.interned(rule(y.sizes().vec()));
  return {moved(y, layout, home), layout, x.grid, x.step};
}

void make_program(const Fields& fields, const LayerSite& site, Node& node) {
  const auto net = read_by_all(fields.word("file", {}), site.blocks.grid().world());
  require(net->inputs().size() == 1 && net->inputs()[0].tensor, "expected a program with one input, which is a tensor");
  for (const parallel::NamedTensor& of_net : parallel::tensors_of(*net))
    if (of_net.tensor.is_floating_point()) at::Tensor(of_net.tensor).set_data(of_net.tensor.to(site.type));
  const auto model = std::make_shared<parallel::Distributed>(*net, site.blocks.grid(), parallel::Cuts{});
  model->trained();
  node.pieces = model->parameters();
  for (nn::Parameter& piece : node.pieces) piece.name = node.name + "." + piece.name;
  node.apply = [net, model, rule = site.blocks.rule(), name = node.name](const std::vector<DistributedTensor>& x) {
    Step step = x[0].step.value_or(Step{});
    net->train(step.training);
    step.seed ^= hash_of(name);  // programs of one network draw other numbers
    model->begin(step);
    const auto alike = model->draw_alike();
    const parallel::Bundle y = net->run({global(x[0])});
    require(y.size() == 1, "expected a program that makes one tensor, got ", y.size());
    return on_blocks(y, rule, x[0]);
  };

  // What it makes of the domain, one inference shows.
  const at::NoGradGuard none;
  const Grid& grid = site.blocks.grid();
  const Layout layout = site.blocks.rule()(input_sizes(*net->inputs()[0].tensor, node, site.blocks.members()));
  const at::Tensor zeros = at::zeros(layout.shape_on(grid.world().rank()), site.type);
  const std::vector<int64_t> made = node.apply({{zeros, layout, grid}}).layout.shape();
  node.channels = made[1];
  node.space.assign(made.begin() + 2, made.end());
}

}  // namespace adjoin::insitu
