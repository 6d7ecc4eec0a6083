"""The backend "adjoin" of torch.distributed, for processes that share memory within each host: `import adjoin` registers it."""

import atexit
import os
import warnings

import torch
import typing_extensions


def inner_folders():
    """The folders of this package and of torch, and the file of a wrapper of some calls of torch.distributed: no report names their lines as
    a caller's."""
    return [os.path.dirname(os.path.abspath(module)) + os.sep for module in (__file__, torch.__file__)] + [typing_extensions.__file__]


def register():
    """Makes "adjoin" a backend of torch.distributed, where that is part of torch."""
    if not torch.distributed.is_available():
        return
    from . import _c10d

    _c10d.set_inner_folders(inner_folders())
    torch.distributed.Backend.register_backend("adjoin", _make_group, extended_api=True, devices=["cpu"])
    _c10d.set_make_gloo(_make_gloo)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # a rank that torchrun has started: what it makes before the first group is shared too
        _c10d.begin_to_share()
    atexit.register(_c10d.leave)


def share_memory_with(module):
    """Lets another extension module of this process use the memory that processes share."""
    if torch.distributed.is_available():
        from . import _c10d

        module.use_memory(_c10d.memory())


_without_memory = {}  # ranks of groups of this process that use gloo, and why


def doctor():
    """Says whether the ranks of this process's groups on "adjoin" share memory, and why those do not that use gloo instead."""
    if not torch.distributed.is_available():
        return "adjoin: this torch has no torch.distributed"
    from . import _c10d

    if _without_memory:
        return "\n".join(f"adjoin: the group of ranks {list(ranks)} uses gloo: {reason}" for ranks, reason in _without_memory.items())
    failure = _c10d.begin_to_share()
    return f"adjoin: this process cannot share memory: {failure}" if failure else "adjoin: this process can share memory, and no group of it uses gloo"


def _make_group(group, options):
    from . import _c10d

    size = group.group_size
    ranks = list(group.global_ranks_in_group) or list(range(size))
    world_size = torch.distributed.get_world_size() if torch.distributed.is_initialized() else size
    timeout = group.timeout if options is None else options._timeout
    made = _c10d.make_group(group.store, group.group_rank, ranks, max(world_size, max(ranks) + 1), timeout)
    if not isinstance(made, str):
        return made
    if os.environ.get("ADJOIN_HOST_MEMORY") == "on":
        raise torch.distributed.DistBackendError(f"adjoin: the ranks of a group share no memory: {made}")
    if group.group_rank == 0:
        warnings.warn(f"adjoin: the ranks of a group share no memory, so it uses gloo: {made}", stacklevel=2)
    _without_memory[tuple(ranks)] = made
    return _make_gloo(torch.distributed.PrefixStore("gloo", group.store), group.group_rank, size, timeout)


def _make_gloo(store, rank, size, timeout):
    return torch.distributed.ProcessGroupGloo(store, rank, size, timeout)
