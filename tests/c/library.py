"""adjoin.h for Python's ctypes: what a solver would call, with numpy's arrays as its fields."""

import ctypes as c
import json
import os

import numpy as np

LIBRARY = c.CDLL(os.environ["ADJOIN_C_LIBRARY"])
LIBRARY.adjoin_last_error.restype = c.c_char_p
LIBRARY.adjoin_step.argtypes = [c.c_uint64, c.c_double, c.c_void_p, c.c_void_p]
LIBRARY.adjoin_loss.argtypes = [c.c_uint64, c.c_char_p, c.c_double, c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p]
LIBRARY.adjoin_world_split.argtypes = [c.c_uint64, c.c_int32, c.c_int32, c.c_void_p]
LIBRARY.adjoin_samples_create.argtypes = [c.c_uint64, c.c_int64, c.c_uint64, c.c_void_p]
LIBRARY.adjoin_samples_draw.argtypes = [c.c_uint64, c.c_int64, c.c_char_p, c.c_double, c.c_void_p, c.c_void_p]
LIBRARY.adjoin_network_create.argtypes = [c.c_uint64, c.c_char_p, c.c_int32, c.c_uint64, c.c_void_p]
ROWS_FIRST, COLUMNS_FIRST = 0, 1
INVALID, COMMUNICATION, IO, NO_MEMORY, UNSUPPORTED = 1, 2, 3, 4, 6


class Array(c.Structure):
    _fields_ = [("struct_size", c.c_uint64), ("data", c.c_void_p), ("type", c.c_int32), ("dims", c.c_int32),
                ("sizes", c.c_int64 * 8), ("strides", c.c_int64 * 8), ("channel_dim", c.c_int32),
                ("batch_dim", c.c_int32), ("device", c.c_int32), ("reserved", c.c_int32)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_uint64), ("deadline", c.c_double), ("threads", c.c_int32), ("checked", c.c_int32),
                ("host_memory", c.c_int32), ("ends_job", c.c_int32)]


class Failure(Exception):
    def __init__(self, code):
        super().__init__(LIBRARY.adjoin_last_error().decode())
        self.code, self.rank = code, LIBRARY.adjoin_last_error_rank()


def check(code):
    if code:
        raise Failure(code)


