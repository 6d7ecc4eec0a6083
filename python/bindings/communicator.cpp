#include "adjoin/comm/communicator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Counts = std::vector<int64_t>;
using MaybeCounts = std::optional<Counts>;

Reduction reduction_named(const std::string& text) {
  for (int i = 0; i < kReductions; ++i)
    if (text == name(static_cast<Reduction>(i))) return static_cast<Reduction>(i);
  throw InvalidArgument("there is no reduction '" + text + "'; expected sum, product, min, max, average, bit_and, …");
}

/// A buffer that is only read.
ConstBuffer in(const char* operation, const Tensor& x) {
  check_plain(operation, x);
  return buffer(x);
}
/// Checks that a tensor may be written, and tells autograd that it is.
void note_overwritten(const char* operation, const Tensor& x) {
  check_plain(operation, x);
  require(!(x.requires_grad() && at::GradMode::is_enabled()), [&] {
    return std::string(operation) +
           ": expected a tensor that requires no gradient, because it is overwritten; use the movements, which have "
           "gradients";
  });
  if (!x.is_inference()) x.unsafeGetTensorImpl()->bump_version();
}
/// A buffer that is written.
Buffer out(const char* operation, const Tensor& x) {
  note_overwritten(operation, x);
  return buffer(x);
}
/// One of no elements, of x's type.
Buffer nothing_like(const char* operation, const Tensor& x) {
  check_plain(operation, x);
  return {nullptr, 0, element_type(x.scalar_type())};
}

/// An operation beside the caller: a Handle, or a send, and the tensors that it uses.
class Operation {
 public:
  Operation(std::variant<Handle, std::unique_ptr<Pending>> of, MaybeTensor result, std::vector<Tensor> uses)
      : uses_(std::move(uses)), result_(std::move(result)), of_(std::move(of)) {}

  MaybeTensor wait() {
    if (const auto* handle = std::get_if<Handle>(&of_))
      handle->wait();
    else
      std::get<std::unique_ptr<Pending>>(of_)->wait();
    return result_;
  }
  bool done() {
    const auto* handle = std::get_if<Handle>(&of_);
    return handle ? handle->done() : std::get<std::unique_ptr<Pending>>(of_)->done();
  }

 private:
  std::vector<Tensor> uses_;
  MaybeTensor result_;
  std::variant<Handle, std::unique_ptr<Pending>> of_;  // ends first, which waits
};

/// What a call gives: with a Communicator its result, with an AsyncCommunicator the operation.
template <class Group, class Make>
auto carried_out(const Group&, MaybeTensor result, std::vector<Tensor> uses, const Make& make) {
  if constexpr (std::is_same_v<Group, Communicator>) {
    make();
    return result;
  } else {
    return Owner<Operation>(new Operation(make(), std::move(result), std::move(uses)));
  }
}

/// The counts of a gather: those given, or as many of each rank as x has.
template <class Group>
Counts counts_of(const Group& g, const Tensor& x, const MaybeCounts& given) {
  return given ? *given : Counts(static_cast<size_t>(g.size()), x.numel());
}

/// Room for what is gathered: [ranks, *x.shape] where all ranks give alike, else flat.
template <class Group>
Tensor room_for(const Group& g, const Tensor& x, const MaybeCounts& counts) {
  if (counts)
    return at::empty({std::accumulate(counts->begin(), counts->end(), int64_t{0})}, x.options().requires_grad(false));
  std::vector<int64_t> shape = x.sizes().vec();
  shape.insert(shape.begin(), g.size());
  return at::empty(shape, x.options().requires_grad(false));
}

