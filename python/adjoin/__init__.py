"""adjoin: trains one neural network on many workers, on threads or MPI.

    import adjoin

    def work(world):
        x = torch.ones(3)
        world.all_reduce(x)

    adjoin.launch(work, ranks=2)

Where docs/python.md does not say otherwise, a name does what it does in the C++ library.
"""

import importlib as _importlib
import threading as _threading

_BUILT_FOR = "2.13"


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"adjoin: torch is not installed; install torch {_BUILT_FOR}, which adjoin was built for") from error
    if torch.__version__.split(".")[:2] != _BUILT_FOR.split("."):
        raise ImportError(f"adjoin: was built for torch {_BUILT_FOR}, but torch {torch.__version__} is installed")
    return torch


_import_torch()

from . import torch_backend as _torch_backend  # noqa: E402
from .torch_backend import doctor  # noqa: E402
from .program import Exported, ExportError, export_program  # noqa: E402

_torch_backend.register()


_loader = None  # the thread that loads the library


def _load():
    """Loads what `import adjoin` alone does not: the backend of torch.distributed needs no library but torch's."""
    global _loader
    _loader = _threading.get_ident()
    try:
        library = _importlib.import_module("._library", __name__)
    finally:
        _loader = None
    globals().update({name: value for name, value in vars(library).items() if not name.startswith("_") or name == "__version__"})


def __getattr__(name):
    if name == "_adjoin":
        return _importlib.import_module("._extension", __name__)._adjoin
    if name == "__all__":  # of `from adjoin import *`
        return [name for name in __dir__() if not name.startswith("_")]
    if (not name.startswith("_") or name == "__version__") and _loader != _threading.get_ident():
        _load()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module 'adjoin' has no attribute '{name}'")


def __dir__():
    _load()
    return sorted(globals())
