import math

import adjoin
from distdl.nn.copies import Copies


class SumReduce(Copies):
    """Sums the pieces of P_x along the axes on which P_y has one worker."""

    def prepare(self):
        self.layout = self.target.flat([math.prod(self.shape_at(cell)) for cell in range(self.P_y.size)])

    def moved(self, x):
        return adjoin.sum_reduce(x, self.source.shape, self.layout, self.root.grid)
