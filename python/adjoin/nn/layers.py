"""The layers. Each takes the arguments of its twin in torch.nn, and by keyword where its tensors lie."""

import functools
import inspect
import types

import torch

from .. import _adjoin
from .._errors import InvalidArgument
from .layer import Distributed, Layer, placed

_ELSEWHERE = ("self", "device", "dtype", "inplace")


def options_of(owner, twin, arguments, named):
    """The arguments of a twin's constructor by their names, with its defaults. Errors name `owner`'s class."""
    try:
        bound = inspect.signature(twin.__init__).bind(None, *arguments, **named)
    except TypeError as error:
        raise TypeError(f"{type(owner).__name__}.__init__() {error}") from None
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in _ELSEWHERE}


def _numbers(value):
    return list(value) if isinstance(value, (tuple, list, torch.Size)) else value


def check_grid(owner, grid):
    if not isinstance(grid, _adjoin.Grid):
        raise InvalidArgument(f"{type(owner).__name__}: expected an adjoin.Grid as grid, got a {type(grid).__name__}")


def with_own_name(layer):
    """Gives a class its own methods, so that errors of a call name it and not the class that it derives from."""
    for name in ("__init__", "forward"):
        inherited = getattr(layer, name)
        own = types.FunctionType(inherited.__code__, inherited.__globals__, name, inherited.__defaults__, inherited.__closure__)
        own.__kwdefaults__, own.__doc__, own.__qualname__ = inherited.__kwdefaults__, inherited.__doc__, f"{layer.__name__}.{name}"
        setattr(layer, name, own)
    return layer


class _OfTwin(Layer):
    """A layer with the options of `twin`.

    grid:   the workers that know the layer; all of its world make it
    weight: the Layout of the weight; unless given copied on the grid (of norms: replicated)
    output: where the output shall lie: a function of its shape that gives a Layout, or a Layout; unless given where it is made
    dtype:  of the parameters
    Raises InvalidArgument for options or layouts that do not fit.
    """

    twin = None

    def __init__(self, *arguments, grid, weight=None, output=None, dtype=torch.float32, **options):
        name = type(self).__name__
        options = {key: _numbers(value) for key, value in options_of(self, self.twin, arguments, options).items()}
        check_grid(self, grid)
        if options.get("return_indices"):
            raise InvalidArgument(f"{name}: return_indices is not supported")
        super().__init__(functools.partial(_adjoin.make_layer, name, options, grid, weight, output, dtype))
        self.options = options

    def extra_repr(self):
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


def _layer(name):
    twin = getattr(torch.nn, name)
    doc = f"torch.nn.{name} on any layouts.\n{_OfTwin.__doc__.split(chr(10), 1)[1]}"
    return with_own_name(type(name, (_OfTwin,), {"twin": twin, "__doc__": doc, "__module__": "adjoin.nn"}))


