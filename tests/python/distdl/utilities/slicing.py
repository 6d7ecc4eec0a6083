import numpy as np

import adjoin


def compute_subshape(P_shape, index, shape):
    """The shape of the piece at an index of a partition, of a tensor in balanced parts.

    Raises: ValueError where the three have not equally many dims
    """
    sizes, parts, at = (np.atleast_1d(numbers).astype(int).tolist() for numbers in (shape, P_shape, index))
    return np.array([adjoin.Split.balanced(n, p, 0).size_of(i) for n, p, i in zip(sizes, parts, at, strict=True)])
