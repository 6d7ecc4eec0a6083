"""The faults that tools/distdl_faults puts into the library are changes of the library as it is."""

import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class DistdlFaults(unittest.TestCase):
    def test_change_what_is_in_the_library(self):
        faults = sorted((ROOT / "tests/python/distdl_faults").glob("*.patch"))
        self.assertEqual(len(faults), 10)
        for fault in faults:
            with self.subTest(fault=fault.stem):
                command = ["patch", "--dry-run", "-s", "-f", "-p0", "-i", str(fault)]
                self.assertEqual(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout, "")


if __name__ == "__main__":
    unittest.main()
