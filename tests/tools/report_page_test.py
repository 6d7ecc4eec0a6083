#!/usr/bin/env python3
"""Opens reports in headless Chromium: nothing is asked of the network, nothing is wrong in the console, and the pointer finds every
point of every chart with its exact step and value.

usage: ADJOIN_PROGRAM=build/release/adjoin tests/tools/report_page_test.py
"""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import browser

STRANGE = '<img src="x" onerror="document.title=1"> & \'run\' </script>'


def write_run(folder, steps, seed, measure="accuracy"):
    """What a training run leaves, as far as a report reads it."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / ".adjoin").touch()
    ranks = [{"rank": rank, "stages": [rank], "parameters": 1000, "peak_memory_bytes": 3 << 20, "computing_seconds": 5.0 + rank,
              "waiting_seconds": 2.0 - rank, "communicating_seconds": 1.0, "data_seconds": 0.25, "hidden_seconds": 0.5}
             for rank in range(2)]
    actions = [[{"action": "FB"[i % 2], "stage": rank, "microbatch": i // 2, "begin": i + rank, "end": i + rank + 0.9}
                for i in range(6)] for rank in range(2)]
    summary = {"adjoin": "1", "libtorch": "2", "host": "<b>host</b>", "date": "2026-01-01T00:00:00Z", "ranks": ranks,
               "config": {"preset": "tiny", "model": "classifier", "pp": 2, "data": "/nowhere", "text_column": STRANGE},
               "train_loss": 0.5, "test_loss": 0.5, "train_seconds": 9.0, "skipped_steps": 0,
               "pipeline_step": {"step": 3, "ranks": [{"rank": rank, "actions": actions[rank]} for rank in range(2)]}}
    (folder / "summary.json").write_text(json.dumps(summary))
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps({"kind": "step", "step": step, "epoch": step / steps, "loss": draw.random(), measure: draw.random(),
                                   "learning_rate": 1e-3 * step, "tokens_per_second": draw.uniform(1e4, 1.1e4),
                                   "step_seconds": draw.uniform(0.1, 0.2), "skipped": False}) + "\n")
            if step % 10 == 0:
                file.write(json.dumps({"kind": "validation", "step": step, "loss": draw.random(), measure: draw.random()}) + "\n")


class ReportPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="adjoin-report-")
        root = Path(cls.folder.name)
        write_run(root / "plain", 30, 1)
        write_run(root / "long", 20_000, 2)
        write_run(root / "other", 30, 3, measure="bits_per_byte")
        write_run(root / "<i>marked & up" / "</script>", 30, 4)
        cls.page = root / "report.html"
        subprocess.run([os.environ["ADJOIN_PROGRAM"], "report", root / "plain", root / "long", root / "other",
                        root / "<i>marked & up" / "</script>", "--out", cls.page], check=True, stdout=subprocess.DEVNULL)
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def open(self, width=1200, dark=False):
        self.browser.open(self.page.as_uri(), width, dark)

    def test_asks_for_nothing_and_says_nothing_in_the_console(self):
        self.open()
        asked = [event["request"]["url"] for method, event in self.browser.events if method == "Network.requestWillBeSent"]
        self.assertEqual(asked, [self.page.as_uri()])
        told = [event for method, event in self.browser.events
                if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
        self.assertEqual(told, [])

    def test_shows_markup_as_text(self):
        self.open()
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img, i, td b').length"), 0)
        text = self.browser.evaluate("document.body.textContent")
        for words in (STRANGE, "<b>host</b>", "<i>marked & up"):
            self.assertIn(words, text)

    def test_fits_a_narrow_window(self):
        for width in (400, 1200):
            self.open(width)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_is_dark_where_the_reader_wants_it(self):
        colours = []
        for dark in (False, True):
            self.open(dark=dark)
            colours.append(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(colours, ["rgb(255, 255, 255)", "rgb(21, 23, 26)"])

    def test_shows_step_and_value_of_every_point(self):
        self.open()
        charts = self.browser.evaluate("data.charts")
        self.assertEqual(len(charts), self.browser.evaluate("document.querySelectorAll('svg.chart').length"))
        # As a pointer's events come, at each point's place; what the tip then says.
        tips = self.browser.evaluate("""[...document.querySelectorAll("svg.chart")].map((svg, i) => {
          const {x, y, curves} = data.charts[i], all = [];
          for (const c of curves) {
            let step = 0;
            c.steps.forEach((d, k) => {
              step += d;
              const v = c.values[k], h = y[4] ? Math.log(v / y[2]) / Math.log(y[3] / y[2]) : (v - y[2]) / (y[3] - y[2]);
              const p = new DOMPoint(x[0] + (x[1] - x[0]) * (step - x[2]) / (x[3] - x[2]), y[0] + (y[1] - y[0]) * h)
                .matrixTransform(svg.getScreenCTM());
              svg.dispatchEvent(new PointerEvent("pointermove", {clientX: p.x, clientY: p.y}));
              all.push(document.getElementById("tip").hidden ? "" : document.getElementById("tip").textContent);
            });
          }
          return all;
        })""")
        checked = 0
        for chart, shown in zip(charts, tips):
            place = 0
            for curve in chart["curves"]:
                step = 0
                for difference, value in zip(curve["steps"], curve["values"]):
                    step += difference
                    name, told = shown[place].split("\n", 1)
                    self.assertIn(f"step {step:,}: ", shown[place])
                    self.assertTrue(any(float(line.split(": ")[1]) == value for line in told.split("\n") if ": " in line),
                                    f"step {step} is {value}: {shown[place]}")
                    place += 1
                    checked += 1
        self.assertGreater(checked, 2_000)

    def test_answers_the_real_pointer(self):
        self.open()
        x, y = self.browser.evaluate("(r => [r.x + r.width / 2, r.y + r.height / 2])("
                                     "document.querySelector('svg.chart').getBoundingClientRect())")
        self.browser.move_to(x, y)
        self.assertRegex(self.browser.evaluate("document.getElementById('tip').textContent"), r"\nstep [\d,]+: [\d.]+")
        self.browser.move_to(1, 1)
        self.assertTrue(self.browser.evaluate("document.getElementById('tip').hidden"))

    def test_has_every_point_of_a_short_run(self):
        self.open()
        charts = self.browser.evaluate("data.charts.map(c => c.curves.map(v => [data.runs[v.run], v.values.length]))")
        lengths = [length for chart in charts for name, length in chart if name.endswith("/plain")]
        self.assertEqual(sorted(lengths), [3, 3, 30, 30, 30, 30, 30])


if __name__ == "__main__":
    unittest.main()
