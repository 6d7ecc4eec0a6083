"""Trains the networks of examples/trained_program.py by adjoin train on 1, 2 and 4 ranks, beside Python's own loop.

usage: trained_programs.py ADJOIN [NET…]     the program, and networks, by default all; ADJOIN_DATA_DIR is a folder with mnist, imdb and
                                            bert-base-uncased

On one rank a figure is that of the loop, on several ranks within one point of a hundred; after the weights went back to Python it is the same.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ADJOIN_DATA_DIR", ROOT.parent / "shared" / "data"))
NETS = {  # where its data are, its loop's options, and adjoin's own
    "field": ("", ["--epochs", "10", "--lr", "0.002"], ["--loss", "mse"]),
    "resnet": ("mnist", ["--epochs", "3"], []),
    "vit": ("mnist", ["--epochs", "10", "--lr", "0.002"], []),
    "distilbert": ("imdb", ["--epochs", "2"], ["--vocab", "distilbert/vocab.txt", "--sequence", "128"]),
}


def printed_by(command, folder):
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def figure_in(text):
    """An accuracy in per cent, or a hundred times R2."""
    name, number = re.search(r"(accuracy|r2) +([-\d.]+)", text).groups()
    return float(number) * (100 if name == "r2" else 1)


def main():
    adjoin, failed = str(Path(sys.argv[1]).resolve()), False
    for net in sys.argv[2:] or NETS:
        source, options, own = NETS[net]
        with tempfile.TemporaryDirectory() as folder:
            python = [sys.executable, str(ROOT / "examples/trained_program.py")]
            printed_by([*python, "make", net, net, "--source", str(DATA / source)], folder)
            expected = figure_in(printed_by([*python, "loop", net, net, *options], folder))
            train = [adjoin, "train", "--program", f"{net}/net.pt2", "--data", f"{net}/data", "--shuffle", "off", "--precision", "fp64", "--out", "run", "--overwrite", *options, *own]
            for layout, tolerance in ((["--dp", "1"], 0.005), (["--dp", "2"], 1), (["--tp", "2"], 1), (["--dp", "2", "--tp", "2"], 1)):
                found = figure_in(printed_by([*train, *layout], folder))
                printed_by([adjoin, "export", "--model", "run", "--out", "back.safetensors"], folder)
                back = figure_in(printed_by([*python, "back", net, net, "--weights", "back.safetensors"], folder))
                is_right = abs(found - expected) <= tolerance and abs(back - found) <= 0.05
                print(f"{net} {' '.join(layout)}: {found:.2f}, Python's loop {expected:.2f}, back in Python {back:.2f}{'' if is_right else ' WRONG'}", flush=True)
                failed |= not is_right
    sys.exit(failed)


if __name__ == "__main__":
    main()
