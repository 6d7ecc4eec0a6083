import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import adjoin
from ranks import alone, on_ranks

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(adjoin.__file__).parent
FOREIGN = ("libmpi", "libutf8proc", "libsentencepiece", "libopen-", "libpmix", "libhwloc")

STARTS = """
import time, torch, torch.distributed as dist
begin = time.perf_counter()
import adjoin
print(time.perf_counter() - begin)
x = torch.ones(1 << 18)
dist.init_process_group("adjoin", init_method="file://%s/store", rank=0, world_size=1)
dist.all_reduce(x)
print("shared:", adjoin._c10d.is_shared(x))
print(open("/proc/self/maps").read())
dist.destroy_process_group()
try:
    adjoin.launch
except ImportError as error:
    print("says:", error)
"""


def on_gloo(rank):
    """Where the ranks share no memory."""
    import os
    import warnings

    import torch
    import torch.distributed as dist

    os.environ["ADJOIN_HOST_MEMORY"] = "off"
    with warnings.catch_warnings(record=True) as warned:
        group = dist.new_group([0, 1], backend="adjoin")
    x = torch.ones(3) * (rank + 1)
    dist.all_reduce(x, group=group)
    return x.tolist(), [str(warning.message) for warning in warned], adjoin.doctor()


def printed(*command, **environment):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    with tempfile.TemporaryDirectory() as here:  # where Python finds no other package
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=here)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


@alone
class Start(unittest.TestCase):
    def test_ranks_that_share_no_memory_use_gloo(self):
        for rank, ((given, warned, doctor),) in enumerate(on_ranks(on_gloo, backends=("gloo",))):
            self.assertEqual(given, [3] * 3)
            self.assertEqual([text for text in warned if "share no memory, so it uses gloo" in text], warned)
            self.assertEqual(len(warned), 1 - rank)
            self.assertIn("[0, 1] uses gloo: the environment variable ADJOIN_HOST_MEMORY turns it off", doctor)

    def test_examples_under_torchrun(self):
        for example in ("ddp.py", "fsdp.py"):
            out = printed("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(ROOT / "examples/python" / example))
            losses = [float(loss) for loss in re.findall(r"step +\d+  loss (\S+)", out)]
            self.assertEqual(len(losses), 4, out)
            self.assertLess(losses[-1], 0.05 * losses[0])

    def test_without_the_library(self):
        """Where the extension module of the library is missing, as without MPI, the backend works and the rest says what is missing."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "adjoin"
            shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("_adjoin.*", "__pycache__"))
            seconds, shared, *maps = printed("-c", STARTS % folder, PYTHONPATH=folder).splitlines()
        self.assertLess(float(seconds), 1)
        self.assertEqual(shared, "shared: False")
        self.assertEqual([line for line in maps if any(name in line for name in FOREIGN)], [])
        self.assertIn("says: adjoin: the extension module cannot be loaded", maps[-1])

    def test_import_loads_no_library_of_the_system(self):
        with tempfile.TemporaryDirectory() as folder:
            _, shared, *maps = printed("-c", STARTS % folder, PYTHONPATH=str(PACKAGE.parent), TORCHELASTIC_RUN_ID="1").splitlines()
        self.assertEqual(shared, "shared: True")  # under torchrun also what was made before the first group
        self.assertTrue(any("_c10d" in line for line in maps))
        self.assertEqual([line for line in maps if any(name in line for name in FOREIGN)], [])


if __name__ == "__main__":
    unittest.main()
