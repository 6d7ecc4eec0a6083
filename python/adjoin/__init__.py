"""adjoin: trains one neural network on many workers, on threads or MPI.

    import adjoin

    def work(world):
        x = torch.ones(3)
        world.all_reduce(x)

    adjoin.launch(work, ranks=2)

Where docs/python.md does not say otherwise, a name does what it does in the C++ library.
"""

import os as _os

_BUILT_FOR = "2.13"


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"adjoin: torch is not installed; install torch {_BUILT_FOR}, which adjoin was built for") from error
    if torch.__version__.split(".")[:2] != _BUILT_FOR.split("."):
        raise ImportError(f"adjoin: was built for torch {_BUILT_FOR}, but torch {torch.__version__} is installed")
    return torch


def _import_extension(torch):
    try:
        from . import _adjoin
    except ImportError as error:
        if "libmpi" in str(error):
            raise ImportError(f"adjoin: there is no MPI library here: {error}; install OpenMPI or MPICH, as adjoin was built with") from error
        raise ImportError(f"adjoin: the extension module cannot be loaded: {error}; build it by pip install .") from error
    folders = [_os.path.dirname(_os.path.abspath(module)) + _os.sep for module in (__file__, torch.__file__)]
    _adjoin.set_inner_folders(folders)
    return _adjoin


_adjoin = _import_extension(_import_torch())
__version__ = _adjoin.__version__

from ._adjoin import (  # noqa: E402
    AsyncCommunicator,
    Box,
    Communicator,
    DistributedTensor,
    ForwardRecord,
    Grid,
    GridShape,
    HaloExchange,
    HaloPlan,
    Handle,
    Layout,
    Move,
    MovePlan,
    Rows,
    Rule,
    Sampler,
    Split,
    Step,
    Update,
    Window,
    adamw,
    all_gather,
    all_sum_reduce,
    all_to_all,
    all_to_all_rows,
    broadcast,
    cat,
    copy_to,
    gather_from,
    halo_exchange,
    inputs_of,
    is_global,
    launch,
    local_of,
    map,
    mean,
    move,
    mpi_job_rank,
    mpi_job_size,
    mpi_world,
    muon,
    outputs_of,
    pipeline,
    place,
    plan_halo,
    plan_move,
    recv,
    reduce_from,
    reduce_scatter,
    rotate,
    run_pipeline,
    scatter_to,
    send,
    sgd,
    started_by_mpi,
    sum,
    sum_reduce,
    whole,
)
from ._errors import CommunicationError, Error, InternalError, InvalidArgument, IoError  # noqa: E402
from . import nn  # noqa: E402
from .automatic import Cuts, automatic  # noqa: E402
from .distribute import Distributed, distribute  # noqa: E402
from .gradients import check_gradients, recomputed  # noqa: E402
from .program import Exported, ExportError, export_program  # noqa: E402
from .state import load_state, save_state, state_of  # noqa: E402
from .together import together  # noqa: E402
from .training import DataParallel, Optimizer, Weights, sum_gradients, train  # noqa: E402
