"""A whole torch.nn.Sequential on a grid."""

import functools
import inspect

import torch

from .. import _adjoin
from .._errors import InvalidArgument
from . import layers
from .layer import Layer
from .pieces import parameters_of

# Functions of each element for itself, without weights.
_ELEMENTWISE = tuple(
    getattr(torch.nn, name)
    for name in (
        "Identity", "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh",
        "Tanhshrink", "Hardtanh", "Hardshrink", "Hardsigmoid", "Hardswish", "Softplus", "Softshrink", "Softsign", "Threshold",
    )
)  # fmt: skip
_CHANNEL_NORMS = tuple(getattr(torch.nn, f"{kind}Norm{d}d") for kind in ("Batch", "Instance") for d in (1, 2, 3))
_SAMPLE_NORMS = (torch.nn.LayerNorm, torch.nn.GroupNorm)
_DROPOUTS = {torch.nn.Dropout: layers.Dropout, torch.nn.Dropout2d: layers.Dropout2d, torch.nn.Dropout3d: layers.Dropout3d}


def distributed(model, *, grid, batch=(), channels=(), space=()):
    """The same network on a grid, with the weights, buffers and names that the model has on rank 0 of the world.

    model:  a torch.nn.Sequential of layers that have a twin in adjoin.nn; sequences may stand within it
    batch, channels, space: the axes of the grid that cut the batch, the channels, and each dim of space
    Called by all ranks of the world with models of the same layers. Raises InvalidArgument on all of them for models that
    differ, for a layer that has no twin, and for hooks or a forward of its own, which its twin would not call, by name and
    place.
    """
    if type(model) is not torch.nn.Sequential:
        raise InvalidArgument(f"distributed: expected a torch.nn.Sequential, got a {type(model).__name__}")
    placement = _adjoin.NetworkPlacement(grid, list(batch), list(channels), [list(axes) for axes in space])
    placement.check_axes()
    _adjoin.check_agreement("distributed", _text_of(model), grid.world)
    net = _Twins(placement).sequence(model, "")
    state = {name: tensor.detach() for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    pieces = parameters_of(net)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for piece in pieces:
        if not piece.is_buffer:
            piece.tensor.requires_grad_(piece.name in trained)
    _adjoin.scatter_state(state, pieces, 0)
    return net


def _lost_of(module):
    """What a twin would not do that this module does, in words; None for a plain module."""
    for name, value in vars(module).items():
        if name.endswith("_hooks") and isinstance(value, dict) and value:
            return "hooks of the module"
        if callable(value) and callable(getattr(type(module), name, None)):
            return f"a {name} of its own"
    for name, parameter in module.named_parameters(recurse=False):
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            return f"hooks of '{name}'"
    return None


def _check_plain(module, place):
    lost = _lost_of(module)
    if lost is not None:
        what = f"layer '{place}'" if place else "the model"
        raise InvalidArgument(f"distributed: {what} has {lost}, which would be lost; give the result its hooks instead")


def _text_of(model):
    parts = [f"{name} has {_lost_of(module)}" for name, module in model.named_modules() if _lost_of(module)]
    for name, layer in model.named_modules():
        if name and not list(layer.children()):
            learns = "".join(" +" if p.requires_grad else " -" for p in layer.parameters())
            parts.append(f"{name} {layer!r}{' in training' if layer.training else ''}{learns}")
    return "; ".join(parts)


class _Twins:
    """The twins of a model's layers; of each once."""

    def __init__(self, placement):
        self.placement = placement
        self.known = {}
        self.owners = {}  # of each parameter, the place of its layer

    def sequence(self, model, prefix):
        _check_plain(model, prefix.removesuffix("."))
        net = layers.Sequential()
        net.train(model.training)
        for name, child in model._modules.items():
            net.add_module(name, self.of(child, prefix + name))
        return net

    def of(self, layer, place):
        if id(layer) not in self.known:
            self.known[id(layer)] = self.made(layer, place)
        return self.known[id(layer)]

    def made(self, layer, place):
        if type(layer) is torch.nn.Sequential:
            return self.sequence(layer, place + ".")
        _check_plain(layer, place)
        for parameter in layer.parameters():
            if self.owners.setdefault(id(parameter), place) != place:
                raise InvalidArgument(f"distributed: layers '{self.owners[id(parameter)]}' and '{place}' share a weight")
        try:
            twin = self.twin(layer, place)
        except InvalidArgument as error:
            raise InvalidArgument(f"distributed: layer '{place}': {error}") from None
        if twin is None:
            raise InvalidArgument(f"distributed: layer '{place}' is a {type(layer).__name__}, which has no distributed twin")
        return twin.train(layer.training)

    def twin(self, layer, place):
        kind = type(layer)
        if kind in _ELEMENTWISE:
            return layers.Elementwise(_out_of_place(layer))
        if kind in _DROPOUTS:
            return _DROPOUTS[kind](layer.p, name=place)
        if kind is torch.nn.Softmax2d:
            return layers.Softmax(dim=-3, grid=self.placement.grid)
        if kind.__module__.split(".")[:2] != ["torch", "nn"] or not hasattr(layers, kind.__name__):
            return None
        options = _options_of(layer)
        dtype = next((t.dtype for t in [*layer.parameters(), *layer.buffers()] if t.is_floating_point()), torch.float32)
        grid = self.placement.grid
        if kind is torch.nn.Upsample:
            return layers.Upsample(**options, grid=grid, output=lambda shape: self.placement.of_space(shape, len(shape) - 2))
        here = getattr(layers, kind.__name__)
        if kind is torch.nn.RMSNorm:
            return here(**options, grid=grid, dtype=dtype)
        if kind.__name__.startswith("CircularPad"):
            space = int(kind.__name__[-2])
            return here(**options, grid=grid, output=lambda shape: self.placement.of_space(shape, space))
        if kind in (*_CHANNEL_NORMS, *_SAMPLE_NORMS) and layer.weight is not None and layer.bias is None:  # torch's C++ always has one
            axes = self.placement.channels if kind in _CHANNEL_NORMS else []
            weight = _adjoin.Layout(grid, list(layer.weight.shape), {0: axes} if axes else {})
            return here(**options, grid=grid, weight=weight, dtype=dtype)
        made = here.__new__(here)
        Layer.__init__(made, functools.partial(_adjoin.twin, kind.__name__, options, dtype, self.placement, place))
        made.options = options
        return made


def _options_of(layer):
    """The arguments that a layer of torch.nn was made with, as it tells them."""
    options = {}
    for name in inspect.signature(type(layer).__init__).parameters:
        if name in ("self", "device", "dtype"):
            continue
        value = getattr(layer, name, None)
        if isinstance(value, (torch.Tensor, type(None))) and name in ("bias", "_weight"):
            value = value is not None if name == "bias" else None
        options[name] = list(value) if isinstance(value, (tuple, torch.Size)) else value
    if type(layer) is torch.nn.Embedding:
        options["_freeze"] = False
    return options


def _out_of_place(layer):
    """The layer as a function that does not write over its input, which may be another layer's output."""
    if not getattr(layer, "inplace", False):
        return layer
    own = type(layer)(**{**_options_of(layer), "inplace": False})
    return own.train(layer.training)
