#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// How a weight's layout shares out the work of a linear map between features, which is done where the weight lies: its
/// workers along one axis make different outputs, read different inputs, or take different rows, that is parts of the
/// batch or of space.
struct Shares {
  GridShape grid;
  std::vector<std::string> out, in;  ///< the axes that cut the weight's output features, its input features
  std::vector<std::string> rows;     ///< those along which it is copied
};

/// Throws: InvalidArgument that names the layer where the weight is cut along another dim
Shares shares_of(const std::string& layer, const Layout& weight, int64_t out_dim, int64_t in_dim);

/// A bias is added once: of the workers that make summands of one output, the first has it. Cut over the axes `in` and
/// `out`, of which only the first part of `in` has elements.
Layout bias_layout(const Layout& weight, const Shares& shares, const Split& outputs);

/// A dim of rows, of the input and the output, and its window.
struct RowDim {
  int64_t dim = 0;
  Window window = {};
};

/// How the outputs of the rows are cut where the weight lies.
struct RowCuts {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;  ///< along the axes that cut no row
};

/// As the wanted output is cut over the axes of `shares.rows`, if that uses them all; else as the input is; else the
/// first row dim in balanced parts. Along an axis of rows along which the input is copied it stays so.
/// Throws: InvalidArgument where there are axes of rows and no dim
RowCuts cut_rows(const Shares& shares, const std::vector<RowDim>& dims, const Layout& input,
                 const std::optional<Layout>& wanted);

/// A tensor where the weight lies: its rows cut as said, its features by `features`, and of a kind along the axes of the
/// weight's other features.
Layout work_layout(const Shares& shares, const RowCuts& rows, const std::vector<int64_t>& shape, Layout::Cut features,
                   const std::vector<std::string>& other_axes, Kind kind);

}  // namespace adjoin::nn
