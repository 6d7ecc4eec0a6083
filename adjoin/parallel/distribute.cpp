#include "adjoin/parallel/distribute.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <optional>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/parallel/gradient_hook.hpp"
#include "adjoin/parallel/sharded_pieces.hpp"

namespace adjoin::parallel {
namespace {

// ---- texts of cuts

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words{""};
  for (const char letter : text)
    if (letter != ' ')
      words.back() += letter;
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

/// One dim's cut: "inputs over tp and ep in 3 parts by 64".
struct DimCut {
  int64_t dim = 0, parts = 1, unit = 1;
  std::vector<std::string> axes;
};

class Reader {
 public:
  explicit Reader(const CutText& text) : text_(text) {}

  std::vector<DimCut> all() {
    std::vector<DimCut> cuts;
    for (size_t begin = 0; begin <= text_.size();) {
      const size_t end = std::min(text_.find(',', begin), text_.size());
      words_ = words_of(text_.substr(begin, end - begin));
      next_ = 0;
      if (!words_.empty() || begin > 0) cuts.push_back(one());
      begin = end + 1;
    }
    return cuts;
  }

 private:
  DimCut one() {
    static const std::map<std::string, int64_t> kDims{{"outputs", 0}, {"inputs", 1}, {"words", 0},   {"features", 1},
                                                      {"samples", 0}, {"tokens", 1}, {"channels", 0}};
    DimCut cut;
    const std::string name = word();
    if (const auto known = kDims.find(name); known != kDims.end())
      cut.dim = known->second;
    else if (name == "dim")
      cut.dim = number(0);
    else
      fail("\"outputs\", \"inputs\", \"words\", \"features\", \"samples\", \"tokens\" or \"dim N\"", name);
    take("over");
    cut.axes.push_back(word());
    while (is_next("and")) cut.axes.push_back(word());
    if (is_next("in")) {
      cut.parts = number(1);
      take(cut.parts == 1 ? "part" : "parts");
    }
    if (is_next("by")) cut.unit = number(1);
    if (next_ < words_.size()) fail("\"and\", \"in N parts\", \"by N\", or the end", words_[next_]);
    return cut;
  }
  std::string word() { return next_ < words_.size() ? words_[next_++] : fail("another word", "the end"); }
  bool is_next(const std::string& wanted) {
    const bool is = next_ < words_.size() && words_[next_] == wanted;
    if (is) ++next_;
    return is;
  }
  void take(const std::string& wanted) {
    if (!is_next(wanted)) fail("\"" + wanted + "\"", next_ < words_.size() ? words_[next_] : "the end");
  }
  int64_t number(int64_t least) {
    const std::string text = word();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least)
      fail("a number from " + std::to_string(least) + " on", text);
    return value;
  }
  [[noreturn]] std::string fail(const std::string& expected, const std::string& got) const {
    throw InvalidArgument("cut \"" + text_ + "\": expected " + expected + ", got " + got);
  }

  const std::string text_;
  std::vector<std::string> words_;
  size_t next_ = 0;
};

/// A dim that is `count` parts one after another, each of which is cut alike.
Split split_of(const DimCut& cut, int64_t size, int workers) {
  require(size % cut.parts == 0, [&] {
    return "cut: expected a dim that divides into " + std::to_string(cut.parts) + " parts, got one of size " +
           std::to_string(size);
  });
  const int64_t part = size / cut.parts;
  const Split one = Split::balanced(part, workers, cut.dim, cut.unit);
  std::vector<std::vector<Range>> ranges(static_cast<size_t>(workers));
  for (int worker = 0; worker < workers; ++worker)
    for (int64_t i = 0; i < cut.parts; ++i)
      for (const Range& range : one.ranges(worker))
        if (range.size() > 0)
          ranges[static_cast<size_t>(worker)].push_back({i * part + range.begin, i * part + range.end});
  return Split::of_ranges(std::move(ranges), size, cut.dim);
}

}  // namespace

