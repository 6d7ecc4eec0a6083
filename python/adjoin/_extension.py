"""Loads the extension module `_adjoin`, which needs MPI's library and others of the system."""

import importlib

from . import torch_backend

try:
    _adjoin = importlib.import_module("._adjoin", __package__)
except ImportError as error:
    if "libmpi" in str(error):
        raise ImportError(f"adjoin: there is no MPI library here: {error}; install OpenMPI or MPICH, as adjoin was built with") from error
    raise ImportError(f"adjoin: the extension module cannot be loaded: {error}; build it by pip install .") from error
_adjoin.set_inner_folders(torch_backend.inner_folders())
torch_backend.share_memory_with(_adjoin)
