"""The same random weights on every rank."""

from .. import _adjoin


def seeded(seed, make):
    """What `make()` returns, a module for instance, with the weights that torch's generator draws from this seed.

    It is the same on every rank and for every number of ranks, whatever other threads draw, and torch's generator continues as if it
    had not been called.
    """
    made = []
    _adjoin.with_seed(seed, lambda: made.append(make()))
    return made[0]
