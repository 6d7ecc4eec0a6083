"""What the layers share: they learn what the workers hold, and go from partitions to adjoin's layouts and back."""

import math

import torch

import adjoin

_DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.bool]
_MOST_DIMS = 8


def balanced(partition, shape):
    """The layout of a tensor in balanced parts: dim d over axis d of the partition."""
    shape = [int(size) for size in shape]
    cuts = [(adjoin.Split.balanced(n, int(p), d), [str(d)]) for d, (n, p) in enumerate(zip(shape, partition.shape))]
    return adjoin.Layout(partition.grid_shape, shape, cuts)


def joined(partition, shapes):
    """The layout of a tensor of which each cell of a partition holds a piece of the given shape.

    Raises: ValueError where pieces have not as many dims as the partition
    """
    dims = len(shapes[0])
    if dims != partition.dim:
        raise ValueError(f"expected a tensor of {partition.dim} dims, as its partition has, got one of {dims}")
    whole, cuts = [], []
    for d in range(dims):
        starts = [0]
        for place in range(partition.shape[d]):
            at = [place if axis == d else 0 for axis in range(dims)]
            starts.append(starts[-1] + shapes[partition.grid_shape.cell_at(at)][d])
        whole.append(starts.pop())
        cuts.append((adjoin.Split.at(starts, whole[d], d), [str(d)]))
    return adjoin.Layout(partition.grid_shape, whole, cuts)


class Module(torch.nn.Module):
    """A layer between two partitions of one root. All ranks of the root call it."""

    def __init__(self, P_x, P_y=None):
        super().__init__()
        self.P_x, self.P_y = P_x, P_x if P_y is None else P_y
        self.root = P_x.root
        self._seen = None

    def learns(self, x):
        """Learns at the first call what each cell of P_x holds: self.shapes and self.dtype. Returns whether it did.

        Raises: ValueError where x has another shape than at the first call
        """
        if self._seen is not None:
            if self._seen != x.shape:
                raise ValueError(f"expected an input of shape {list(self._seen)} as before, got {list(x.shape)}")
            return False
        self._seen = x.shape
        mine = [x.dim(), _DTYPES.index(x.dtype), *x.shape]
        all_of = self.gathered(mine + [0] * (_MOST_DIMS + 2 - len(mine)))
        of_cells = [all_of[rank] for rank in self.P_x.ranks]
        self.shapes = [row[2:2 + row[0]] for row in of_cells]
        self.dtype = _DTYPES[of_cells[0][1]]
        return True

    def gathered(self, numbers):
        """The same number of integers from each rank of the root, as lists."""
        return self.root.world.all_gather(torch.tensor(numbers, dtype=torch.int64)).tolist()

    def held(self, x):
        """x in the type that those who hold something have."""
        return x if self.P_x.active else x.to(self.dtype)

    def given(self, y, preserve_batch=True):
        """y as DistDL's layers give it: where P_y is not active without volume, with the batch size if that is kept."""
        if self.P_y.active:
            return y
        return y.reshape((self.shapes[0][0], 0) if preserve_batch else (0,))


class Layer(Module):
    """A module around one layer of adjoin: pieces of P_x in, balanced pieces of P_y out."""

    def place(self, x):
        """x as adjoin's: this worker's piece of the tensor that P_x holds."""
        if self.learns(x):
            self._layout = joined(self.P_x, self.shapes)
        return adjoin.DistributedTensor(self.held(x), self._layout, self.root.grid)

    def where(self):
        """What layers of adjoin are told of where they work."""
        return {"grid": self.root.grid, "output": lambda shape: balanced(self.P_y, shape)}

    def hide(self, layer):
        """Keeps a layer whose parameters are not this module's."""
        self.__dict__["_hidden"] = layer

    def forward(self, x):
        return self.given(self._hidden(self.place(x)).local)


def drawn(layer):
    """The layer with weight and bias as torch.nn draws them, between -1 and 1 over the root of the inputs of an output."""
    bound = 1 / math.sqrt(math.prod(layer.pieces["weight"].shape[1:]))
    for piece in adjoin.nn.parameters_of(layer):
        adjoin.nn.init.uniform_(piece, 1, -bound, bound)
    return layer


class Rooted:
    """A parameter that the first worker along some axes holds and the others use: broadcast forward, summed backward."""

    def __init__(self, module, name, used, initial, view=None):
        grid = used.grid
        for axis in used.axes("copied"):
            grid = grid.among(axis, [0])
        root = module.root
        cuts = [(split, axes) for split, axes in used.cuts if axes]
        self.home, self.used, self.grid = adjoin.Layout(grid, used.shape, cuts), used, root.grid
        self.module, self.name = module, name
        self.is_here = grid.cell_of(root.world.rank) is not None
        shape = self.home.shape_on(root.world.rank)
        if self.is_here and math.prod(shape) > 0:
            module.register_parameter(name, torch.nn.Parameter(initial.detach().reshape(view or shape).clone()))
        else:
            self.is_here = False
            module.register_buffer(name, torch.empty(0, requires_grad=True))

    def __call__(self):
        own = getattr(self.module, self.name)
        own = own.reshape(self.home.shape_on(self.module.root.world.rank))
        return adjoin.broadcast(own, self.home, self.used.grid, self.grid)
