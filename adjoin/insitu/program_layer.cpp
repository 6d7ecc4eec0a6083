#include "adjoin/insitu/program_layer.hpp"

#include <ATen/ATen.h>

#include <fstream>
#include <iterator>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::insitu {
namespace {

std::shared_ptr<program::Program> read_by_all(const std::string& file, const Communicator& world) {
  std::shared_ptr<program::Program> net;
  std::string failure, bytes;
  try {
    net = program::load_program(file);
    std::ifstream stream(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
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

/// What the file declares of the output's sizes, where the input's are those of the domain.
void set_output(const program::Program& net, const program::TensorSpec& input, Node& node) {
  std::vector<int64_t> sizes{1, node.channels};
  sizes.insert(sizes.end(), node.space.begin(), node.space.end());
  bool fits = input.sizes.size() == sizes.size(), is_example = fits;
  std::map<std::string, int64_t> of_symbols;
  for (size_t d = 1; fits && d < sizes.size(); ++d) {
    const program::Size& size = input.sizes[d];
    is_example &= size.example == sizes[d];
    fits = !size.is_fixed || size.example == sizes[d];
    if (!size.symbol.empty()) of_symbols[size.symbol] = sizes[d];
  }
  require(fits, "expected a program of ", shape_text(sizes), ", got one of ", program::to_string(input));
  const program::OuterGraph& graph = net.graph();
  std::vector<int64_t> made;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i].is_buffer) continue;
    const std::vector<program::Slot>& slots = graph.graph.outputs[i].slots;
    const auto& output = slots.empty() ? std::nullopt : graph.graph.values[static_cast<size_t>(slots[0])].tensor;
    require(output && made.empty() && output->sizes.size() == sizes.size(),
            "expected a program with one output [batch, channels, *space]");
    for (size_t d = 1; d < sizes.size(); ++d) {
      const program::Size& size = output->sizes[d];
      const bool is_known = size.example && (size.is_fixed || is_example);
      require(is_known || of_symbols.contains(size.symbol),
              "the file does not say what sizes it makes: export the program with an example of this domain");
      made.push_back(is_known ? *size.example : of_symbols[size.symbol]);
    }
  }
  node.channels = made.at(0);
  node.space.assign(made.begin() + 1, made.end());
}

}  // namespace

DistributedTensor on_blocks(const at::Tensor& y, const nn::LayoutRule& rule, const DistributedTensor& x) {
  GlobalGrid& home = *piece_of(y).home;
  const Layout layout = home.interned(rule(y.sizes().vec()));
  return {moved(y, layout, home), layout, x.grid, x.step};
}

void make_program(const Fields& fields, const LayerSite& site, Node& node) {
  const auto net = read_by_all(fields.word("file", {}), site.blocks.grid().world());
  require(net->inputs().size() == 1 && net->inputs()[0].tensor, "expected a program with one input, which is a tensor");
  set_output(*net, *net->inputs()[0].tensor, node);
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
    return on_blocks(net->run({global(x[0])}), rule, x[0]);
  };
}

}  // namespace adjoin::insitu
