import numpy as np

import adjoin


class HaloMixin:
    """What the pieces of a balanced tensor lack of what their windows read. `_window` gives the window of a dim."""

    def _compute_exchange_info(self, x_global_shape, kernel_size, stride, padding, dilation, partition_active,
                               partition_shape, partition_index):
        """Margins, what is received and sent there, [[left, right] of each dim], and the range of a piece with its margins
        that the windows read. Sizes of fewer dims than the tensor's are of its last ones. None of all where nobody is active.
        """
        if not partition_active:
            return None, None, None, None
        dims = len(x_global_shape)
        windows = [self._window(*sizes) for sizes in zip(*(
            [other] * (dims - len(given)) + [int(size) for size in given]
            for given, other in ((kernel_size, 1), (stride, 1), (padding, 0), (dilation, 1))))]
        halo, sent, read = [], [], []
        for window, n, parts, place in zip(windows, x_global_shape, partition_shape, partition_index):
            owned, lacks = self._halos(window, int(n), int(parts))
            left, right = (max(side, 0) for side in lacks[place])
            halo.append([left, right])
            sent.append([max(lacks[place - 1][1], 0) if place > 0 else 0,
                         max(lacks[place + 1][0], 0) if place + 1 < parts else 0])
            read.append([max(-lacks[place][0], 0), left + owned[place] + right])
        return np.array(halo), np.array(halo), np.array(sent), np.array(read)

    def _halos(self, window, inputs, parts):
        """Along one dim, how much each part owns, and lacks at its left and right: below 0 where it has more than it needs."""
        outputs = adjoin.Split.balanced(adjoin.outputs_of(window, inputs), parts, 0)
        owned = adjoin.Split.balanced(inputs, parts, 0)
        lacks = []
        for part in range(parts):
            begin, size = outputs.offset(part), outputs.size_of(part)
            first, last = adjoin.inputs_of(window, inputs, (begin, begin + size))
            end = owned.offset(part) + owned.size_of(part)
            lacks.append((owned.offset(part) - max(first, 0), min(last, inputs) - end))
        return owned.sizes, lacks
