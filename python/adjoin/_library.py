"""The names of the package, which come from the extension module."""

from ._extension import _adjoin

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
    TokenRows,
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
from .state import load_state, save_state, state_of  # noqa: E402
from .together import together  # noqa: E402
from .training import DataParallel, Optimizer, Weights, sum_gradients, train  # noqa: E402
