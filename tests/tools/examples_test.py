"""Every example understands --ranks, --backend, --json and --help; heat and LeNet-5 are the same on any number of workers.

usage: examples_test.py Examples|Heat|LeNet5
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ADJOIN_DATA_DIR", ROOT.parent / "shared" / "data"))
EXAMPLES = [Path(name) for name in os.environ["ADJOIN_EXAMPLES"].split(":")]
# As root, on more ranks than cores, and in a container, where OpenMPI's single-copy messages are not permitted.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


def example_of(name):
    example, = [example for example in EXAMPLES if example.name == name]
    return example


def run(example, *options, processes=0):
    job = [os.environ["ADJOIN_MPIEXEC"], "-n", str(processes)] if processes else []
    return subprocess.run([*job, example, *options], capture_output=True, text=True, env=ENVIRONMENT)


class Examples(unittest.TestCase):
    def each(self):
        for example in EXAMPLES:
            with self.subTest(example=example.name):
                yield example

    def assert_refused(self, example, options, message):
        result = run(example, *options)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertIn(message, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_explain_their_options(self):
        for example in self.each():
            result = run(example, "--help")
            self.assertEqual(result.returncode, 0, result)
            for option in ["--ranks", "--backend", "--json"]:
                self.assertIn(option, result.stdout)

    def test_print_text_or_one_object(self):
        for example in self.each():
            text = run(example, "--backend", "threads", "--ranks", "4")
            self.assertEqual((text.returncode, text.stderr), (0, ""), text)
            self.assertNotIn("{\"", text.stdout)
            result = run(example, "--ranks", "4", "--json")
            self.assertEqual((result.returncode, result.stderr), (0, ""), result)
            self.assertTrue(json.loads(result.stdout))

    def test_refuse_what_they_cannot_do(self):
        for example in self.each():
            self.assert_refused(example, ["--ranks", "0"], "--ranks is 0, expected 1 to 1024")
            self.assert_refused(example, ["--backend", "mpi"], "--backend mpi: ")
            self.assert_refused(example, ["--backend", "smoke"], "expected auto, threads or mpi")
            self.assert_refused(example, ["--no-such-option"], "--no-such-option")

    def test_print_once_under_mpirun(self):
        for example in self.each():
            result = run(example, "--json", processes=2)
            if example.name == "deadlock":  # ends the job, which prints what is wrong
                self.assertEqual((result.returncode, result.stdout), (1, ""), result)
                self.assertIn("deadlock: these calls can never end", result.stderr)
                continue
            self.assertEqual(result.returncode, 0, result)
            self.assertTrue(json.loads(result.stdout))


class Heat(unittest.TestCase):
    def assert_equals_one_worker(self, *options, processes=0):
        result = run(example_of("heat"), "--json", *options, processes=processes)
        self.assertEqual(result.returncode, 0, result)
        found = json.loads(result.stdout)
        self.assertLessEqual(found["state_difference"], 1e-12)
        self.assertLessEqual(found["gradient_difference"], 1e-12)
        self.assertLessEqual(found["last_misfit"], found["first_misfit"] / 100)

    def test_on_threads_equals_one_worker(self):
        for ranks in [1, 3, 4, 6]:
            with self.subTest(ranks=ranks):
                self.assert_equals_one_worker("--ranks", str(ranks))

    def test_under_mpirun_equals_one_worker(self):
        for processes in [1, 2, 6]:
            with self.subTest(processes=processes):
                self.assert_equals_one_worker(processes=processes)


class LeNet5(unittest.TestCase):
    def trained(self, *options, processes=0):
        result = run(example_of("lenet5"), "--json", *options, processes=processes)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return json.loads(result.stdout)

    def assert_equals_one_worker(self, ranks):
        options = ["--precision", "fp64", "--steps", "50"]
        expected = self.trained(*options, "--ranks", "1")["losses"]
        self.assertEqual(len(expected), 50)
        for how in ranks:
            with self.subTest(**how):
                count = ["--ranks", str(how["threads"])] if "threads" in how else []
                losses = self.trained(*options, *count, processes=how.get("processes", 0))["losses"]
                for one, found in zip(expected, losses, strict=True):
                    self.assertAlmostEqual(found, one, delta=1e-9)

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"threads": 4}, {"processes": 2}])

    def test_learns_real_digits(self):
        found = self.trained("--data", str(DATA / "mnist"), "--ranks", "2")
        self.assertGreaterEqual(found["test_accuracy"], 0.97)

    def test_refuses_what_it_cannot_read(self):
        for options, message in [(["--precision", "fp16"], "--precision is fp16, expected fp32 or fp64"),
                                 (["--steps", "0"], "--steps is 0, expected at least 1"),
                                 (["--data", "/nowhere"], "/nowhere: expected a file t10k-images-idx3-ubyte")]:
            result = run(example_of("lenet5"), *options)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
