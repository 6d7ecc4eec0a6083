"""Writes a network of digits as a program, for exported_program.cpp: exported_program.py FILE"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/adjoin"))
from program import export_program  # noqa: E402

torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(28 * 28, 128), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 60), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 10)
).double()
print(export_program(model, torch.randn(4, 1, 28, 28).double(), sys.argv[1]))
