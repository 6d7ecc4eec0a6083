"""What concerns a graph of autograd: its check, and segments that are computed again."""

from . import _adjoin
from ._adjoin import DistributedTensor
from .nn.pieces import pieces_of


def check_gradients(loss, of, inputs, grid, loss_kinds=None):
    """Between forward and backward: reports what would give a parameter another gradient than on one rank, by its name.

    of:     the module, or its pieces
    inputs: by their names DistributedTensors, or (tensor, kinds): a Layout, or the kind along each axis; where the graph computes
            such a tensor, its kinds must agree
    loss_kinds: "replicated" or "split" along an axis, where the loss must be that
    Sends nothing. Within adjoin.ForwardRecord() it also sees segments that are computed again, and what layers say.
    Raises InvalidArgument that names the axis, the operation, the parameter or the movement, and says what to write.
    """
    known = []
    for name, given in dict(inputs).items():
        if isinstance(given, DistributedTensor):
            known.append((name, given.local, given.layout, given.grid.world))
        else:
            known.append((name, *given, grid.world))
    _adjoin.check_gradients(loss, pieces_of(of), known, grid, dict(loss_kinds or {}))


def recomputed(f, *inputs):
    """f(*inputs), of which only the inputs are kept until backward: there f is computed again.

    inputs: 1 to 3 tensors or DistributedTensors; f returns one of either, the same each time, and draws no numbers of its own
    Other tensors that f uses, as a module's parameters, get their gradients too. Once differentiable; not nested.
    """
    results = []

    def of_tensors(tensors):
        given = [
            DistributedTensor(tensor, x.layout, x.grid, x.step) if isinstance(x, DistributedTensor) else tensor
            for tensor, x in zip(tensors, inputs, strict=True)
        ]
        y = f(*given)
        if not isinstance(y, DistributedTensor):
            return y
        results[:] = [(y.layout, y.grid, y.step)]
        return y.local

    y = _adjoin.recomputed(of_tensors, [x.local if isinstance(x, DistributedTensor) else x for x in inputs])
    return DistributedTensor(y, *results[0]) if results else y
