"""The processor's time of adjoin_infer for one small layer, called from Python.

usage: ADJOIN_C_LIBRARY=build/release/c/libadjoin_c.so bench/insitu_inference.py
"""

import ctypes as c
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "c"))
from library import LIBRARY, Network, arrays, blocks_of, check  # noqa: E402

world, times = c.c_uint64(), []
check(LIBRARY.adjoin_world_alone(None, c.byref(world)))
network = Network(blocks_of(world, (8,), (0,), (8,)), {"inputs": 1, "layers": [{"type": "linear", "out": 1}]}, is_double=False)
fields = [np.ones(8, np.float32) for _ in range(2)]
given = (network.handle, *arrays(fields[:1]), *arrays(fields[1:]))
for _ in range(40):
    start = time.process_time()
    for _ in range(500):
        LIBRARY.adjoin_infer(*given)
    times.append((time.process_time() - start) / 500)
print(f"{1e6 * statistics.median(times):.1f} us")
