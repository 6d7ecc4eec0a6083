import adjoin
from distdl.nn.module import Module, balanced, joined


class Repartition(Module):
    """A tensor on any partition, in any parts, brought to balanced parts on another: adjoin's Move."""

    def __init__(self, P_x, P_y, buffer_manager=None, preserve_batch=True):
        super().__init__(P_x, P_y)
        if P_x.dim != P_y.dim:
            raise ValueError(f"expected partitions of equally many dims, got {P_x.dim} and {P_y.dim}")
        self.preserve_batch = preserve_batch

    def forward(self, x):
        """Raises: ValueError where a dim of size 1 is to be cut, or x has another number of dims than the partitions"""
        if self.learns(x):
            source = joined(self.P_x, self.shapes)
            if any(n == 1 and p > 1 for n, p in zip(source.shape, self.P_y.shape)):
                raise ValueError(f"expected no dim of size 1 that is cut, got {source.shape} over {self.P_y.shape}")
            target = balanced(self.P_y, source.shape)
            self._move = adjoin.Move(source, target, self.root.grid)
            plan = adjoin.plan_move(source, target, self.root.world.rank)
            self.P_x_to_y_overlaps = self._overlaps(plan.sends)
            self.P_y_to_x_overlaps = self._overlaps(plan.receives)
        if not (self.P_x.active or self.P_y.active):
            return x.clone()
        return self.given(self._move(self.held(x)), self.preserve_batch)

    def _overlaps(self, pieces):
        """Of each box that goes to or comes from another: where it begins, its sizes, and who that is."""
        me = self.root.world.rank
        return [(box.offset, box.sizes, "self" if box.peer == me else box.peer) for box in pieces]
