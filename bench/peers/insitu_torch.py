"""The training step of bench_insitu in PyTorch's eager mode, on one rank's block alone: medians of the processor's time.

usage: bench/peers/insitu_torch.py [CELLS…]
"""

import statistics
import sys
import time

import torch
from torch.nn import GELU, Conv3d, Sequential

torch.set_num_threads(1)
for n in [int(word) for word in sys.argv[1:]] or [16, 24, 32]:
    net = Sequential(Conv3d(16, 16, 3, padding=1), GELU(), Conv3d(16, 16, 3, padding=1), GELU(), Conv3d(16, 1, 3, padding=1))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    x, target = torch.randn(1, 16, n, n, n), torch.randn(1, 1, n, n, n)
    times = []
    for _ in range(18):
        start = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), target).backward()
        optimizer.step()
        times.append(time.process_time() - start)
    print(f"{n}^3 cells: {1e3 * statistics.median(times[3:]):.1f} ms")
