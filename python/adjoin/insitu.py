"""The networks that solvers train in situ (docs/in-situ.md), as modules of PyTorch."""

import json

import torch
from torch import nn
from torch.nn import functional as F

_FUNCTIONS = {"relu": F.relu, "leakyrelu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus,
              "sigmoid": torch.sigmoid, "tanh": torch.tanh, "identity": lambda x: x}
_NORMS = {"batchnorm": (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
          "instancenorm": (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)}


def network(description, *, dims, order="rows", dtype=torch.float32):
    """The module that `description` (JSON, or a dict of it) describes to adjoin.h, for inputs [batch, channels, *space].

    `dims`: of space. `order`: "rows" for the lists of a solver in C, "columns" for those of one in Fortran, whose u(x, y, z) is
    [batch, channels, z, y, x] here. The modules' names and shapes are those of the weights that a solver saves.
    """
    return Network(json.loads(description) if isinstance(description, str) else description, dims, order, dtype)


class Network(nn.Module):
    """The module that `network` gives."""

    def __init__(self, description, dims, order, dtype):
        super().__init__()
        if order not in ("rows", "columns"):
            raise ValueError(f"order: expected 'rows' or 'columns', got {order!r}")
        self._dims, self._reverses = dims, order == "columns"
        edges = self._edges(description.get("padding", "zeros"))
        channels = {"input": description["inputs"]}
        self._layers, before = [], "input"
        for number, layer in enumerate(description["layers"]):
            layer = {"type": layer} if isinstance(layer, str) else dict(layer)
            name, of = layer.get("name", str(number)), layer.get("of", before)
            of = [of] if isinstance(of, str) else list(of)
            module, channels[name] = self._made(layer, [channels[one] for one in of], edges)
            if isinstance(module, nn.Module):
                self.add_module(name, module.to(dtype) if not isinstance(module, _Normalise) else module)
            self._layers.append((name, of, layer.get("like"), module))
            before = name
        self.train()

    def forward(self, x):
        made = {"input": x}
        for name, of, like, module in self._layers:
            inputs = [made[one] for one in of]
            made[name] = module(*inputs, made[like].shape[2:]) if like is not None else module(*inputs)
        return made[self._layers[-1][0]]

    def load(self, path):
        """Reads the weights of a file that adjoin_network_save wrote; needs the package safetensors. Returns the network."""
        from safetensors.torch import load_file
        saved = load_file(path)
        self.load_state_dict({name: saved[name] for name in self.state_dict() if name in saved})
        return self

    def _per_dim(self, value):
        values = list(value) if isinstance(value, list) else [value] * self._dims
        return values[::-1] if self._reverses else values

    def _edges(self, padding):
        pairs = [one if isinstance(one, list) else [one, one] for one in self._per_dim(padding)]
        return [tuple(pair) for pair in pairs]

    def _made(self, layer, inputs, edges):
        """What applies a layer, and its channels."""
        kind, channels = layer["type"], inputs[0]
        if kind in _FUNCTIONS:
            return _FUNCTIONS[kind], channels
        if kind == "add":
            return lambda *x: sum(x[1:], x[0]), channels
        if kind == "cat":
            return lambda *x: torch.cat(x, 1), sum(inputs)
        if kind == "linear" and "dim" in layer:
            dim = self._dims - 1 - layer["dim"] if self._reverses else layer["dim"]
            return _Along(2 + dim, layer["out"], layer.get("bias", True)), channels
        if kind == "program":
            return _program(layer["file"])
        if kind in ("conv", "linear", "up"):
            default = {"conv": 3, "linear": 1, "up": 2}[kind]
            kernel = self._per_dim(layer.get("kernel", default))
            shape = (channels, layer["out"], layer.get("groups", 1), kernel, layer.get("bias", True))
            if kind == "up":
                return _Up(*shape), layer["out"]
            if "padding" in layer:
                edges = self._edges(layer["padding"])
            return _Conv(*shape, self._per_dim(layer.get("stride", 1)), self._per_dim(layer.get("dilation", 1)), edges), layer["out"]
        if kind in ("avgpool", "maxpool"):
            pools = {"avgpool": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d), "maxpool": (F.max_pool1d, F.max_pool2d, F.max_pool3d)}
            pool, kernel = pools[kind][self._dims - 1], self._per_dim(layer.get("kernel", 2))
            return lambda x: pool(x, kernel), channels
        if kind == "upsample":
            mode = layer.get("mode", "nearest")
            options = {} if mode == "nearest" else {"align_corners": False}
            mode, factor = mode if mode == "nearest" else ("linear", "bilinear", "trilinear")[self._dims - 1], self._per_dim(layer.get("factor", 2))
            return lambda x, size=None: F.interpolate(
                x, size=list(size) if size is not None else [n * f for n, f in zip(x.shape[2:], factor)], mode=mode, **options), channels
        if kind in _NORMS:
            more = {"momentum": layer.get("momentum", 0.1)}
            return _NORMS[kind][self._dims - 1](channels, eps=layer.get("eps", 1e-5), affine=layer.get("affine", kind == "batchnorm"), **more), channels
        if kind == "groupnorm":
            return nn.GroupNorm(layer["groups"], channels, eps=layer.get("eps", 1e-5), affine=layer.get("affine", True)), channels
        if kind == "dropout":
            return nn.Dropout(layer.get("p", 0.5)), channels
        if kind == "normalise":
            return _Normalise(channels, layer), channels
        raise ValueError(f"type: there is no layer {kind!r}")