Linear = _layer("Linear")
Conv1d, Conv2d, Conv3d = _layer("Conv1d"), _layer("Conv2d"), _layer("Conv3d")
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = (_layer(f"ConvTranspose{d}d") for d in (1, 2, 3))
MaxPool1d, MaxPool2d, MaxPool3d = (_layer(f"MaxPool{d}d") for d in (1, 2, 3))
AvgPool1d, AvgPool2d, AvgPool3d = (_layer(f"AvgPool{d}d") for d in (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (_layer(f"AdaptiveMaxPool{d}d") for d in (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (_layer(f"AdaptiveAvgPool{d}d") for d in (1, 2, 3))
BatchNorm1d, BatchNorm2d, BatchNorm3d = (_layer(f"BatchNorm{d}d") for d in (1, 2, 3))
InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (_layer(f"InstanceNorm{d}d") for d in (1, 2, 3))
LayerNorm, GroupNorm, RMSNorm = _layer("LayerNorm"), _layer("GroupNorm"), _layer("RMSNorm")
Embedding, Flatten = _layer("Embedding"), _layer("Flatten")
Softmax, Softmin, LogSoftmax = _layer("Softmax"), _layer("Softmin"), _layer("LogSoftmax")
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_layer(f"ZeroPad{d}d") for d in (1, 2, 3))
ConstantPad1d, ConstantPad2d, ConstantPad3d = (_layer(f"ConstantPad{d}d") for d in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_layer(f"ReflectionPad{d}d") for d in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (_layer(f"ReplicationPad{d}d") for d in (1, 2, 3))
CircularPad1d, CircularPad2d, CircularPad3d = (_layer(f"CircularPad{d}d") for d in (1, 2, 3))


class Upsample(Layer):
    """torch.nn.Upsample on any layouts, also by nearest-exact.

    grid:   the workers that know the layer
    output: as of the other layers; unless given as the input lies, in balanced parts of space where its size changes
    """

    def __init__(self, *arguments, grid, output=None, **options):
        torch.nn.Module.__init__(self)
        self._make = self._layer = None  # one for each number of dims
        self._pieces = []
        self.options = options_of(self, torch.nn.Upsample, arguments, options)
        check_grid(self, grid)
        self._grid, self._output = grid, output
        self._of_dims = {}

    def forward(self, x):
        dims = len(placed(self, x).layout.shape) - 2
        if dims not in self._of_dims:  # one number stands for all dims of space
            options = dict(self.options)
            for name in ("size", "scale_factor"):
                value = options[name]
                if value is not None:
                    options[name] = list(value) if isinstance(value, (tuple, list)) else [value] * dims
            self._of_dims[dims] = _adjoin.make_layer("Upsample", options, self._grid, None, self._output, torch.float32)
        return self._of_dims[dims].forward(x, [], self.training)


class Dropout(Layer):
    """Sets elements to zero with probability p: the same ones in every layout, by the step that x carries.

    name: the layer's full name, by which its masks differ from those of others
    Raises InvalidArgument in training for an x without a step.
    """

    of_channels = False

    def __init__(self, p=0.5, *, name):
        super().__init__(functools.partial(_adjoin.make_dropout, p, name, self.of_channels))
        self.p, self.name = p, name

    def extra_repr(self):
        return f"p={self.p}, name='{self.name}'"


@with_own_name
class Dropout2d(Dropout):
    """Dropout of whole channels."""

    of_channels = True


@with_own_name
class Dropout3d(Dropout2d):
    """Dropout of whole channels."""


class Elementwise(Distributed):
    """An elementwise function, or a module without weights, as a layer.

    Raises InvalidArgument where the function changes the shape, or x is partial along an axis.
    """

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return placed(self, x).map(self.function)


class Sequential(Distributed, torch.nn.Sequential):
    """Layers that take and give a DistributedTensor, one after another."""


class MixtureOfExperts(Layer):
    """For each row of a tensor on any layout the sum of what top_k of several feed-forward layers make of it, times gates.

    Shape: [samples, *, features] -> the same. axis: the tensor-parallel axis; experts_axis: that over which experts are split.
    """

    def __init__(
        self, features, hidden_features, experts, top_k=1, *, grid, axis, activation="gelu", normalises_gates=True,
        balance_loss=0.0, z_loss=0.0, experts_axis="", output=None, dtype=torch.float32,
    ):  # fmt: skip
        options = dict(
            features=features, hidden_features=hidden_features, experts=experts, top_k=top_k, activation=activation,
            normalises_gates=normalises_gates, balance_loss=balance_loss, z_loss=z_loss, experts_axis=experts_axis, dtype=dtype,
        )  # fmt: skip
        check_grid(self, grid)
        super().__init__(functools.partial(_adjoin.make_experts, options, grid, axis, output))


class ColRow(Layer):
    """Two linear layers with an activation between them, whose hidden features stay split over an axis (Megatron's MLP).

    Shape: plain tensors [*, in_features] -> [*, out_features], the same on every rank of the axis.
    """

    register_full_backward_hook = torch.nn.Module.register_full_backward_hook
    register_full_backward_pre_hook = torch.nn.Module.register_full_backward_pre_hook
    register_backward_hook = torch.nn.Module.register_backward_hook

    def __init__(
        self, in_features, hidden_features, out_features, *, grid, axis, bias=True, activation="gelu", dropout=0.0, name="",
        dtype=torch.float32,
    ):  # fmt: skip
        options = dict(
            in_features=in_features, hidden_features=hidden_features, out_features=out_features, bias=bias, activation=activation,
            dropout=dropout, name=name, dtype=dtype,
        )  # fmt: skip
        check_grid(self, grid)
        super().__init__(functools.partial(_adjoin.make_col_row, options, grid, axis))

    def forward(self, x, step=None):
        return self._layer.forward(x, step if step is not None else _adjoin.Step())
