"""What README.md and docs/ show is true: their C++ stands in programs that the tests compile and run, their pictures and
outputs are what the commands beside them make, and their links lead somewhere.

usage: pages_test.py, with ADJOIN_PROGRAM (the program) and ADJOIN_EXAMPLES (the folder of the built examples)
"""

import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
PROGRAM = os.environ["ADJOIN_PROGRAM"]
EXAMPLES = Path(os.environ["ADJOIN_EXAMPLES"])


def lines_of(text):
    """Without indentation, since a page shows the inside of a function."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(lines, block):
    return any(lines[i:i + len(block)] == block for i in range(len(lines) - len(block) + 1))


class Pages(unittest.TestCase):
    def test_quote_code_that_is_compiled_and_run(self):
        examples = ROOT / "examples"
        programs = [lines_of(path.read_text(encoding="utf-8"))
                    for path in [*examples.glob("*.cpp"), *(examples / "networks").glob("*.hpp")]]
        for page in PAGES:
            for block in re.findall(r"^```cpp\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
                self.assertTrue(any(contains(lines, lines_of(block)) for lines in programs),
                                f"{page.name} shows what no example has:\n{block}")

    def test_show_the_pictures_that_their_commands_draw(self):
        drawn = set()
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for command in re.findall(r"adjoin ((?:collective|layout|pipeline) .* --svg docs/pictures/\S+)$", text, re.MULTILINE):
                *arguments, picture = shlex.split(command)
                with tempfile.TemporaryDirectory() as folder:
                    made = Path(folder) / "picture.svg"
                    subprocess.run([PROGRAM, *arguments, str(made)], check=True, capture_output=True)
                    self.assertEqual(made.read_text(), (ROOT / picture).read_text(), command)
                drawn.add(Path(picture).name)
        self.assertGreaterEqual(len(drawn), 8)

    def test_show_what_pipeline_prints(self):
        text = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
        shown = re.findall(r"^    \$ adjoin (pipeline .*)\n((?:(?:    .+)?\n)+)", text, re.MULTILINE)
        for command, output in shown:
            if "--svg" not in command:
                printed = subprocess.run([PROGRAM, *shlex.split(command)], check=True, capture_output=True, text=True).stdout
                self.assertEqual(lines_of(output), lines_of(printed), command)
        self.assertGreaterEqual(len(shown), 3)

    def test_show_what_their_examples_print(self):
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for command, shown in re.findall(r"^\$ build/release/examples/(.*)\n((?:.+\n)+?)```$", text, re.MULTILINE):
                name, *arguments = shlex.split(command)
                printed = subprocess.run([EXAMPLES / name, *arguments], check=True, capture_output=True, text=True).stdout
                self.expect_same_text(shown, printed, places=3)

    def test_of_the_readme_prints_what_is_shown(self):
        shown = (ROOT / "README.md").read_text(encoding="utf-8").split("It prints\n\n```\n")[1].split("```")[0]
        printed = subprocess.run([EXAMPLES / "tensor_parallel_mlp"], check=True, capture_output=True, text=True).stdout
        self.expect_same_text(shown, printed, places=4)

    def test_have_links_that_lead_somewhere(self):
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
                if "://" not in link:
                    self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")
        index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
        for page in (ROOT / "docs").glob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)

    def expect_same_text(self, shown, printed, places):
        """But for how other processors round."""
        number = r"\d+\.\d+"
        self.assertEqual(re.sub(number, "#", shown), re.sub(number, "#", printed))
        for expected, came in zip(re.findall(number, shown), re.findall(number, printed), strict=True):
            self.assertAlmostEqual(float(expected), float(came), places=places)


if __name__ == "__main__":
    unittest.main()
