"""The same random weights on every rank."""

from .. import _adjoin


def seeded(seed, make):
    """What `make()` returns, a module for instance, with the weights that torch's generator draws from this seed.

    It is the same on every rank and for every number of ranks, and the generator then continues as if it had not been called.
    Ranks that are threads share the generator and take turns, so `make` must not communicate.
    """
    made = []
    _adjoin.with_seed(seed, lambda: made.append(make()))
    return made[0]
