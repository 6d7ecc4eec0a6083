#pragma once

#include <string>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// Why a run has failed, and what each of its ranks did last according to its flight record, as HTML. "" where there is no
/// record, or where the run has ended well or still goes on.
std::string failure_html(const Run& run);

}  // namespace adjoin::report
