"""The losses. Each takes the arguments of its twin in torch.nn, and by keyword the grid."""

import torch

from .. import _adjoin
from .layer import OnWorkers, placed
from .layers import check_grid, options_of, with_own_name


class _Loss(OnWorkers):
    """A loss of an input and a target, each on any layout, with the options of `twin`.

    grid:   the workers on which the value is, unless `output` says otherwise
    output: a function of the value's shape that gives a Layout, as adjoin.nn.on_one_worker(rank); or a Layout
    Shape:  x, target -> [], with reduction "none" as the elements. All ranks call value.local.sum().backward().
    Raises InvalidArgument on all ranks where x and target do not fit.
    """

    twin = None

    def __init__(self, *arguments, grid, output=None, **options):
        super().__init__()
        options = options_of(self, self.twin, arguments, options)
        check_grid(self, grid)
        for name in ("size_average", "reduce"):
            options.pop(name, None)
        self._layer = _adjoin.make_loss(type(self).__name__, options, grid, output)

    def forward(self, x, target):
        return self._layer.loss(placed(self, x), placed(self, target))


def _loss(name):
    doc = f"torch.nn.{name} on any layouts.\n{_Loss.__doc__.split(chr(10), 1)[1]}"
    return with_own_name(type(name, (_Loss,), {"twin": getattr(torch.nn, name), "__doc__": doc, "__module__": "adjoin.nn"}))


L1Loss, MSELoss, SmoothL1Loss, HuberLoss = _loss("L1Loss"), _loss("MSELoss"), _loss("SmoothL1Loss"), _loss("HuberLoss")
PoissonNLLLoss, BCELoss, BCEWithLogitsLoss = _loss("PoissonNLLLoss"), _loss("BCELoss"), _loss("BCEWithLogitsLoss")
KLDivLoss, NLLLoss, CrossEntropyLoss = _loss("KLDivLoss"), _loss("NLLLoss"), _loss("CrossEntropyLoss")
