"""The faults that tools/distdl_faults puts into the library are changes of the library as it is."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class DistdlFaults(unittest.TestCase):
    def test_change_what_is_in_the_library(self):
        faults = sorted((ROOT / "tests/python/distdl_faults").glob("*.patch"))
        self.assertEqual(len(faults), 10)
        for fault in faults:
            for changes in re.split(r"^--- ", fault.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
                file, *hunks = re.split(r"^@@.*\n", changes, flags=re.MULTILINE)
                path = ROOT / file.split()[0]
                for hunk in hunks:
                    before = "".join(line[1:] + "\n" for line in hunk.splitlines() if line[:1] in (" ", "-"))
                    with self.subTest(fault=fault.stem):
                        self.assertTrue(before in path.read_text(encoding="utf-8"), f"{path} has no\n{before}")


if __name__ == "__main__":
    unittest.main()
