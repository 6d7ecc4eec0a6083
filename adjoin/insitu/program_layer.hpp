#pragma once

#include "adjoin/insitu/layers.hpp"

namespace adjoin::insitu {

/// Makes a layer of a network that Python exported ("file"): from [batch, channels, *space] to one such tensor. Its operations run on the
/// solver's blocks by their rules (rules), which may move more than halos. Called by all ranks.
/// Throws: InvalidArgument on all ranks alike, for a file that one of them cannot read or that is not the same, other inputs than the
///         layer reads, and sizes of the output that the file does not say
void make_program(const Fields& fields, const LayerSite& site, Node& node);

/// A global tensor that was computed from x, on the blocks.
DistributedTensor on_blocks(const at::Tensor& y, const nn::LayoutRule& rule, const DistributedTensor& x);

}  // namespace adjoin::insitu