def described(array, channel_dim=-1, batch_dim=-1):
    """A numpy array as the interface wants it; the caller keeps the array."""
    kinds = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}
    strides = [stride // array.itemsize for stride in array.strides]
    return Array(c.sizeof(Array), array.ctypes.data, kinds[array.dtype], array.ndim,
                 (c.c_int64 * 8)(*array.shape), (c.c_int64 * 8)(*strides), channel_dim, batch_dim, 0, 0)


def arrays(given):
    """Fields [channels, *cells], or [*cells] as they are, as an array of descriptions."""
    given = [one if isinstance(one, Array) else described(one) for one in given]
    return len(given), (Array * max(1, len(given)))(*given)


def numbers(values):
    return (c.c_int64 * len(values))(*values)


def run_threads(ranks, function):
    """The results of function(world) on so many threads, each of which is a rank."""
    results, failures = {}, []

    def rank_function(world, _):
        rank = c.c_int32()
        LIBRARY.adjoin_world_rank(c.c_uint64(world), c.byref(rank), None)
        try:
            results[rank.value] = function(c.c_uint64(world), rank.value)
            return 0
        except BaseException as error:  # ctypes would drop it
            failures.append(error)
            return 1

    callback = c.CFUNCTYPE(c.c_int, c.c_uint64, c.c_void_p)(rank_function)
    code = LIBRARY.adjoin_run_threads(ranks, callback, None)
    if failures:
        raise failures[0]
    check(code)
    return [results[rank] for rank in range(ranks)]


def blocks_of(world, shape, starts, sizes, order=ROWS_FIRST, member=None):
    blocks = c.c_uint64()
    of = (world, order, len(shape), numbers(shape), numbers(starts), numbers(sizes))
    if member is None:
        check(LIBRARY.adjoin_blocks_create(*of, c.byref(blocks)))
    else:
        check(LIBRARY.adjoin_blocks_of_member(*of, member, c.byref(blocks)))
    return blocks


def points_of(world, points):
    blocks = c.c_uint64()
    check(LIBRARY.adjoin_blocks_of_points(world, c.c_int64(points), c.byref(blocks)))
    return blocks


class Network:
    def __init__(self, blocks, description, is_double=True, seed=1, optimizer=None):
        self.handle = c.c_uint64()
        check(LIBRARY.adjoin_network_create(blocks, json.dumps(description).encode(), int(is_double), seed, c.byref(self.handle)))
        if optimizer is not None:
            check(LIBRARY.adjoin_network_optimizer(self.handle, json.dumps(optimizer).encode()))

    def infer(self, inputs, outputs):
        check(LIBRARY.adjoin_infer(self.handle, *arrays(inputs), *arrays(outputs)))

    def forward(self, inputs, outputs=(), input_gradients=False):
        handle = c.c_uint64()
        check(LIBRARY.adjoin_forward(self.handle, *arrays(inputs), *arrays(outputs), int(input_gradients), c.byref(handle)))
        return handle

    def parameters(self):
        """Names, sizes and whether each is trained."""
        count, found = c.c_int32(), []
        check(LIBRARY.adjoin_network_parameters(self.handle, c.byref(count)))
        for index in range(count.value):
            name, dims, sizes, trained = c.create_string_buffer(80), c.c_int32(), (c.c_int64 * 8)(), c.c_int32()
            check(LIBRARY.adjoin_network_parameter(self.handle, index, name, 80, c.byref(dims), sizes, c.byref(trained)))
            found.append((name.value.decode(), tuple(sizes[:dims.value]), bool(trained.value)))
        return found

    def read(self, what):
        """All weights, or the gradients of those that are trained, by name."""
        found = {}
        for index, (name, sizes, is_trained) in enumerate(self.parameters()):
            if what == 0 or is_trained:
                values = np.empty(sizes)
                check(LIBRARY.adjoin_network_read(self.handle, index, what, c.c_void_p(values.ctypes.data), c.c_int64(values.size)))
                found[name] = values
        return found

    def step(self, rate=-1):
        norm = c.c_double()
        check(LIBRARY.adjoin_step(self.handle, rate, c.byref(norm), None))
        return norm.value

    def observe(self, layer, fields):
        check(LIBRARY.adjoin_network_observe(self.handle, layer.encode(), *arrays(fields)))

    def save(self, path):
        check(LIBRARY.adjoin_network_save(self.handle, str(path).encode()))

    def load(self, path, weights_only=False):
        check(LIBRARY.adjoin_network_load(self.handle, str(path).encode(), int(weights_only)))


def loss(handle, targets, kind="mse", weights=None, delta=0.0):
    value = c.c_double()
    weight = c.byref(described(weights)) if weights is not None else None
    check(LIBRARY.adjoin_loss(handle, kind.encode(), delta, *arrays(targets), weight, c.byref(value)))
    return value.value


class Samples:
    def __init__(self, network, capacity, seed=1):
        self.handle = c.c_uint64()
        check(LIBRARY.adjoin_samples_create(network.handle, capacity, seed, c.byref(self.handle)))

    def add(self, inputs, targets):
        check(LIBRARY.adjoin_samples_add(self.handle, *arrays(inputs), *arrays(targets)))

    def draw(self, batch, kind="mse"):
        """The loss of a batch and its pass."""
        value, handle = c.c_double(), c.c_uint64()
        check(LIBRARY.adjoin_samples_draw(self.handle, batch, kind.encode(), 0.0, c.byref(value), c.byref(handle)))
        return value.value, handle


def backward(handle, output_gradients=(), input_gradients=()):
    check(LIBRARY.adjoin_backward(c.byref(handle), *arrays(output_gradients), *arrays(input_gradients)))
