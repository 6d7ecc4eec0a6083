"""Exports modules of PyTorch as programs, which adjoin trains from C++ (docs/programs.md).

This file needs torch alone, and not the rest of adjoin: copy it to where the model is.

    from program import export_program
    print(export_program(model, (pictures,), "net.pt2"))
"""

import contextlib as _contextlib
import io as _io
import json as _json
import linecache as _linecache
import logging as _logging
import os as _os
import tempfile as _tempfile
import traceback as _traceback
import warnings as _warnings
import zipfile as _zipfile
from typing import NamedTuple as _NamedTuple

import torch as _torch
from torch.utils import _pytree


class ExportError(ValueError):
    """A module that cannot be exported: one line that says what in it, and where."""


class Exported(_NamedTuple):
    """What was written: the path, the sizes of each input, and the number of operators.

    `inputs` has for each input a list of its sizes: a number for a size with which alone the program runs, a text for any size; equal
    texts are equal sizes.
    """

    path: str
    inputs: dict
    operators: int

    def __repr__(self):
        sizes = ", ".join(f"{name} [{', '.join(map(str, sizes))}]" for name, sizes in self.inputs.items())
        return f"{self.path}: {self.operators} operators; inputs {sizes}"


def export_program(model, example, path, *, dynamic_shapes=None, check=True):
    """Writes a torch.nn.Module as a .pt2 file with its graphs of training and of eval mode; returns an Exported.

    `example` is what the model is called with: a tensor, a tuple of arguments, or a dictionary of named ones. Sizes of at least 2 show
    which may change: each is tried, and stays as it is in the example where the model needs that. `dynamic_shapes`, as torch.export
    takes it, says it instead. In the training graph submodules train as they do in `model`, all of them where it is in eval mode. With
    `check` the file is read again, and its results and gradients are compared with the model's, also for twice the samples.
    The model stays as it is. Raises ExportError.
    """
    import torch.export  # noqa: F401

    arguments, named = _call_of(example)
    modes = {module: module.training for module in model.modules()}
    try:
        if not model.training:
            model.train()
        training = _exported(model, arguments, named, dynamic_shapes)
        training_modes = {module: module.training for module in modes}
        model.eval()
        evaluation = _exported(model, arguments, named, dynamic_shapes)
        _write(training, evaluation, _os.fspath(path))
        if check:
            _check(model, arguments, named, _os.fspath(path), training_modes)
    finally:
        for module, mode in modes.items():
            module.training = mode
    operators = sum(node.op == "call_function" for node in training.graph.nodes)
    return Exported(_os.fspath(path), _sizes_of(training), operators)


def _call_of(example):
    if isinstance(example, dict):
        return (), dict(example)
    return (example,) if isinstance(example, _torch.Tensor) else tuple(example), {}


def _exported(model, arguments, named, dynamic_shapes):
    call, first = (arguments, named), None
    for keep in [None] if dynamic_shapes is not None else _GUESSES:
        try:
            program = _export(model, call, dynamic_shapes if keep is None else _shapes(call, keep))
        except Exception as error:  # of many classes
            first = first or _said(model, error)
            continue
        fixed = set() if keep is None else _fixed_dims(model, call, program)
        if fixed:
            program = _export(model, call, _shapes(call, lambda index, dim: keep(index, dim) and (index, dim) not in fixed))  # noqa: B023
        _refuse_operators(program)
        return program
    raise first


def _export(model, call, shapes):
    with _silent():
        return _torch.export.export(model, *call, dynamic_shapes=shapes, strict=False)


# Whether a dim of an input may change: each, the first of each, none.
_GUESSES = (lambda index, dim: True, lambda index, dim: dim == 0, lambda index, dim: False)


def _shapes(call, may_change):
    """The form in which torch.export takes which dims may change."""
    index = iter(range(len(_pytree.tree_leaves(call))))

    def shapes_of(x):
        number = next(index)
        if not isinstance(x, _torch.Tensor):
            return None
        return {dim: _torch.export.Dim.AUTO for dim in range(x.dim()) if may_change(number, dim)}

    positional, by_name = _pytree.tree_map(shapes_of, call)
    return by_name if not positional else (*positional, *by_name.values())