template <class Group, class Class>
void bind_collectives(Class& c) {
  using Self = const Group&;
  c.def(
      "barrier", [](Self g) { return carried_out(g, std::nullopt, {}, [&] { return g.barrier(); }); }, MayBlock(),
      "Waits until all ranks have come.");
  c.def(
      "broadcast",
      [](Self g, const Tensor& x, int root) {
        return carried_out(g, x, {x}, [&] { return g.broadcast(out("broadcast", x), root); });
      },
      "x"_a, "root"_a = 0, MayBlock(), "Gives all ranks the x of the root, in place, and returns it.");
  c.def(
      "all_reduce",
      [](Self g, const Tensor& x, const std::string& reduction) {
        return carried_out(g, x, {x}, [&] { return g.all_reduce(out("all_reduce", x), reduction_named(reduction)); });
      },
      "x"_a, "reduction"_a = "sum", MayBlock(),
      "Reduces x over the ranks, in place on all of them, and returns it.\n"
      "reduction: sum, product, min, max, average, bit_and, bit_or, bit_xor, logical_and, logical_or or logical_xor");
  c.def(
      "reduce",
      [](Self g, const Tensor& x, int root, const std::string& reduction, MaybeTensor result) {
        if (!result && g.rank() == root) result = at::empty_like(x, x.options().requires_grad(false));
        const Buffer into = result ? out("reduce", *result) : nothing_like("reduce", x);
        return carried_out(g, result, {x},
                           [&] { return g.reduce(in("reduce", x), into, reduction_named(reduction), root); });
      },
      "x"_a, "root"_a = 0, "reduction"_a = "sum", "out"_a = py::none(), MayBlock(),
      "Reduces x over the ranks; gives the result on the root, None elsewhere.\n"
      "out: where the root wants it; a new tensor unless given");
  c.def(
      "gather",
      [](Self g, const Tensor& x, int root, const MaybeCounts& given, MaybeTensor result) {
        const Counts counts = counts_of(g, x, given);
        if (!result && g.rank() == root) result = room_for(g, x, given);
        const Buffer into = result ? out("gather", *result) : nothing_like("gather", x);
        return carried_out(g, result, {x}, [&] { return g.gather(in("gather", x), into, counts, root); });
      },
      "x"_a, "root"_a = 0, "counts"_a = py::none(), "out"_a = py::none(), MayBlock(),
      "Gives the root the x of all ranks, None elsewhere.\n"
      "Shape: x -> [ranks, *x.shape]; with counts, the elements of each rank, [sum of counts]");
  c.def(
      "scatter",
      [](Self g, const MaybeTensor& x, const Tensor& result, int root, const MaybeCounts& given) {
        const Counts counts = counts_of(g, result, given);
        const ConstBuffer from = x ? in("scatter", *x) : ConstBuffer(nothing_like("scatter", result));
        return carried_out(g, result, {x.value_or(Tensor())},
                           [&] { return g.scatter(from, out("scatter", result), counts, root); });
      },
      "x"_a, "out"_a, "root"_a = 0, "counts"_a = py::none(), MayBlock(),
      "Gives each rank its block of the root's x, in out, which is returned.\n"
      "Shape: x [ranks, *out.shape] on the root; with counts, the elements of each rank, any of as many");
  c.def(
      "all_gather",
      [](Self g, const Tensor& x, const MaybeCounts& given, MaybeTensor result) {
        const Counts counts = counts_of(g, x, given);
        if (!result) result = room_for(g, x, given);
        return carried_out(g, result, {x},
                           [&] { return g.all_gather(in("all_gather", x), out("all_gather", *result), counts); });
      },
      "x"_a, "counts"_a = py::none(), "out"_a = py::none(), MayBlock(),
      "Gives all ranks the x of all.\n"
      "Shape: x -> [ranks, *x.shape]; with counts, the elements of each rank, [sum of counts]");
  c.def(
      "reduce_scatter",
      [](Self g, const Tensor& x, const Tensor& result, const std::string& reduction, const MaybeCounts& given) {
        const Counts counts = counts_of(g, result, given);
        return carried_out(g, result, {x}, [&] {
          return g.reduce_scatter(in("reduce_scatter", x), out("reduce_scatter", result), counts,
                                  reduction_named(reduction));
        });
      },
      "x"_a, "out"_a, "reduction"_a = "sum", "counts"_a = py::none(), MayBlock(),
      "Reduces x over the ranks and gives each its block, in out, which is returned.\n"
      "Shape: x [ranks, *out.shape]; with counts, the elements of each rank, any of as many");
  c.def(
      "all_to_all",
      [](Self g, const Tensor& x, MaybeTensor result, const MaybeCounts& sends, const MaybeCounts& receives) {
        const auto equal = [&] { return Counts(static_cast<size_t>(g.size()), x.numel() / g.size()); };
        const Counts send_counts = sends ? *sends : equal(), receive_counts = receives ? *receives : equal();
        if (!result) {
          const int64_t all = std::accumulate(receive_counts.begin(), receive_counts.end(), int64_t{0});
          result = receives ? at::empty({all}, x.options().requires_grad(false))
                            : at::empty_like(x, x.options().requires_grad(false));
        }
        return carried_out(g, result, {x}, [&] {
          return g.all_to_all(in("all_to_all", x), send_counts, out("all_to_all", *result), receive_counts);
        });
      },
      "x"_a, "out"_a = py::none(), "send_counts"_a = py::none(), "receive_counts"_a = py::none(), MayBlock(),
      "Gives rank p the p-th block of x, and returns what came, in the ranks' order.\n"
      "Shape: x -> the same, with equal blocks; with counts [sum of receive_counts]");
}

