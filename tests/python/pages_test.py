"""The scripts of the pages run, as one reader after another would run them: each page's in their order, in one interpreter."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

import adjoin  # noqa: F401
from worlds import on_threads

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def scripts_of(page):
    return re.findall(r"^ *```python\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


class Pages(unittest.TestCase):
    @on_threads
    def test_have_scripts_that_run(self):
        here, run = os.getcwd(), 0
        for page in PAGES:
            names = {"__name__": "__main__"}
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    for number, script in enumerate(scripts_of(page), 1):
                        printed = io.StringIO()
                        with self.subTest(page=page.name, script=number), contextlib.redirect_stdout(printed):
                            exec(compile(script, f"{page.name}, script {number}", "exec"), names)
                        if "print(" in script:
                            self.assertNotEqual(printed.getvalue(), "")
                        run += 1
                finally:
                    os.chdir(here)
        self.assertGreaterEqual(run, 3)


if __name__ == "__main__":
    unittest.main()
