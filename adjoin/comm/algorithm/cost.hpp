#pragma once
namespace adjoin::algorithm {
struct Network {
  double alpha = 0;
  double beta = 0;
};
}  // namespace adjoin::algorithm
