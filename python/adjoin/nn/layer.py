"""A layer of the library as a module of torch.nn."""

import copy

import torch

from .._adjoin import DistributedTensor
from .._errors import InvalidArgument


def placed(owner, x):
    """x, which must be a DistributedTensor."""
    if not isinstance(x, DistributedTensor):
        raise InvalidArgument(
            f"{type(owner).__name__}: expected a DistributedTensor, got a {type(x).__name__}; "
            "place it first: adjoin.place(x, layout, grid)"
        )
    return x


class Distributed(torch.nn.Module):
    """A module that takes and gives DistributedTensors."""

    def _refuse_hook(self, *_, **__):
        raise InvalidArgument(
            f"{type(self).__name__}: a backward hook of a layer on many workers would not be called; "
            "register one on x.local or y.local, or a forward hook"
        )

    register_full_backward_hook = register_full_backward_pre_hook = register_backward_hook = _refuse_hook


class OnWorkers(Distributed):
    """A module that holds an object of the library, which belongs to this process."""

    def __deepcopy__(self, memo):
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(self._own_copies(memo))
        for name, value in self.__dict__.items():
            if name not in copied.__dict__:
                copied.__dict__[name] = copy.deepcopy(value, memo)
        return copied

    def _own_copies(self, memo):
        return {}

    def __reduce_ex__(self, protocol):
        raise InvalidArgument(
            f"{type(self).__name__}: a layer on many workers cannot be pickled; save its state_dict() or adjoin.nn.gather_state(module)"
        )


class Layer(OnWorkers):
    """A layer whose input and output lie on any layouts, and which holds this rank's pieces of its parameters.

    The pieces are parameters and buffers like those of any module; those of another rank have no elements here. Weights are
    NaN until `adjoin.nn.initialize(module, seed)` or somebody else fills them. All ranks of the world call a layer, and all
    call backward.
    """

    def __init__(self, make):
        """`make` gives the library's layer; a deep copy makes its own."""
        super().__init__()
        self._make = make
        self._layer = make()
        self._pieces = self._layer.pieces()
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

    def _own_copies(self, memo):
        if not self._pieces:
            return {"_make": self._make}  # and the same layer of the library, which holds no tensors
        layer = self._make()
        pieces = layer.pieces()
        for piece, here in zip(pieces, self._tensors(), strict=True):
            if id(here) not in memo:  # else a tensor that another layer shares
                if not piece.is_buffer:
                    piece.tensor.__class__ = torch.nn.Parameter
                piece.tensor.data = here.detach().clone()
                memo[id(here)] = piece.tensor.requires_grad_(here.requires_grad)
        return {"_make": self._make, "_layer": layer, "_pieces": pieces}

    @property
    def pieces(self):
        """The layout of each parameter and buffer, by its name."""
        return {piece.name: piece.layout for piece in self._pieces}

    def own_pieces(self):
        """The parameters and buffers as pieces of global tensors."""
        return [piece.named(piece.name, self._tensor(piece.name)) for piece in self._pieces]

    def forward(self, x):
        return self._layer.forward(placed(self, x), self._tensors(), self.training)
