"""The README shows examples/tensor_parallel_mlp.cpp, which is compiled and run as a test of its own, as it is."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tensor_parallel_mlp.cpp"
MOST_LINES = 40


class ReadmeExample(unittest.TestCase):
    def test_is_the_file(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```cpp\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        self.assertEqual(blocks, [EXAMPLE.read_text(encoding="utf-8")])

    def test_is_short(self):
        self.assertLessEqual(len(EXAMPLE.read_text(encoding="utf-8").splitlines()), MOST_LINES)


if __name__ == "__main__":
    unittest.main()
