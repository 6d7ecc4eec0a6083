#include "adjoin/nn/rules/operation.hpp"

namespace adjoin::nn::rules {

Table layer_rules() {
  return {};
}

}  // namespace adjoin::nn::rules
