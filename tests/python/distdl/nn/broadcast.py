import adjoin
from distdl.nn.copies import Copies


class Broadcast(Copies):
    """Copies each piece of P_x along the axes of P_y on which P_x has one worker."""

    def prepare(self):
        self.layout = self.source.flat(self.counts())

    def moved(self, x):
        return adjoin.broadcast(x, self.layout, self.target.shape, self.root.grid)
