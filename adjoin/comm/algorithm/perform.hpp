#pragma once

#include <span>
#include <string_view>

#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::algorithm {

/// Carries a collective out on `backend`, with messages by exchange alone; `algorithm` is one of names_of or "auto", for
/// which the rule table is asked. Every rank of the group calls it with the same request.
void perform(Request request, std::string_view algorithm, Backend& backend, ConstBuffer in, Buffer out,
             Reduction reduction = Reduction::sum);

/// The same for an all_to_all, of which a rank knows its own counts only. Bruck first gathers those of all, by Bruck's
/// all-gather: P numbers of each rank.
void perform_all_to_all(std::string_view algorithm, Backend& backend, ConstBuffer in,
                        std::span<const int64_t> send_counts, Buffer out, std::span<const int64_t> receive_counts);

}  // namespace adjoin::algorithm
