#include <variant>

#include <pybind11/functional.h>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/command_line.hpp"
#include "adjoin/cli/commands.hpp"
#include "adjoin/cli/run_program.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/muon.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/weights.hpp"
#include "adjoin/train/commands.hpp"
#include "adjoin/train/failures.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using Pieces = std::vector<nn::Parameter>;

nn::init::FanModeType fan_named(const std::string& text) {
  if (text == "fan_in") return torch::kFanIn;
  if (text == "fan_out") return torch::kFanOut;
  throw InvalidArgument("expected a mode: fan_in or fan_out, got '" + text + "'");
}
nn::init::NonlinearityType nonlinearity_named(const std::string& text) {
  if (text == "linear") return torch::kLinear;
  if (text == "sigmoid") return torch::kSigmoid;
  if (text == "tanh") return torch::kTanh;
  if (text == "relu") return torch::kReLU;
  if (text == "leaky_relu") return torch::kLeakyReLU;
  throw InvalidArgument("expected a nonlinearity: linear, sigmoid, tanh, relu or leaky_relu, got '" + text + "'");
}

void bind_init(py::module_& m) {
  namespace init = nn::init;
  m.def("uniform_", &init::uniform_, "piece"_a, "seed"_a, "low"_a = 0.0, "high"_a = 1.0,
        "Uniform numbers of [low, high).");
  m.def("normal_", &init::normal_, "piece"_a, "seed"_a, "mean"_a = 0.0, "std"_a = 1.0, "Normal numbers.");
  m.def("trunc_normal_", &init::trunc_normal_, "piece"_a, "seed"_a, "mean"_a = 0.0, "std"_a = 1.0, "low"_a = -2.0,
        "high"_a = 2.0, "Normal numbers, none outside of [low, high].");
  m.def("xavier_uniform_", &init::xavier_uniform_, "piece"_a, "seed"_a, "gain"_a = 1.0,
        "Uniform numbers of variance 2 gain^2 / (fan in + fan out).");
  m.def("xavier_normal_", &init::xavier_normal_, "piece"_a, "seed"_a, "gain"_a = 1.0,
        "Normal numbers of variance 2 gain^2 / (fan in + fan out).");
  m.def("orthogonal_", &init::orthogonal_, "piece"_a, "seed"_a, "gain"_a = 1.0,
        "Orthonormal rows or columns, times gain.");
  const auto def_kaiming = [&](const char* name, auto* fill) {
    m.def(
        name,
        [fill](const nn::Parameter& piece, uint64_t seed, double a, const std::string& mode,
               const std::string& nonlinearity) {
          fill(piece, seed, a, fan_named(mode), nonlinearity_named(nonlinearity));
        },
        "piece"_a, "seed"_a, "a"_a = 0.0, "mode"_a = "fan_in", "nonlinearity"_a = "leaky_relu");
  };
  def_kaiming("kaiming_uniform_", init::kaiming_uniform_);
  def_kaiming("kaiming_normal_", init::kaiming_normal_);
}

void bind_optimizer(py::module_& m) {
  py::class_<parallel::Rule>(m, "Rule", "How an optimizer changes an element by its gradient.")
      .def_readonly("name", &parallel::Rule::name)
      .def_readonly("moments", &parallel::Rule::moments);
  m.def(
      "adamw",
      [](double beta1, double beta2, double epsilon) {
        return parallel::adamw({.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon});
      },
      "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8, "AdamW, by LibTorch's kernel.");
  m.def(
      "sgd", [](double momentum, bool nesterov) { return parallel::sgd({.momentum = momentum, .nesterov = nesterov}); },
      "momentum"_a = 0.0, "nesterov"_a = false, "SGD with momentum, as torch.optim.SGD.");
  m.def(
      "muon", [](double momentum) { return parallel::muon({.momentum = momentum}); }, "momentum"_a = 0.95,
      "Muon for matrices (Piece.matrices), AdamW for all others.");
  py::class_<parallel::Update>(
      m, "Update",
      "What a step came to: the norm of the global gradient, and whether it was skipped as that is not finite.")
      .def_readonly("norm", &parallel::Update::norm)
      .def_readonly("skipped", &parallel::Update::skipped);
  using parallel::Optimizer;
  py::class_<Optimizer, Owner<Optimizer>>(m, "Optimizer", "The optimizer of pieces.")
      .def(py::init([](Pieces pieces, parallel::Rule rule, double weight_decay, double clip, int zero) {
             const Blocking blocking;
             return Owner<Optimizer>(new Optimizer(std::move(pieces), std::move(rule),
                                                   {.weight_decay = weight_decay, .clip = clip, .zero = zero}));
           }),
           "pieces"_a, "rule"_a, "weight_decay"_a = 0.0, "clip"_a = 0.0, "zero"_a = 1)
      .def("step", &Optimizer::step, "rate"_a, "loss_scale"_a = 1.0, MayBlock())
      .def_property_readonly("moment_bytes", &Optimizer::moment_bytes)
      .def_property("steps_taken", &Optimizer::steps_taken, &Optimizer::set_steps_taken)
      .def("moments", [](const Optimizer& o) { return Pieces(o.moments()); })
      .def("state", &Optimizer::state);
}

/// A module of Python's as LibTorch's: its tensors by their names, in modules within modules.
class Tensors : public torch::nn::Module {
 public:
  void add(const std::string& name, const Tensor& tensor, bool is_buffer) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      is_buffer ? register_buffer(name, tensor) : register_parameter(name, tensor, tensor.requires_grad());
      return;
    }
    const std::string first = name.substr(0, dot);
    const auto known = inner_.find(first);
    const auto inner = known != inner_.end()
                           ? known->second
                           : inner_.emplace(first, register_module(first, std::make_shared<Tensors>())).first->second;
    inner->add(name.substr(dot + 1), tensor, is_buffer);
  }

 private:
  std::map<std::string, std::shared_ptr<Tensors>> inner_;
};

