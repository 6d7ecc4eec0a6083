import adjoin
from distdl.nn.module import Layer


class Loss(Layer):
    """A loss of single elements of P_x. The first worker of P_x has its value, the others 0, which all can go back from."""

    twin = None
    _valid_reductions = ["none", "mean", "sum"]

    def __init__(self, P_x, reduction="mean"):
        super().__init__(P_x)
        if reduction not in self._valid_reductions:
            raise ValueError(f"expected a reduction of {self._valid_reductions}, got {reduction}")
        self.reduces = reduction != "none"
        where = self.where()
        if self.reduces:
            where["output"] = adjoin.nn.on_one_worker(P_x.ranks[0])
        self.hide(getattr(adjoin.nn, self.twin)(reduction=reduction, **where))

    def forward(self, x, target):
        value = self._hidden(self.place(x), self.place(target)).local
        return value.sum() if self.reduces else value


class DistributedL1Loss(Loss):
    twin = "L1Loss"


class DistributedMSELoss(Loss):
    twin = "MSELoss"


class DistributedPoissonNLLLoss(Loss):
    twin = "PoissonNLLLoss"


class DistributedBCELoss(Loss):
    twin = "BCELoss"


class DistributedBCEWithLogitsLoss(Loss):
    twin = "BCEWithLogitsLoss"


class DistributedKLDivLoss(Loss):
    twin = "KLDivLoss"
    _valid_reductions = ["none", "mean", "sum", "batchmean"]