def _fixed_dims(model, call, program):
    """The dims that torch.export lets change and with which the model itself fails, alone and together with those of equal size."""
    values, structure = _pytree.tree_flatten(call)
    places = {}
    tensors = [i for i, x in enumerate(values) if isinstance(x, _torch.Tensor)]
    for index, sizes in zip(tensors, _symbols_of(program).values(), strict=False):
        for dim, size in enumerate(sizes):
            if isinstance(size, str):
                places.setdefault(size, []).append((index, dim))

    def works(dims):
        longer = list(values)
        for index, dim in dims:
            longer[index] = _torch.cat([longer[index], longer[index]], dim)
        try:
            with _silent(), _torch.no_grad(), _kept_buffers(model), _torch.random.fork_rng(devices=[]):
                arguments, named = _pytree.tree_unflatten(longer, structure)
                model(*arguments, **named)
        except Exception:  # of many classes
            return False
        return True

    fixed = set()
    for dims in places.values():
        size = values[dims[0][0]].shape[dims[0][1]]
        alike = [place for other in places.values() for place in other if values[place[0]].shape[place[1]] == size and place[1] == dims[0][1]]
        if not works(dims) and not works(alike):
            fixed.update(dims)
    return fixed


@_contextlib.contextmanager
def _kept_buffers(model):
    """What runs within changes no buffer."""
    buffers = {name: x.clone() for name, x in model.named_buffers()}
    try:
        yield
    finally:
        with _torch.no_grad():
            for name, x in model.named_buffers():
                x.copy_(buffers[name])


@_contextlib.contextmanager
def _silent():
    """PyTorch prints whole graphs of what it could not export, and warns of sizes that it tried."""
    before = _logging.root.manager.disable
    _logging.disable(_logging.WARNING)
    try:
        with _warnings.catch_warnings(), _contextlib.redirect_stdout(_io.StringIO()), _contextlib.redirect_stderr(_io.StringIO()):
            _warnings.simplefilter("ignore")
            yield
    finally:
        _logging.disable(before)


def _said(model, error):
    """The error in one line, with the module and the line of the user's code in which it happened."""
    names = {module: name for name, module in model.named_modules()}
    module, line = None, None
    for frame, number in _traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        inner = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        if isinstance(inner, _torch.nn.Module) and inner in names:
            module = names[inner]
        if isinstance(inner, _torch.nn.Module) and not file.startswith(_os.path.dirname(_torch.__file__)):
            line = f"{file}:{number}: {_linecache.getline(file, number).strip()}"
    where = [f"in {module or 'the model itself'}"] if module is not None else []
    where += [line] if line else []
    text = str(error).strip().split("\n")[0] or type(error).__name__
    return ExportError(f"export_program: {', '.join([*where, text])}")


def _refuse_operators(program):
    """The operators that a file may hold and that C++ does not run."""
    for graph_module in program.graph_module.modules():
        for node in getattr(graph_module, "graph", _torch.fx.Graph()).nodes:
            if node.op != "call_function" or not isinstance(node.target, (_torch._ops.OpOverload, _torch._ops.HigherOrderOperator)):
                continue
            name = str(node.target)
            if name.startswith("aten.") or name in ("wrap_with_set_grad_enabled", "wrap_with_autocast"):
                continue
            stack = node.meta.get("nn_module_stack") or {}
            module = list(stack.values())[-1][0] if stack else ""
            lines = [text.strip() for text in (node.meta.get("stack_trace") or "").strip().split("\n")]
            where = f"in {module}, " if module else ""
            line = f" ({lines[-2]}: {lines[-1]})" if len(lines) > 1 else ""
            raise ExportError(f"export_program: {where}the operator {name} is none of PyTorch's own on tensors{line}")


def _write(training, evaluation, path):
    """One file with both graphs, and the weights once."""
    from torch.export.pt2_archive._package import PT2ArchiveWriter  # takes seconds to import

    folder = _os.path.dirname(_os.path.abspath(path))
    with _tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
        files = {name: _os.path.join(scratch, f"{name}.pt2") for name in ("model", "eval", "both")}
        with _silent():
            _torch.export.save(training, files["model"])
            _torch.export.save(evaluation, files["eval"])
        with _zipfile.ZipFile(files["model"]) as first, _zipfile.ZipFile(files["eval"]) as second, PT2ArchiveWriter(files["both"]) as both:
            records = {name.split("/", 1)[1]: name for name in first.namelist()}
            for record, name in records.items():
                if not record.startswith(".data/") and record not in ("archive_format", "archive_version", "byteorder"):
                    both.write_bytes(record, first.read(name))
            weights = "data/weights/{}_weights_config.json"
            both.write_bytes(weights.format("eval"), first.read(records[weights.format("model")]))
            _add_eval({name.split("/", 1)[1]: second.read(name) for name in second.namelist() if "/weights/" not in name}, records, both)
        _os.replace(files["both"], path)