/// Weights with the module that they are of.
struct ModuleWeights {
  std::shared_ptr<Tensors> module = std::make_shared<Tensors>();
  std::optional<parallel::Weights> weights;
};

Owner<ModuleWeights> weights_of(const std::vector<std::tuple<std::string, Tensor, bool>>& tensors,
                                const Communicator& group, int zero, const std::string& overlap,
                                const std::optional<at::ScalarType>& wire, int64_t bucket_bytes, int64_t unit_bytes) {
  using Overlap = parallel::WeightsOptions::Overlap;
  require(overlap == "automatic" || overlap == "off" || overlap == "on",
          [&] { return "Weights: expected an overlap: automatic, off or on, got '" + overlap + "'"; });
  Owner<ModuleWeights> made(new ModuleWeights);
  for (const auto& [name, tensor, is_buffer] : tensors) made->module->add(name, tensor, is_buffer);
  parallel::WeightsOptions options{.zero = zero, .wire = wire, .bucket_bytes = bucket_bytes, .unit_bytes = unit_bytes};
  options.overlap = overlap == "on" ? Overlap::on : overlap == "off" ? Overlap::off : Overlap::automatic;
  made->weights.emplace(*made->module, group, options);
  return made;
}

void bind_weights(py::module_& m) {
  using W = ModuleWeights;
  py::class_<W, Owner<W>>(m, "Weights")
      .def(py::init([](const std::vector<std::tuple<std::string, Tensor, bool>>& tensors, const Communicator& group,
                       int zero, const std::string& overlap, const std::optional<at::ScalarType>& wire,
                       int64_t bucket_bytes, int64_t unit_bytes) {
        const Blocking blocking;
        return weights_of(tensors, group, zero, overlap, wire, bucket_bytes, unit_bytes);
      }))
      .def(
          "backward",
          [](W& w, const std::optional<Tensor>& loss, int64_t samples, bool last, bool retain_graph) {
            return w.weights->backward(loss.value_or(Tensor()), samples, {.last = last, .retain_graph = retain_graph});
          },
          "loss"_a, "samples"_a, "last"_a = true, "retain_graph"_a = false, MayBlock())
      .def(
          "step",
          [](W& w, const std::vector<Tensor>& of, const std::function<void()>& update, double clip) {
            return w.weights->step(of, update, clip);
          },
          "of"_a, "update"_a, "clip"_a, MayBlock())
      .def(
          "any", [](const W& w, bool here) { return w.weights->any(here); }, "here"_a, MayBlock())
      .def("parts", [](const W& w) { return w.weights->parts(); })
      .def("trained", [](const W& w) { return Pieces(w.weights->trained()); })
      .def("parameters", [](const W& w) { return Pieces(w.weights->parameters()); })
      .def(
          "use", [](W& w, const Tensor& weight) { return w.weights->use(weight); }, "weight"_a, MayBlock())
      .def(
          "while_whole", [](W& w, const std::function<void()>& work) { w.weights->while_whole(work); }, "work"_a,
          MayBlock());
}

/// Carries out a command line, as its program does, but throws.
void run_training(const std::vector<std::string>& arguments) {
  train::with_adjoin_errors([&] {
    cli::Program program;
    cli::add_train(program);
    cli::parse(program, arguments);
    program.action();
  });
}

int run_program(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return cli::run_program(static_cast<int>(arguments.size()), pointers.data());
}

}  // namespace

void bind_training(py::module_& m) {
  py::module_ init = m.def_submodule("init");
  bind_init(init);
  bind_optimizer(m);
  bind_weights(m);
  py::class_<data::Sampler>(
      m, "Sampler",
      "Gives the global batches of a training: every epoch all samples in a new order, alike on all ranks.")
      .def(py::init([](int64_t samples, int64_t batch, uint64_t seed) {
             return data::Sampler({.samples = samples, .batch = batch, .seed = seed});
           }),
           "samples"_a, "batch"_a, "seed"_a = 0)
      .def_property_readonly("steps_per_epoch", &data::Sampler::steps_per_epoch)
      .def("next", &data::Sampler::next);
  m.def("train", &run_training, "arguments"_a, py::call_guard<py::gil_scoped_release>());
  m.def("run_program", &run_program, "arguments"_a, py::call_guard<py::gil_scoped_release>());
}

}  // namespace adjoin::python
