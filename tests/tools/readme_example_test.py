"""What the README shows stands in examples/, where it is compiled and run as a test of its own."""

import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tensor_parallel_mlp.cpp"
NETWORK = ROOT / "examples" / "lenet5.cpp"
DEADLOCK = ROOT / "examples" / "deadlock.cpp"
MOST_LINES = 40


class ReadmeExample(unittest.TestCase):
    def setUp(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.blocks = re.findall(r"^```cpp\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        self.commands = re.findall(r"^```sh\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        self.pictures = re.findall(r"^!\[.+\]\((.+)\)$", readme, re.MULTILINE)

    def test_is_the_file(self):
        self.assertEqual(self.blocks[0], EXAMPLE.read_text(encoding="utf-8"))

    def test_of_a_deadlock_is_part_of_its_file(self):
        self.assertIn(self.blocks[1], DEADLOCK.read_text(encoding="utf-8"))

    def test_of_a_network_is_part_of_its_file(self):
        self.assertIn(self.blocks[2], NETWORK.read_text(encoding="utf-8"))
        self.assertLessEqual(len(self.blocks[2].splitlines()), MOST_LINES)

    @unittest.skipUnless("ADJOIN_EXAMPLE" in os.environ, "ADJOIN_EXAMPLE names the built example")
    def test_prints_what_is_shown(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        shown = readme.split("It prints\n\n```\n")[1].split("```")[0]
        printed = subprocess.run([os.environ["ADJOIN_EXAMPLE"]], check=True, capture_output=True, text=True).stdout
        number = r"\d+\.\d+"
        self.assertEqual(re.sub(number, "#", shown), re.sub(number, "#", printed))
        for expected, came in zip(re.findall(number, shown), re.findall(number, printed), strict=True):
            self.assertAlmostEqual(float(expected), float(came), places=4)  # other processors round otherwise

    def test_shows_pictures_with_the_commands_that_make_them(self):
        self.assertEqual(len(self.pictures), 2)
        for picture in self.pictures:
            self.assertIn("<svg", (ROOT / picture).read_text(encoding="utf-8")[:200])
            named = re.escape(picture.removesuffix(".svg"))
            self.assertTrue(any(re.search(rf"--(svg|out) {named}(\.svg)?$", block, re.MULTILINE)
                                for block in self.commands), picture)

    def test_is_short(self):
        self.assertLessEqual(len(EXAMPLE.read_text(encoding="utf-8").splitlines()), MOST_LINES)


if __name__ == "__main__":
    unittest.main()
