"""The search for the cuts of a module of PyTorch."""

import json as _json

import torch as _torch

from . import _adjoin
from ._errors import InvalidArgument


class Cuts(dict):
    """Cuts of weights by patterns of their names, a dict, and of `inputs`: as distribute takes them, which takes both from here.

    It prints as it is written in Python, to be read, edited and pasted.
    """

    inputs = ()

    def __init__(self, weights=(), inputs=()):
        super().__init__(weights)
        self.inputs = inputs

    def __repr__(self):
        weights = ",\n      ".join(f"{_json.dumps(name)}: {_json.dumps(cut)}" for name, cut in self.items())
        return f"Cuts({{{weights}}},\n     inputs={self.inputs!r})"


def automatic(model, grid, example, inputs=(), *, weights_over=(), move=None, computed=0.1):
    """Finds where the weights of an unchanged torch.nn.Module are to be cut: Cuts for distribute.

    It sends nothing and leaves the model as it is: every rank that calls it finds the same, and so does a program without ranks.

    `grid` is a Grid or a GridShape. `example` is what the model is called with: a tensor, a tuple of arguments, or a dictionary of
    named ones, of the shapes with which it will train. `inputs` has the form that distribute takes; in the place of a text may be a
    list of texts, of which one is chosen: {"input_ids": "samples over dp", "pixels": ["", "dim 2 over x"]}. `weights_over` are the
    axes over which weights may be cut, all if it is empty. `move(source, target, element_bytes)` is the cost of a move between two
    layouts, forward and back, by default its bytes; `computed` that of a byte that is computed, in the same unit.
    Raises InvalidArgument for a model that does not compute the example, and for texts or axes that do not fit.
    """
    if not isinstance(model, _torch.nn.Module):
        raise InvalidArgument(f"automatic: expected a torch.nn.Module, got a {type(model).__name__}")
    arguments, named = _call_of(example)
    keys = list(range(len(arguments))) + list(named)
    of_inputs = {}
    for index, (key, x) in enumerate(zip(keys, (*arguments, *named.values()), strict=True)):
        if isinstance(x, _torch.Tensor):
            choices = _choices_of(inputs, index, key)
            if choices or x.is_floating_point():  # whole integers stay plain, as in distribute
                of_inputs[key] = x, choices

    def code():
        model(*arguments, **named)

    tensors, choices = [x for x, _ in of_inputs.values()], [texts for _, texts in of_inputs.values()]
    weights, cut = _adjoin.automatic(tensors_of(model), grid, tensors, choices, code, list(weights_over), move, computed)
    found = {key: text for key, text in zip(of_inputs, cut) if text}  # noqa: B905: those behind the last cut one are left out
    return Cuts(weights, found if named else [found.get(i) for i in range(max(found, default=-1) + 1)])


def tensors_of(model):
    """The name of each parameter and buffer, the tensor, and whether it is a buffer."""
    tensors = [(name, tensor, False) for name, tensor in model.named_parameters()]
    return tensors + [(name, tensor, True) for name, tensor in model.named_buffers()]


def cut_of(inputs, index, name):
    """What `inputs` says of the tensor that is argument `index`, or has this name; None where it says nothing."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, dict):
        return inputs.get(name)
    return inputs[index] if index < len(inputs) else None


def _choices_of(inputs, index, key):
    cut = cut_of(inputs, index, key)
    return [] if cut is None else [cut] if isinstance(cut, str) else list(cut)


def _call_of(example):
    if isinstance(example, dict):
        return (), dict(example)
    return (example,) if isinstance(example, _torch.Tensor) else tuple(example), {}
