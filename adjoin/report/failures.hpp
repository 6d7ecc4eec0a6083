#pragma once

#include <string>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// Why a run has failed, and what each of its ranks did last, as its flight record has it: HTML. "" where there is no record, or
/// one of a run that has ended well or goes on.
std::string failure_html(const Run& run);

}  // namespace adjoin::report
