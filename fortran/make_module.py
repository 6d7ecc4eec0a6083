#!/usr/bin/env python3
"""Writes adjoin.f90 from module.f90.in: what differs only by kind and rank is made here, so that any compiler builds the result.

usage: fortran/make_module.py [--check]   (--check: fails where adjoin.f90 is not what this makes)
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def function(name, kind, code, rank):
    dims, first = ",".join([":"] * rank), ",".join(["1"] * rank)
    lines = [f"  function {name}(a, channel_dim, batch_dim) result(view)",
             f"    real({kind}), intent(in), target :: a({dims})",
             "    integer, intent(in), optional :: channel_dim, batch_dim",
             "    type(adjoin_array) :: view",
             f"    call begin(view, {code}, shape(a), channel_dim, batch_dim)",
             "    if (size(a) == 0) return",
             f"    view%data = c_loc(a({first}))"]
    for dim in range(1, rank + 1):
        second = ",".join("2" if d == dim else "1" for d in range(1, rank + 1))
        lines.append(f"    if (size(a, {dim}) > 1) call measure(view, {dim}, c_loc(a({first})), c_loc(a({second})), storage_size(a))")
    return "\n".join([*lines, "  end function", ""])


def module():
    of = {f"of_{name}_{rank}": (kind, code, rank)
          for name, kind, code in (("real32", "c_float", 0), ("real64", "c_double", 1)) for rank in range(1, 6)}
    text = (FOLDER / "module.f90.in").read_text(encoding="utf-8")
    text = text.replace("@NAMES@", ", &\n                 ".join(of))
    return text.replace("@BODIES@", "\n".join(function(name, *what) for name, what in of.items()))


if __name__ == "__main__":
    made = FOLDER / "adjoin.f90"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if made.read_text(encoding="utf-8") == module() else "fortran/adjoin.f90 is not what make_module.py makes")
    made.write_text(module(), encoding="utf-8")
