"""What Broadcast and SumReduce share: the pieces of a smaller partition, along the axes that a larger one has too."""

import itertools
import math

import adjoin
from distdl.nn.module import Module


class Arrangement:
    """A partition as a grid whose axes are named by their places from the end; transposed, from the beginning."""

    def __init__(self, partition, transposed):
        dims = range(partition.dim)
        self.sizes = {str(d if transposed else partition.dim - 1 - d): int(partition.shape[d]) for d in dims}
        self.shape = adjoin.GridShape(list(self.sizes.items()), partition.ranks)

    def cell_like(self, coordinates):
        """The cell at the coordinates of another arrangement, as far as both have more than one worker along an axis."""
        return self.shape.cell_at([min(coordinates.get(name, 0), size - 1) for name, size in self.sizes.items()])

    def coordinates(self, cell):
        return dict(zip(self.sizes, self.shape.coordinates(cell)))

    def flat(self, counts):
        """The layout of the elements of all cells' pieces, one behind another."""
        starts = [0, *itertools.accumulate(counts)]
        total = starts.pop()
        axes = [name for name, size in self.sizes.items() if size > 1]
        cuts = [(adjoin.Split.at(starts, total, 0), axes)] if axes else []
        return adjoin.Layout(self.shape, [total], cuts)


class Copies(Module):
    """A movement between the pieces of two partitions, whatever shapes they have."""

    def __init__(self, P_x, P_y, transpose_src=False, transpose_dest=False, preserve_batch=True):
        super().__init__(P_x, P_y)
        self.preserve_batch = preserve_batch
        self.source, self.target = Arrangement(P_x, transpose_src), Arrangement(P_y, transpose_dest)

    def forward(self, x):
        if self.learns(x):
            self.prepare()
            cell = self.target.shape.cell_of(self.root.world.rank)
            self.shape = None if cell is None else self.shape_at(cell)
        if not (self.P_x.active or self.P_y.active):
            return x.clone()
        y = self.moved(self.held(x).reshape(-1) if self.P_x.active else self.held(x))
        return self.given(y if self.shape is None else y.reshape(self.shape), self.preserve_batch)

    def shape_at(self, cell):
        """The shape of the pieces of P_x that come to a cell of P_y."""
        return self.shapes[self.source.cell_like(self.target.coordinates(cell))]

    def counts(self):
        """The elements of each piece of P_x."""
        return [math.prod(shape) for shape in self.shapes]
