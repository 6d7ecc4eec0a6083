#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// How a weight's layout divides the work of a linear map between features. The work is done where the weight is: along one
/// axis the workers make different outputs, along another they read different inputs, along a third they take different rows,
/// which are parts of the batch or of space.
struct WorkDivision {
  GridShape grid;
  std::vector<std::string> out, in;  ///< the axes that cut the weight's output features and input features
  std::vector<std::string> rows;     ///< the axes along which it is copied
};

/// Throws: InvalidArgument, with the layer's name, where the weight is cut along another dim; also as check_piece
WorkDivision division_of(const std::string& layer, const Layout& weight, int64_t out_dim, int64_t in_dim);

/// A bias is added once: the first of the workers that make summands of one output has it. The layout is cut over the axes `in`
/// and `out`; of `in` only the first part has elements.
Layout bias_layout(const Layout& weight, const WorkDivision& division, const Split& outputs);

/// A row dim of the input and the output, and its window.
struct RowDim {
  int64_t dim = 0;
  Window window = {};
};

/// How the rows of the outputs are cut where the weight is.
struct RowCuts {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;  ///< for the axes that cut no row
};

/// The rows are cut as in the wanted output, if its cuts use all axes of `division.rows`; else as in the input, on the same
/// condition; else the first row dim is cut in balanced parts. Along an axis of rows on which the input is copied it stays
/// copied.
/// Throws: InvalidArgument where there are axes of rows and no dim
RowCuts cut_rows(const WorkDivision& division, const std::vector<RowDim>& dims, const Layout& input,
                 const std::optional<Layout>& wanted);

/// The layout of a tensor where the weight is: its rows cut by `rows`, its features by `features`, and with `kind` along the
/// axes of the weight's other features.
Layout work_layout(const WorkDivision& division, const RowCuts& rows, const std::vector<int64_t>& shape,
                   Layout::Cut features, const std::vector<std::string>& other_axes, Kind kind);

}  // namespace adjoin::nn
