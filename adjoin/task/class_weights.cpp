#include "adjoin/task/class_weights.hpp"

#include <string>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/samples.hpp"

namespace adjoin::train {
namespace {

constexpr const char* kBalanced = "balanced";
constexpr double kLeast = 1.2e-38;  // smaller numbers lose precision in float32, and at last are 0
constexpr double kMost = 1e9;
constexpr size_t kMostNames = 10;  // in a message

}  // namespace

std::vector<double> listed_class_weights(const Configuration& configuration) {
  const std::string& text = configuration.class_weights;
  std::vector<double> weights;
  if (text.empty() || text == kBalanced) return weights;
  const std::vector<std::string_view> items = items_of(text);
  for (const std::string_view item : items) {
    double weight = 0;
    try {
      weight = number_from<double>(item, "--class-weights: a weight");
    } catch (const InvalidArgument& error) {
      if (items.size() > 1) throw;
      throw InvalidArgument("--class-weights is " + text + ", expected \"" + kBalanced +
                            "\" or a number for each class, as 1,2.5");
    }
    require(!(weight > 0 && weight < kLeast), [&] {
      return "--class-weights: a weight is " + std::string(item) + ", expected at least " + shown(kLeast) +
             ", as the loss is computed in float32";
    });
    require(weight > 0 && weight <= kMost, [&] {
      return "--class-weights: a weight is " + std::string(item) + ", expected a number above 0 and up to " +
             shown(kMost);
    });
    weights.push_back(weight);
  }
  return weights;
}

std::vector<double> class_weights(const Configuration& configuration, const data::ClassNames& classes,
                                  const data::TokenStore& train) {
  std::vector<double> weights = listed_class_weights(configuration);
  const auto count = static_cast<size_t>(classes.size());
  require(weights.empty() || weights.size() == count, [&] {
    return "--class-weights " + configuration.class_weights + ": expected " + counted(classes.size(), "weight") +
           ", of " + data::listed(classes.names(), kMostNames) + ", got " + std::to_string(weights.size());
  });
  if (configuration.class_weights != kBalanced) return weights;
  std::vector<int64_t> samples(count);
  for (int64_t i = 0; i < train.size(); ++i) ++samples[static_cast<size_t>(train.label(i))];
  for (const int64_t of_class : samples)  // no sample asks for the weight of a class without any
    weights.push_back(
        of_class == 0 ? 1 : static_cast<double>(train.size()) / static_cast<double>(std::ssize(samples) * of_class));
  return weights;
}

}  // namespace adjoin::train