Layout cut_layout(const CutText& cut, const std::vector<int64_t>& shape, const GridShape& grid, Kind kind) {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;
  for (const GridShape::Axis& axis : grid.axes()) kinds[axis.name] = kind;
  for (const DimCut& one : Reader(cut).all()) {
    int workers = 1;
    for (const std::string& axis : one.axes) {
      workers *= grid.axis_size(axis);
      require(kinds.erase(axis) == 1,
              [&] { return "cut \"" + cut + "\": expected each axis once, got " + axis + " again"; });
    }
    require(std::ranges::none_of(cuts, [&](const Layout::Cut& other) { return other.split.dim() == one.dim; }), [&] {
      return "cut \"" + cut + "\": expected each dim once, got dim " + std::to_string(one.dim) + " again";
    });
    if (workers == 1 || one.dim >= static_cast<int64_t>(shape.size())) {
      for (const std::string& axis : one.axes) kinds[axis] = kind;
      continue;
    }
    cuts.push_back({split_of(one, shape[static_cast<size_t>(one.dim)], workers), one.axes});
  }
  return Layout(grid, shape, std::move(cuts), std::move(kinds));
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> named;
  std::set<const c10::TensorImpl*> seen;
  const auto add = [&](const auto& tensors, bool is_buffer) {
    for (const auto& item : tensors)
      if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
        named.push_back({item.key(), item.value(), is_buffer});
  };
  add(module.named_parameters(), false);
  add(module.named_buffers(), true);
  return named;
}

bool pattern_names(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*')
    return pattern_names(pattern.substr(1), name) || (!name.empty() && pattern_names(pattern, name.substr(1)));
  return !name.empty() && pattern[0] == name[0] && pattern_names(pattern.substr(1), name.substr(1));
}

void check_patterns(const Cuts& cuts, const std::vector<NamedTensor>& tensors) {
  for (const auto& [pattern, cut] : cuts.weights)
    require(std::ranges::any_of(tensors, [&](const auto& tensor) { return pattern_names(pattern, tensor.name); }), [&] {
      return "distribute: expected patterns that name weights, got \"" + pattern + "\", which names none";
    });
}

Layout layout_by(const Cuts& cuts, const NamedTensor& tensor, const GridShape& grid) {
  const Kind kind = tensor.is_buffer ? Kind::replicated : Kind::copied;
  const std::vector<int64_t> shape = tensor.tensor.sizes().vec();
  std::optional<Layout> found;
  for (const auto& [pattern, cut] : cuts.weights) {
    if (!pattern_names(pattern, tensor.name)) continue;
    const Layout layout = cut_layout(cut, shape, grid, kind);
    require(!found || *found == layout, [&] {
      return "distribute: expected one cut of " + tensor.name + ", got \"" + cut + "\" of \"" + pattern +
             "\", and another before it";
    });
    found = layout;
  }
  return found ? *found : cut_layout("", shape, grid, kind);
}

std::vector<Layout> layouts_of(const std::vector<NamedTensor>& tensors, const GridShape& grid, const Cuts& cuts) {
  std::vector<Layout> layouts;
  for (const NamedTensor& tensor : tensors) layouts.push_back(layout_by(cuts, tensor, grid));
  check_patterns(cuts, tensors);
  return layouts;
}