def _add_eval(records, others, both):
    constants = "data/constants/{}_constants_config.json"
    config = _json.loads(records[constants.format("model")])
    begin = sum(name.startswith("data/constants/tensor_") for name in others)
    numbers = {}
    for entry in config["config"].values():
        old = entry["path_name"]
        if old not in numbers:
            numbers[old] = f"tensor_{begin + len(numbers)}"
            both.write_bytes(f"data/constants/{numbers[old]}", records[f"data/constants/{old}"])
        entry["path_name"] = numbers[old]
    both.write_string(constants.format("eval"), _json.dumps(config))
    both.write_bytes("models/eval.json", records["models/model.json"])
    both.write_bytes("data/sample_inputs/eval.pt", records["data/sample_inputs/model.pt"])


def _check(model, arguments, named, path, training_modes):
    from torch.export.pt2_archive._package import load_pt2

    programs = load_pt2(path).exported_programs
    doubled = _doubled((arguments, named), _symbols_of(programs["model"]))
    gradients = {name: p.grad for name, p in model.named_parameters()}
    try:
        for mode, record in (("training", "model"), ("eval", "eval")):
            for module, trains in training_modes.items():
                module.training = trains and mode == "training"
            for inputs in [(arguments, named)] + ([doubled] if doubled else []):
                fresh = _fresh(programs[record], model)
                with _kept_buffers(model):
                    expected = _computed(model, *inputs)
                results, found = _computed(fresh, *inputs)
                # A file that is read in Python has a parameter of several names once a name.
                shared = {name: [found[other] for other in names if other in found] for name, names in _names_of(model).items()}
                _compare(mode, expected, (results, {name: sum(parts) for name, parts in shared.items() if parts}))
    finally:
        for name, p in model.named_parameters():
            p.grad = gradients[name]


def _names_of(model):
    """For the first name of each parameter, all its names."""
    first, names = {}, {}
    for name, p in model.named_parameters(remove_duplicate=False):
        names.setdefault(first.setdefault(id(p), name), []).append(name)
    return names


def _fresh(program, model):
    """The program as a module with the model's buffers, which an earlier run may have changed."""
    module = program.module()
    with _torch.no_grad():
        for name, x in module.named_buffers():
            with _contextlib.suppress(AttributeError):
                x.copy_(model.get_buffer(name))
    return module


def _computed(module, arguments, named):
    """The results, and the gradients of parameters of the sum of their squares."""
    for p in module.parameters():
        p.grad = None
    with _torch.random.fork_rng(devices=[]):
        _torch.manual_seed(0)
        results = [x for x in _pytree.tree_leaves(module(*arguments, **named)) if isinstance(x, _torch.Tensor)]
    floating = [x for x in results if x.is_floating_point() and x.requires_grad]
    if floating:
        sum(x.double().square().sum() for x in floating).backward()
    return results, {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def _compare(mode, expected, found):
    pairs = [(f"result {i}", a, b) for i, (a, b) in enumerate(zip(expected[0], found[0], strict=True))]
    pairs += [(f"the gradient of {name}", a, found[1].get(name)) for name, a in expected[1].items()]
    for name, a, b in pairs:
        if b is None or a.shape != b.shape or not _are_near(a.detach().double(), b.detach().double()):
            raise ExportError(f"export_program: in {mode} mode {name} of the file is not the model's")


def _are_near(a, b):
    return a.numel() == 0 or _torch.allclose(a, b, rtol=1e-4, atol=1e-6 * float(a.abs().max()), equal_nan=True)


def _user_inputs(program):
    names = set(program.graph_signature.user_inputs)
    return [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def _symbols_of(program):
    """For each input that is a tensor, its name and its sizes: numbers, and texts where any will do."""
    inputs = {}
    for node in _user_inputs(program):
        value = node.meta.get("val")
        if isinstance(value, _torch.Tensor):
            inputs[node.name] = [int(size) if isinstance(size, int) else str(size) for size in value.shape]
    return inputs


def _sizes_of(program):
    """The same with names: the first size of the first input is "batch"."""
    names, inputs = {}, _symbols_of(program)
    for sizes in inputs.values():
        for dim, size in enumerate(sizes):
            if isinstance(size, str) and size not in names:
                names[size] = "batch" if dim == 0 and "batch" not in names.values() else f"n{len(names)}"
    return {name: [names.get(size, size) for size in sizes] for name, sizes in inputs.items()}


def _doubled(call, sizes):
    """Twice the samples, if the first size of each tensor is one and the same and may change; else None."""
    tensors = [x for x in _pytree.tree_leaves(call) if isinstance(x, _torch.Tensor)]
    firsts = [shape[0] if shape else None for shape in sizes.values()]
    if not firsts or len(firsts) != len(tensors) or not isinstance(firsts[0], str) or len({x.shape[:1] for x in tensors}) != 1:
        return None
    if not all(isinstance(size, str) for size in firsts):
        return None
    return _pytree.tree_map(lambda x: _torch.cat([x, x]) if isinstance(x, _torch.Tensor) else x, call)
