"""The losses. Each takes the arguments of its twin in torch.nn, and by keyword the grid."""

import torch

from .. import _adjoin
from .layer import Layer
from .layers import options_of


class _Loss(torch.nn.Module):
    """A loss of an input and a target, each on any layout, with the options of `twin`.

    grid:   the workers on which the value is, unless `output` says otherwise
    output: a function of the value's shape that gives a Layout, as adjoin.nn.on_one_worker(rank); or a Layout
    Shape:  x, target -> [], with reduction "none" as the elements. All ranks call value.local.sum().backward().
    Raises InvalidArgument on all ranks where x and target do not fit.
    """

    twin = None

    def __init__(self, *arguments, grid, output=None, **options):
        super().__init__()
        options = options_of(self.twin, arguments, options)
        for name in ("size_average", "reduce"):
            options.pop(name, None)
        self._layer = _adjoin.make_loss(type(self).__name__, options, grid, output)

    def forward(self, x, target):
        return self._layer.loss(x, target)

    __reduce_ex__ = Layer.__reduce_ex__


def _loss(name):
    doc = f"torch.nn.{name} on any layouts.\n{_Loss.__doc__.split(chr(10), 1)[1]}"
    return type(name, (_Loss,), {"twin": getattr(torch.nn, name), "__doc__": doc, "__module__": "adjoin.nn"})


L1Loss, MSELoss, SmoothL1Loss, HuberLoss = _loss("L1Loss"), _loss("MSELoss"), _loss("SmoothL1Loss"), _loss("HuberLoss")
PoissonNLLLoss, BCELoss, BCEWithLogitsLoss = _loss("PoissonNLLLoss"), _loss("BCELoss"), _loss("BCEWithLogitsLoss")
KLDivLoss, NLLLoss, CrossEntropyLoss = _loss("KLDivLoss"), _loss("NLLLoss"), _loss("CrossEntropyLoss")