class Distributed::State {
 public:
  State(const std::vector<NamedTensor>& named, const Grid& grid, Cuts cuts)
      : cuts_(std::move(cuts)), home_(global_grid(grid)) {
    for (const NamedTensor& tensor : named)
      require(!is_intercepted(tensor.tensor), [&] {
        return "distribute: expected plain parameters, got " + tensor.name + ", which is global or marked already";
      });
    const std::vector<Layout> layouts = layouts_of(named, grid.shape(), cuts_);
    for (const CutText& cut : cuts_.inputs) Reader(cut).all();
    const at::NoGradGuard no_gradient;
    for (size_t i = 0; i < named.size(); ++i) {
      const auto& [name, tensor, is_buffer] = named[i];
      const Layout from = nn::on_one_worker(0)(tensor.sizes().vec());
      const at::Tensor given = grid.world().rank() == 0 ? tensor.detach() : at::empty({0}, tensor.options());
      const at::Tensor piece = move(given, from, layouts[i], grid).clone();
      at::Tensor handle = tensor;
      lay_out(handle, {piece, layouts[i], grid});
      leaves_.push_back(handle);
      summed_.push_back(home_->interned(stored(layouts[i])));
      at::Tensor own = piece_of(handle).local;
      parameters_.push_back({name, own, layouts[i], grid, std::nullopt, is_buffer});
    }
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].requires_grad()) hooks_.emplace_back(leaves_[i], [this, i] { sum(i); });
  }

  /// After backward has added to a gradient.
  void sum(size_t i) {
    at::Tensor& gradient = leaves_[i].mutable_grad();
    if (!gradient.defined()) return;
    const at::NoGradGuard no_gradient;
    if (!gives_pieces_) {
      const Layout& summed = summed_[i];
      if (!is_global(gradient) || !(piece_of(gradient).layout == summed))
        gradient = global(moved(gradient, summed, *home_), summed, home_);
      return;
    }
    const at::Tensor here = moved(gradient, home_->dual(piece_of(leaves_[i]).layout), *home_);
    gradient = at::Tensor();
    if (sharded_)
      sharded_->add(i, here);
    else
      GradientHook::add(parameters_[i].tensor, here);
  }

  const std::vector<nn::Parameter>& trained(bool sharded) {
    require(!gives_pieces_ || sharded == sharded_.has_value(),
            "distribute: expected either `trained` or `shards` to be called, got both");
    if (gives_pieces_) return trained_;
    gives_pieces_ = true;
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].requires_grad()) parameters_[i].tensor.requires_grad_();
    if (sharded) {
      constexpr int64_t kUnitBytes = 1 << 20;
      sharded_.emplace(parameters_, kUnitBytes);
      parameters_ = sharded_->parameters();
    }
    std::ranges::copy_if(parameters_, std::back_inserter(trained_), is_trained);
    return trained_;
  }

  const Cuts cuts_;
  const std::shared_ptr<GlobalGrid> home_;
  std::vector<at::Tensor> leaves_;  // the module's own tensors, in the order of parameters_
  std::vector<Layout> summed_;      // of their gradients after the sum over copies
  std::vector<nn::Parameter> parameters_, trained_;
  bool gives_pieces_ = false;
  std::optional<ShardedPieces> sharded_;
  std::deque<GradientHook> hooks_;
};

Distributed::Distributed(const std::vector<NamedTensor>& tensors, const Grid& grid, Cuts cuts)
    : state_(std::make_unique<State>(tensors, grid, std::move(cuts))) {}
Distributed::~Distributed() = default;
Distributed::Distributed(Distributed&&) noexcept = default;
Distributed& Distributed::operator=(Distributed&&) noexcept = default;

void Distributed::begin(const Step& step, int64_t drawn) const {
  if (state_->sharded_) state_->sharded_->begin();
  state_->home_->step = step;
  state_->home_->drawn = drawn;
}

int64_t Distributed::drawn() const {
  return state_->home_->drawn;
}
std::shared_ptr<DrawsAlike> Distributed::draw_alike() const {
  return std::make_shared<DrawsAlike>(state_->home_);
}
std::shared_ptr<DrawsAgain> Distributed::draw_again(int64_t drawn) const {
  return std::make_shared<DrawsAgain>(state_->home_, drawn);
}

at::Tensor Distributed::input(const at::Tensor& whole, size_t index) const {
  if (index < state_->cuts_.inputs.size()) return laid_out(whole, state_->cuts_.inputs[index]);
  return whole.is_floating_point() ? laid_out(whole, "")
                                   : whole;  // global, so that dropout of it is alike in all layouts
}
at::Tensor Distributed::laid_out(const at::Tensor& whole, const CutText& cut) const {
  if (is_global(whole)) return whole;
  const std::shared_ptr<GlobalGrid>& home = state_->home_;
  const Layout layout = home->interned(cut_layout(cut, whole.sizes().vec(), home->grid.shape(), Kind::replicated));
  return global(moved(whole, layout, *home), layout, home);
}

const std::vector<nn::Parameter>& Distributed::parameters() const {
  return state_->parameters_;
}
const std::vector<nn::Parameter>& Distributed::trained() const {
  return state_->trained(/*sharded=*/false);
}
const std::vector<nn::Parameter>& Distributed::shards() const {
  return state_->trained(/*sharded=*/true);
}
void Distributed::release_whole() const {
  if (state_->sharded_) state_->sharded_->release();
}
const Grid& Distributed::grid() const {
  return state_->home_->grid;
}
const Cuts& Distributed::cuts() const {
  return state_->cuts_;
}

std::string Distributed::to_string() const {
  std::string text;
  for (const nn::Parameter& parameter : state_->parameters_)
    text += parameter.name + " " + parameter.layout.to_string() + "\n";
  return text;
}

}  // namespace adjoin::parallel
