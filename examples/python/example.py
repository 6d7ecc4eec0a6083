"""What the examples share: --ranks and --json, as those in C++ have them."""

import argparse
import json

import adjoin


def nearly_square(workers):
    rows = max(d for d in range(1, workers + 1) if workers % d == 0 and d * d <= workers)
    return rows, workers // rows


def run(description, work, add_options=lambda parser: None):
    """Runs work(world, options, say), which returns a dict; say(...) prints a line on rank 0, unless --json prints that dict."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ranks", type=int, default=adjoin.mpi_job_size() if adjoin.started_by_mpi() else 4, help="workers")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    add_options(parser)
    options = parser.parse_args()

    def rank(world):
        speaks = world.rank == 0
        values = work(world, options, lambda line: print(line) if speaks and not options.json else None)
        if speaks and options.json:
            print(json.dumps(values))

    adjoin.launch(rank, ranks=options.ranks)