/// A message of Python: ("send" or "recv", tensor, peer) or with a tag behind; the tensor may be strided.
using PythonMessage = std::tuple<std::string, Tensor, int, int>;

template <class Group, class Class>
void bind_messages(Class& c) {
  using Self = const Group&;
  c.def(
      "send",
      [](Self g, const Tensor& x, int to, int tag) {
        return carried_out(g, std::nullopt, {x}, [&] { return g.send(in("send", x), to, tag); });
      },
      "x"_a, "to"_a, "tag"_a = 0, MayBlock(),
      "Sends x to a rank; ends when it was received. Ranks that both send first are in deadlock, which is told.");
  c.def(
      "recv",
      [](Self g, const Tensor& x, int from, int tag) {
        return carried_out(g, x, {x}, [&] { return g.recv(out("recv", x), from, tag); });
      },
      "out"_a, "source"_a, "tag"_a = 0, MayBlock(), "Receives into out what a rank sends, and returns it.");
  c.def(
      "sendrecv",
      [](Self g, const Tensor& x, int to, const Tensor& y, int from, int tag) {
        return carried_out(g, y, {x}, [&] { return g.sendrecv(in("sendrecv", x), to, out("sendrecv", y), from, tag); });
      },
      "x"_a, "to"_a, "out"_a, "source"_a, "tag"_a = 0, MayBlock(),
      "A send and a receive posted together: a ring of them does not deadlock. Returns out.");
  c.def(
      "exchange",
      [](Self g, const std::vector<PythonMessage>& given) {
        std::vector<Message> messages;
        std::vector<Tensor> uses;
        for (const auto& [kind, x, peer, tag] : given) {
          require(kind == "send" || kind == "recv",
                  "exchange: expected messages (\"send\" or \"recv\", tensor, peer, tag)");
          const bool sends = kind == "send";
          if (!sends) note_overwritten("exchange", x);
          const Tensor& used = uses.emplace_back(sends ? plain("exchange", x) : x);
          const Buffer memory{used.data_ptr(), used.numel(), element_type(used.scalar_type())};
          messages.push_back({sends ? Message::Kind::send : Message::Kind::receive, peer, memory, tag});
          if (!used.is_contiguous()) {
            messages.back().sizes = {used.sizes().data(), used.sizes().size()};
            messages.back().strides = {used.strides().data(), used.strides().size()};
          }
        }
        return carried_out(g, std::nullopt, uses, [&] { return g.exchange(messages); });
      },
      "messages"_a, MayBlock(),
      "Posts messages together, (\"send\" or \"recv\", tensor, peer, tag) each, of tensors of any strides.");
}