class _Weighted(nn.Module):
    def __init__(self, shape, out, bias, fan_in):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-fan_in**-0.5, fan_in**-0.5))
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None

    def with_bias(self, y):
        return y if self.bias is None else y + self.bias.view(-1, *[1] * (y.dim() - 2))


class _Conv(_Weighted):
    def __init__(self, channels, out, groups, kernel, bias, stride, dilation, edges):
        super().__init__((out, channels // groups, *kernel), out, bias, channels // groups * torch.Size(kernel).numel())
        self._windows, self._groups = (stride, dilation), groups
        self._padding = [(edge, (k - 1) * d) for edge, k, d in zip(edges, kernel, dilation)]

    def forward(self, x):
        has_number = lambda padding: any(not isinstance(side, str) for side in padding[1][0])
        for dim, (edge, width) in sorted(enumerate(self._padding, start=2), key=has_number):  # whose dims get the corners
            before = width // 2
            if width > 0:
                x = torch.cat([_beyond(x, dim, edge[0], range(-before, 0)), x,
                               _beyond(x, dim, edge[1], range(x.shape[dim], x.shape[dim] + width - before))], dim)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
        stride, dilation = self._windows
        return self.with_bias(convolve(x, self.weight, None, stride, 0, dilation, self._groups))


def _beyond(x, dim, edge, places):
    """What lies at these places before or after the ends of a dim."""
    n = x.shape[dim]
    if edge == "zeros" or not isinstance(edge, str):
        shape = list(x.shape)
        shape[dim] = len(places)
        return x.new_full(shape, 0 if edge == "zeros" else edge)
    inside = {"periodic": lambda i: i % n, "replicate": lambda i: min(max(i, 0), n - 1),
              "reflect": lambda i: -i if i < 0 else 2 * (n - 1) - i}[edge]
    return x.index_select(dim, torch.tensor([inside(i) for i in places], dtype=torch.long, device=x.device))


class _Up(_Weighted):
    def __init__(self, channels, out, groups, kernel, bias):
        super().__init__((channels, out // groups, *kernel), out, bias, channels // groups)
        self._kernel, self._groups = kernel, groups

    def forward(self, x, size=None):
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 3]
        y = convolve(x, self.weight, None, self._kernel, 0, 0, self._groups)
        if size is not None:  # less than a kernel more or fewer at the end
            y = F.pad(y, [number for n, m in zip(reversed(size), reversed(y.shape)) for number in (0, n - m)])
        return self.with_bias(y)


class _Along(nn.LazyLinear):
    """Linear along a dim of space, whose size the first input or the saved weights say."""

    cls_to_become = None  # it stays one

    def __init__(self, dim, out, bias):
        super().__init__(out, bias=bias)
        self._dim = dim

    def initialize_parameters(self, x):
        super().initialize_parameters(x.movedim(self._dim, -1))

    def forward(self, x):
        return F.linear(x.movedim(self._dim, -1), self.weight, self.bias).movedim(-1, self._dim)


def _program(path):
    """The module of an exported program, with the file's graph of eval mode where it has one, and the channels of what it makes."""
    from torch.export.pt2_archive._package import load_pt2
    programs = load_pt2(path).exported_programs
    output = programs["model"].graph_signature.user_outputs[0]
    channels, = (node.meta["val"].shape[1] for node in programs["model"].graph.nodes if node.name == output)
    module = programs["model"].module()
    evaluation = programs["eval"].module() if "eval" in programs else None
    run = module.forward

    def forward(x):
        if module.training:
            return run(x)
        if evaluation is None:
            raise RuntimeError(f"{path} has no graph of eval mode; adjoin.export_program writes one")
        return torch.func.functional_call(evaluation, dict(module.named_parameters()) | dict(module.named_buffers()), (x,))

    def train(mode=True):  # which modules of programs refuse
        module.training = mode
        return module

    module.forward, module.train = forward, train
    return module, channels


class _Normalise(nn.Module):
    def __init__(self, channels, layer):
        super().__init__()
        self._is_inverse = layer.get("inverse", False)
        for name, initial in (("mean", 0.0), ("deviation", 1.0), ("count", 0.0)):
            given = torch.as_tensor(layer.get(name, initial), dtype=torch.float64)
            self.register_buffer(name, given.expand(channels).clone())

    def forward(self, x):
        scale = torch.where(self.deviation > 0, self.deviation, 1.0)
        mean, scale = (numbers.to(x.dtype).view(-1, *[1] * (x.dim() - 2)) for numbers in (self.mean, scale))
        return x * scale + mean if self._is_inverse else (x - mean) / scale
