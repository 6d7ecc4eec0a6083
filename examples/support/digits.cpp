#include "examples/support/digits.hpp"

#include <ATen/ATen.h>

#include <CLI/App.hpp>

#include <functional>

#include "adjoin/base/error.hpp"
#include "examples/support/drawn_digits.hpp"

namespace adjoin::example {

namespace {

void add_digits_options(CLI::App& app, DigitsOptions& options) {
  const std::function<void(const std::string&)> data = [&](const std::string& folder) {
    require(!folder.empty(), "--data is empty, expected a folder");
    options.data = folder;
  };
  app.add_option_function("--data", data, "Folder of MNIST's t10k files; without,\ndigits that the program draws")
      ->option_text("DIR");
  const std::function<void(const std::string&)> precision = [&](const std::string& text) {
    require(text == "fp32" || text == "fp64", [&] { return "--precision is " + text + ", expected fp32 or fp64"; });
    options.in_double = text == "fp64";
  };
  app.add_option_function("--precision", precision, "What is computed in [fp32]")->option_text("fp32|fp64");
  add_steps(app, options.steps, "Steps of 50 pictures [500, of drawn ones 100]");
}

}  // namespace

int run_on_digits(int argc, char** argv, const char* text,
                  const std::function<void(const Communicator&, const DigitsOptions&, Report&)>& work,
                  const std::function<void(CLI::App&)>& add_options) {
  DigitsOptions options;
  const auto add = [&](CLI::App& app) {
    add_digits_options(app, options);
    if (add_options) add_options(app);
  };
  return run(argc, argv, {.text = text, .add_options = add},
             [&](const Communicator& world, Report& report) { work(world, options, report); });
}

Digits Digits::chosen(const std::vector<int64_t>& indices) const {
  const at::Tensor those = at::tensor(indices, at::kLong);
  return {pictures.index_select(0, those), labels.index_select(0, those)};
}

DigitsToLearn read_digits(const DigitsOptions& options) {
  const LabelledPictures raw = options.data.empty() ? draw_digits(1000, /*seed=*/1) : load_mnist(options.data);
  require(raw.pictures.size(1) == 28 && raw.pictures.size(2) == 28 && raw.pictures.size(0) >= 5 * kDigitsOfStep, [&] {
    return options.data + ": expected at least " + std::to_string(5 * kDigitsOfStep) +
           " pictures of 28 x 28 pixels, got " + std::to_string(raw.pictures.size(0)) + " of " +
           std::to_string(raw.pictures.size(1)) + " x " + std::to_string(raw.pictures.size(2));
  });
  const auto type = options.in_double ? at::kDouble : at::kFloat;
  const Digits all{(raw.pictures.to(type).unsqueeze(1) / 255 - 0.13) / 0.31, raw.labels.to(at::kLong)};
  const int64_t to_train = all.size() * 4 / 5;
  return {all.part(0, to_train), all.part(to_train, all.size())};
}

void report_outcome(Report& report, double accuracy, const Digits& test, const std::vector<double>& losses) {
  report.line("%.2f %% of %ld other digits are right", 100 * accuracy, static_cast<long>(test.size()));
  report.value("test_accuracy", accuracy);
  report.value("losses", losses);
}

int64_t steps_of(const DigitsOptions& options) {
  return options.steps > 0 ? options.steps : options.data.empty() ? 100 : 500;
}

}  // namespace adjoin::example
