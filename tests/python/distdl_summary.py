"""What the ranks' reports say together: a test passes if it passed on every rank.

usage: distdl_summary.py FOLDER RANKS EXPECTED, where FOLDER has rank N's report as N.xml; EXPECTED may be "any"
"""

import pathlib
import sys
import xml.etree.ElementTree as xml

folder, ranks, expected = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
failed, seen = {}, [set() for _ in range(ranks)]
for rank in range(ranks):
    report = folder / f"{rank}.xml"
    if not report.exists():
        failed.setdefault("(no report)", []).append(rank)
        continue
    for case in xml.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        seen[rank].add(name)
        if any(child.tag in ("failure", "error", "skipped") for child in case):
            failed.setdefault(name, []).append(rank)
for rank in range(1, ranks):
    for name in seen[rank] ^ seen[0]:
        failed.setdefault(name, []).append(rank)
for name, where in sorted(failed.items()):
    print(f"FAILED {name} on ranks {', '.join(map(str, where))}")
passed = len(seen[0] - failed.keys())
print(f"{passed} of DistDL's tests passed on all {ranks} ranks, {len(failed)} failed; expected to pass: {expected}")
sys.exit(bool(failed) or passed == 0 or (expected != "any" and passed != int(expected)))
