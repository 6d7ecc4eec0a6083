"""Gradients that come back in one order on all ranks."""

import torch
from torch.autograd import forward_ad


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return together(*gradients)


def together(*tensors):
    """The same tensors, whose gradients go on only when all of them have come.

    Movements of several tensors are called in backward when their gradients are there, which may be in another order on a
    rank that holds nothing of one of them; ranks would then wait for each other. Behind this they are called in the order
    reverse to that of forward, on every rank. Derivatives in forward mode are carried:

        x, weight, bias = adjoin.together(x, adjoin.move(weight, …), adjoin.move(bias, …))
    """
    duals = [forward_ad.unpack_dual(x) for x in tensors]
    tangents = [dual.tangent for dual in duals if dual.tangent is not None]
    if not tangents:
        return _Together.apply(*tensors)
    primals, tangents = _Together.apply(*(dual.primal for dual in duals)), iter(together(*tangents))
    return tuple(x if dual.tangent is None else forward_ad.make_dual(x, next(tangents)) for x, dual in zip(primals, duals, strict=True))
