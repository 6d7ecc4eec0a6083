"""A layer of the library as a module of torch.nn."""

import torch

from .._errors import InvalidArgument


class Layer(torch.nn.Module):
    """A layer whose input and output lie on any layouts, and which holds this rank's pieces of its parameters.

    The pieces are parameters and buffers like those of any module; those of another rank have no elements here. Weights are
    NaN until `adjoin.nn.initialize(module, seed)` or somebody else fills them. All ranks of the world call a layer, and all
    call backward.
    """

    def __init__(self, handle):
        super().__init__()
        self._layer = handle
        self._pieces = handle.pieces()
        for piece in self._pieces:
            self._register(piece)

    def _register(self, piece):
        *path, name = piece.name.split(".")
        owner = self
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        if piece.is_buffer:
            owner.register_buffer(name, piece.tensor)
        else:
            piece.tensor.__class__ = torch.nn.Parameter  # the tensor that the library computes with, not another one
            owner.register_parameter(name, piece.tensor)

    def _tensors(self):
        return [self._tensor(piece.name) for piece in self._pieces]

    def _tensor(self, full_name):
        owner = self
        for part in full_name.split("."):
            owner = getattr(owner, part)
        return owner

    @property
    def pieces(self):
        """The layout of each parameter and buffer, by its name."""
        return {piece.name: piece.layout for piece in self._pieces}

    def own_pieces(self):
        """The parameters and buffers as pieces of global tensors."""
        return [piece.named(piece.name, self._tensor(piece.name)) for piece in self._pieces]

    def forward(self, x):
        return self._layer.forward(x, self._tensors(), self.training)

    def __reduce_ex__(self, protocol):
        raise InvalidArgument(
            f"{type(self).__name__}: a layer on many workers cannot be pickled; save its state_dict() or adjoin.nn.gather_state(module)"
        )