void bind_communicators(py::module_& m) {
  py::class_<Operation, Owner<Operation>>(m, "Handle",
                                          "An operation that goes on beside its rank. Its end waits for it.")
      .def("wait", &Operation::wait, MayBlock(),
           "Returns the result when the operation is done, or raises what it has raised.")
      .def("done", &Operation::done, "Whether the operation has ended.");

  py::class_<AsyncCommunicator, Owner<AsyncCommunicator>> stream(
      m, "AsyncCommunicator",
      "The operations of a Communicator, each of which returns at once with a Handle. They run in the order of their "
      "calls.");
  stream.def_property_readonly("rank", &AsyncCommunicator::rank)
      .def_property_readonly("size", &AsyncCommunicator::size);
  bind_collectives<AsyncCommunicator>(stream);
  bind_messages<AsyncCommunicator>(stream);

  py::class_<Communicator, Owner<Communicator>> group(
      m, "Communicator",
      "One rank's handle on one group of ranks. Communicator() is a group of this rank alone.\nTensors are dense ones "
      "on the CPU, contiguous; collectives are called by all ranks in one order, with arguments that agree.\nRaises "
      "InvalidArgument before anything is sent; CommunicationError where the world was ended.");
  group.def(py::init<>())
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("checked", &Communicator::checked)
      .def_property_readonly("world_ranks",
                             [](const Communicator& g) {
                               const auto ranks = g.world_ranks();
                               return std::vector<int>(ranks.begin(), ranks.end());
                             })
      .def(
          "isend",
          [](const Communicator& g, const Tensor& x, int to, int tag) {
            return Owner<Operation>(new Operation(g.isend(in("isend", x), to, tag), std::nullopt, {x}));
          },
          "x"_a, "to"_a, "tag"_a = 0, MayBlock(), "A send beside this rank, which waits for it later by wait().")
      .def(
          "split", [](const Communicator& g, int color, int key) { return g.split(color, key); }, "color"_a,
          "key"_a = 0, MayBlock(),
          "Groups by color, ordered by key and then rank; called by all ranks. A negative color gives None.")
      .def(
          "subset", [](const Communicator& g, const std::vector<int>& ranks) { return g.subset(ranks); }, "ranks"_a,
          MayBlock(), "The group of some ranks of this one, in that order; called by its members only.")
      .def("for_thread", &Communicator::for_thread,
           "This group for another thread of this rank: a communicator belongs to the thread that uses it first.")
      .def(
          "stream", [](const Communicator& g) { return g.stream(); }, MayBlock(),
          "The same operations beside this rank: each returns a Handle. Called by all ranks.")
      .def(
          "abort", [](const Communicator& g, const std::string& reason) { g.abort(reason); }, "reason"_a, MayBlock(),
          "Ends every rank of the world: blocked and later calls raise CommunicationError.")
      .def(
          "with_algorithm",
          [](const Communicator& g, const std::string& collective, const std::string& algorithm, int64_t chunk) {
            const auto named = collective_named(collective);
            require(named.has_value(), [&] { return "with_algorithm: there is no collective '" + collective + "'"; });
            return g.with_algorithm(*named, algorithm, chunk);
          },
          "collective"_a, "algorithm"_a, "chunk"_a = 0, MayBlock(),
          "This group with a collective carried out by an algorithm: tree, ring, …, or auto. Called alike by all "
          "ranks.")
      .def("deterministic", &Communicator::deterministic, MayBlock(),
           "This group with reductions of the same bits on threads and MPI. Called by all ranks.")
      .def("__repr__", [](const Communicator& g) {
        return "Communicator(rank " + std::to_string(g.rank()) + " of " + std::to_string(g.size()) + ")";
      });
  bind_collectives<Communicator>(group);
  bind_messages<Communicator>(group);
}

}  // namespace

void bind_communicator(py::module_& m) {
  bind_communicators(m);
}

}  // namespace adjoin::python
