"""Modules of PyTorch whose parameters are global tensors."""

import contextlib as _contextlib
import weakref as _weakref

import torch as _torch
import torch._tensor_str as _printing

from . import _adjoin
from ._errors import InvalidArgument
from .automatic import cut_of as _cut_of
from .automatic import tensors_of as _tensors_of

# What sums the gradients of a module's parameters lives as long as the module.
_of_modules = _weakref.WeakKeyDictionary()


def distribute(model, grid, cuts, inputs=None):
    """Lays an unchanged torch.nn.Module out on a grid: its parameters and buffers become global tensors, in place.

    `cuts` says by patterns of names, in which * stands for any text, how weights are cut: {"*.up.*": "outputs over tp",
    "*.down.weight": "inputs over tp by 64"}; all others are whole on every rank. `inputs` says how tensors are cut that the model
    is called with: a text for all of them, a list for the first, second, …, or {"input_ids": "samples over dp"} by their names. The
    Cuts that automatic finds say both.
    All ranks call it with modules alike and get rank 0's values. Returns a Distributed, which is called as the model is.
    Raises InvalidArgument, before anything moves, for a pattern that names nothing or a cut that does not fit.
    """
    if not isinstance(model, _torch.nn.Module):
        raise InvalidArgument(f"distribute: expected a torch.nn.Module, got a {type(model).__name__}")
    return Distributed(model, grid, cuts, getattr(cuts, "inputs", ()) if inputs is None else inputs)


class Distributed:
    """A module whose parameters and buffers are global tensors. The module can also be called itself, after begin()."""

    def __init__(self, model, grid, cuts, inputs):
        self._module, self._grid, self._inputs = model, grid, inputs
        self._laid_out = _of_modules[model] = _adjoin.Distributed(_tensors_of(model), grid, list(dict(cuts).items()))

    @property
    def module(self):
        """The module that was laid out."""
        return self._module

    @property
    def grid(self):
        """The grid on which its parameters lie."""
        return self._grid

    def __call__(self, *inputs, step=None, **named):
        """The module's own call, in a step by which its random operations draw (adjoin.Step)."""
        if step is not None:
            self.begin(step)
        cut = [self._cut(x, index, None) for index, x in enumerate(inputs)]
        named = {name: self._cut(x, len(inputs) + index, name) for index, (name, x) in enumerate(named.items())}
        with self._laid_out.draw_alike():
            return self.module(*cut, **named)

    forward = __call__

    def begin(self, step):
        """Begins a step: random operations draw by it and by their number since then."""
        self._laid_out.begin(step)

    def context_fn(self):
        """For torch.utils.checkpoint(..., use_reentrant=False, context_fn=...): what is computed again draws the same numbers."""
        return _contextlib.nullcontext(), self._laid_out.draw_again(self._laid_out.drawn)

    def laid_out(self, x, cut):
        """A tensor that all ranks have, as a global tensor cut as the text says."""
        return self._laid_out.laid_out(x, cut)

    def parameters(self):
        """The parameters and buffers as pieces, for save_state, load_state and nn.gather_state."""
        return self._laid_out.parameters()

    def trained(self):
        """The pieces that adjoin.Optimizer updates. From the first call on, backward adds gradients to them, not to the parameters."""
        return self._laid_out.trained()

    def shards(self):
        """The same in ZeRO's stage 3: each rank keeps only its shard of what others have copies of, and has it whole while it is read.

        From then on save and gather parameters(), not the module.
        """
        return self._laid_out.shards()

    def __repr__(self):
        return f"Distributed on {self.grid}:\n{self._laid_out!r}"

    def _cut(self, x, index, name):
        if not isinstance(x, _torch.Tensor):
            return x
        cut = _cut_of(self._inputs, index, name)
        if cut is None and not x.is_floating_point():
            return x
        return self.laid_out(x, cut or "")  # global, so that dropout of it is alike in all layouts


def _text_of(x, *, tensor_contents=None):
    """As torch prints a tensor; of a global one, this rank's piece, since to print all would take every rank."""
    if type(x) not in (_torch.Tensor, _torch.nn.Parameter) or not _adjoin.is_global(x):
        return _text_of_plain(x, tensor_contents=tensor_contents)
    piece = _adjoin.piece_of("", x)
    return f"global tensor {piece.layout}, of which this rank has\n{_text_of_plain(piece.tensor)}"


_text_of_plain = _printing._str
_printing._str = _text_of
