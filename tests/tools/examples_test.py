"""Every example understands --ranks, --backend, --json and --help; heat and the networks of pictures are the same on any
number of workers.

usage: examples_test.py Examples|DataParallel|Sharded|ExportedProgram|OwnTask|HuggingFace|Pipeline|Heat|LeNet5|Networks
"""

import json
import os
import struct
import subprocess
import tempfile
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


NETWORKS = ["resnet", "unet", "vgg"]  # which take a minute where they are not told otherwise
LOOPS = ["hugging_face", "own_task"]  # which print what training does
BARE = ["tensor_parallel_mlp"]  # which shows a whole program, without options
OF_PROGRAM = ["--precision", "fp64", "--program", os.environ["ADJOIN_DIGITS_PROGRAM"]]
REPORTERS = ["deadlock", "my_broadcast", "wrong_gradient"]  # which print what the library reports, however long a line is


def example_of(name):
    example, = [example for example in EXAMPLES if example.name == name]
    return example


def quickly(example):
    if example.name == "exported_program":
        return [*OF_PROGRAM, "--steps", "1"]
    return ["--steps", "1"] if example.name in NETWORKS else []


def run(example, *options, processes=0):
    job = [os.environ["ADJOIN_MPIEXEC"], "-n", str(processes)] if processes else []
    return subprocess.run([*job, example, *options], capture_output=True, text=True, env=ENVIRONMENT)


def assert_refused(test, result, message):
    test.assertEqual((result.returncode, result.stdout), (2, ""), result)
    test.assertIn(message, result.stderr)
    test.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


class Examples(unittest.TestCase):
    def each(self):
        for example in EXAMPLES:
            if example.name in LOOPS + BARE:
                continue
            with self.subTest(example=example.name):
                yield example

    def assert_fits(self, text):
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_explain_their_options(self):
        for example in self.each():
            result = run(example, "--help")
            self.assertEqual(result.returncode, 0, result)
            for option in ["--ranks", "--backend", "--json"]:
                self.assertIn(option, result.stdout)
            self.assert_fits(result.stdout)

    def test_print_text(self):
        for example in self.each():
            text = run(example, *quickly(example), "--backend", "threads", "--ranks", "4")
            self.assertEqual((text.returncode, text.stderr), (0, ""), text)
            self.assertNotIn("{\"", text.stdout)
            if example.name not in REPORTERS:
                self.assert_fits(text.stdout)

    def test_refuse_what_they_cannot_do(self):
        for name in ["all_reduce", "deadlock", "heat"]:  # all read these by the same lines
            example = example_of(name)
            assert_refused(self, run(example, "--ranks", "0"), "--ranks is 0, expected 1 to 1024")
            assert_refused(self, run(example, "--backend", "mpi"), "--backend mpi: ")
            assert_refused(self, run(example, "--backend", "smoke"), "expected auto, threads or mpi")
            assert_refused(self, run(example, "--no-such-option"), "--no-such-option")

    def test_print_one_object(self):
        for name in ["deadlock", "heat"]:  # under mpirun the others do, and the first ends the job
            result = run(example_of(name), "--ranks", "4", "--json")
            self.assertEqual((result.returncode, result.stderr), (0, ""), result)
            self.assertTrue(json.loads(result.stdout))

    def test_print_one_object_under_mpirun(self):
        for example in self.each():
            result = run(example, *quickly(example), "--json", processes=2)
            if example.name == "deadlock":  # ends the job, which prints what is wrong
                self.assertEqual((result.returncode, result.stdout), (1, ""), result)
                self.assertIn("deadlock: these calls can never end", result.stderr)
                continue
            self.assertEqual(result.returncode, 0, result)
            self.assertTrue(json.loads(result.stdout))


class OwnTask(unittest.TestCase):
    def train(self, folder, *options, processes=0):
        out = Path(folder) / "run"
        result = run(example_of("own_task"), "--epochs", "3", "--out", out, *options, processes=processes)
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue((out / "model.safetensors").exists())
        return json.loads((out / "summary.json").read_text())

    def test_trains_the_same_on_any_layout(self):
        with tempfile.TemporaryDirectory() as folder:
            points = Path(folder) / "points.csv"
            points.write_text("".join(f"{x / 50},{abs(x / 50 - 1)}\n" for x in range(100)))
            one = self.train(folder, "--data", points)
            self.assertLess(one["test_error"], 0.5)
            for layout in [("--dp", "3"), ("--tp", "2"), ("--dp", "2", "--tp", "2"), ("--ranks", "2")]:
                self.assertAlmostEqual(self.train(folder, "--data", points, *layout)["test_loss"], one["test_loss"], 5)
            for layout in [("--dp", "2"), ("--ranks", "2")]:
                mpi = self.train(folder, "--data", points, *layout, processes=2)
                self.assertAlmostEqual(mpi["test_loss"], one["test_loss"], 5)

    def test_refuses_a_file_of_no_points(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run(example_of("own_task"), "--data", "/none", "--out", Path(folder) / "run")
            assert_refused(self, result, "expected at least 20 lines")


class HuggingFace(unittest.TestCase):
    def probabilities(self, *options):
        result = run(example_of("hugging_face"), *options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        lines = [line.split() for line in result.stdout.splitlines() if " probability " in line]
        self.assertEqual([line[0] in ("negative", "positive") for line in lines], [True, True], result)
        return [(line[0], float(line[2].rstrip(":"))) for line in lines]

    def test_scores_texts_on_one_worker_and_on_two(self):
        one, two = self.probabilities(), self.probabilities("--tp", "2")
        for (label, probability), (same, found) in zip(one, two, strict=True):
            self.assertEqual(same, label)
            self.assertAlmostEqual(found, probability, 4)

    def test_refuses_a_folder_without_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            assert_refused(self, run(example_of("hugging_face"), folder), folder)
            assert_refused(self, run(example_of("hugging_face"), "/nowhere"), "/nowhere: there is no such folder")


class Pipeline(unittest.TestCase):
    def trained(self, schedule, *options, processes=0):
        result = run(example_of("pipeline"), "--json", "--schedule", schedule, *options, processes=processes)
        self.assertEqual(result.returncode, 0, result)
        found = json.loads(result.stdout)
        self.assertLessEqual(found["loss_difference"], 1e-9)
        self.assertLess(found["losses"][-1], found["losses"][0] / 2)
        return found

    def test_has_the_losses_of_one_worker_by_each_schedule(self):
        for schedule in ["gpipe", "1f1b", "zb-h1"]:
            self.assertEqual(self.trained(schedule, "--ranks", "3")["stages"], 3)
        self.assertEqual(self.trained("interleaved", "--ranks", "2")["stages"], 4)
        self.assertEqual(self.trained("zb-h1", processes=2)["stages"], 2)

    def test_draws_its_schedule(self):
        self.assertIn("   0  F0F1....B0==F2", run(example_of("pipeline"), "--ranks", "2").stdout)

    def test_refuses_a_schedule_that_is_none(self):
        assert_refused(self, run(example_of("pipeline"), "--schedule", "2f2b"), "2f2b")


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


class Digits(unittest.TestCase):
    def trained(self, *options, processes=0):
        result = run(example_of(self.example), "--json", *options, processes=processes)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return json.loads(result.stdout)

    def assert_equals_one_worker(self, ranks, *more, steps=20):
        options = ["--precision", "fp64", "--steps", str(steps), *more]
        expected = self.trained(*options, "--ranks", "1")["losses"]
        self.assertEqual(len(expected), steps)
        for how in ranks:
            with self.subTest(**how):
                count = ["--ranks", str(how["threads"])] if "threads" in how else []
                losses = self.trained(*options, *count, processes=how.get("processes", 0))["losses"]
                for one, found in zip(expected, losses, strict=True):
                    self.assertAlmostEqual(found, one, delta=1e-9)

class DataParallel(Digits):
    example = "data_parallel"

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"processes": 2}], steps=10)

    def test_learns_real_digits(self):
        found = self.trained("--data", str(DATA / "mnist"), "--ranks", "2", "--steps", "200")
        self.assertGreaterEqual(found["test_accuracy"], 0.9)


class AnyModule(Digits):
    example = "any_module"

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"threads": 4}, {"processes": 2}], steps=10)

    def test_learns_real_digits(self):
        found = self.trained("--data", str(DATA / "mnist"), "--ranks", "2", "--steps", "200")
        self.assertGreaterEqual(found["test_accuracy"], 0.9)


class ExportedProgram(Digits):
    example = "exported_program"

    def trained(self, *options, processes=0):
        return super().trained(*OF_PROGRAM[2:], *options, processes=processes)

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"threads": 4}, {"processes": 2}], steps=10)

    def test_has_the_losses_of_one_worker_in_stages(self):
        self.assert_equals_one_worker([{"threads": 3}, {"processes": 2}], "--stages", steps=5)

    def test_gives_its_weights_back_to_python_in_both_forms(self):
        import safetensors.torch
        import torch

        with tempfile.TemporaryDirectory() as folder:
            for name in ["new.pt2", "new.safetensors"]:
                self.trained("--precision", "fp64", "--steps", "3", "--ranks", "2", "--stages", "--out", f"{folder}/{name}")
            program, before = (torch.export.load(path) for path in [f"{folder}/new.pt2", OF_PROGRAM[-1]])
            state = safetensors.torch.load_file(f"{folder}/new.safetensors")
            for key, value in state.items():
                self.assertTrue(torch.equal(program.state_dict[key], value), key)
            self.assertFalse(torch.equal(state["1.weight"], before.state_dict["1.weight"]))
            x = torch.randn(4, 1, 28, 28, dtype=torch.float64)
            results = []
            for module in [program.module(), before.module()]:
                if results:
                    module.load_state_dict(state)
                torch.manual_seed(1)
                results.append(module(x))
            self.assertTrue(torch.equal(*results))


class Sharded(Digits):
    example = "sharded"

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"processes": 2}], steps=10)

    def test_goes_on_with_fewer_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--precision", "fp64", "--steps"]
            expected = self.trained(*options, "20", "--ranks", "1")["losses"]
            first = self.trained(*options, "10", "--ranks", "4", "--save", folder)["losses"]
            for ranks, processes in [(["--ranks", "2"], 0), (["--ranks", "1"], 0), ([], 2)]:
                with self.subTest(ranks=ranks, processes=processes):
                    rest = self.trained(*options, "10", *ranks, "--load", folder, processes=processes)["losses"]
                    for one, found in zip(expected, first + rest, strict=True):
                        self.assertAlmostEqual(found, one, delta=1e-9)

    def test_refuses_a_folder_without_a_checkpoint(self):
        assert_refused(self, run(example_of("sharded"), "--load", "/nowhere"), "/nowhere/model.safetensors")

    def test_learns_real_digits(self):
        found = self.trained("--data", str(DATA / "mnist"), "--ranks", "2", "--steps", "200")
        self.assertGreaterEqual(found["test_accuracy"], 0.9)


class LeNet5(Digits):
    example = "lenet5"

    def test_has_the_losses_of_one_worker(self):
        self.assert_equals_one_worker([{"threads": 3}, {"threads": 4}, {"processes": 2}])

    def test_learns_real_digits(self):
        found = self.trained("--data", str(DATA / "mnist"), "--ranks", "2")
        self.assertGreaterEqual(found["test_accuracy"], 0.97)

    def test_refuses_what_it_cannot_read(self):
        for options, message in [(["--precision", "fp16"], "--precision is fp16, expected fp32 or fp64"),
                                 (["--steps", "0"], "--steps is 0, expected 1 to 1000000"),
                                 (["--steps", "0x2"], "--steps is 0x2, expected 1 to 1000000"),
                                 (["--steps", "99999999999999999999"], "999, expected 1 to 1000000"),
                                 (["--data", ""], "--data is empty, expected a folder"),
                                 (["--data", "/nowhere"], "/nowhere: expected a file t10k-images-idx3-ubyte")]:
            assert_refused(self, run(example_of("lenet5"), *options), message)

    def test_refuses_pictures_of_another_size(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures, labels = Path(folder, "t10k-images-idx3-ubyte"), Path(folder, "t10k-labels-idx1-ubyte")
            pictures.write_bytes(struct.pack(">4I", 0x803, 250, 14, 56) + bytes(250 * 14 * 56))
            labels.write_bytes(struct.pack(">2I", 0x801, 250) + bytes(250))
            assert_refused(self, run(example_of("lenet5"), "--data", folder),
                           "expected at least 250 pictures of 28 x 28 pixels, got 250 of 14 x 56")

    def test_reads_steps_as_decimal_numbers(self):
        self.assertEqual(len(self.trained("--steps", "010", "--ranks", "1")["losses"]), 10)

    def test_has_one_exit_code_for_a_wrong_request(self):
        for processes in [0, 2]:
            with self.subTest(processes=processes):
                result = run(example_of("lenet5"), "--data", "/nowhere", "--ranks", "2", processes=processes)
                self.assertEqual(result.returncode, 2, result)


class Networks(unittest.TestCase):
    def losses(self, name, *options, processes=0):
        result = run(example_of(name), "--json", "--steps", "2", *options, processes=processes)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return json.loads(result.stdout)["losses"]

    def assert_close(self, expected, found, delta):
        self.assertEqual(len(expected), 2)  # the second has the gradients of the first
        for one, other in zip(expected, found, strict=True):
            self.assertAlmostEqual(one, other, delta=delta)

    def test_have_the_losses_of_one_worker(self):
        for name in ["resnet", "vgg"]:
            expected = self.losses(name, "--ranks", "1")
            for options, processes in [(["--ranks", "4"], 0), (["--ranks", "3", "--cut", "channels"], 0), ([], 2)]:
                with self.subTest(network=name, options=options, processes=processes):
                    self.assert_close(expected, self.losses(name, *options, processes=processes), 1e-9)

    def test_segments_as_one_worker(self):
        expected = self.losses("unet", "--ranks", "1", "--png", "")
        self.assert_close(expected, self.losses("unet", "--ranks", "6", "--png", ""), 1e-4)  # in float32

    def test_refuse_what_they_cannot_do(self):
        for name, options, message in [("resnet", ["--cut", "depth"], "--cut is depth, expected space or channels"),
                                       ("vgg", ["--steps", "0"], "--steps is 0, expected 1 to 1000000"),
                                       ("unet", ["--steps", "x"], "--steps is x, expected 1 to 1000000"),
                                       ("unet", ["--png", "/nowhere/u.png"], "/nowhere/u.png")]:  # at once
            assert_refused(self, run(example_of(name), *options), message)

    def test_keep_the_old_picture_where_the_new_one_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "u.png")
            command = [example_of("unet"), "--steps", "1", "--ranks", "1", "--png", path]
            subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
            old = path.read_bytes()
            self.assertTrue(old.startswith(b"\x89PNG\r\n\x1a\n"))
            full = ["bash", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "-"]  # as on a disk that is full after 4 KiB
            result = subprocess.run([*full, *command], capture_output=True, text=True, env=ENVIRONMENT)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn("u.png: cannot be written: File too large", result.stderr)
            self.assertEqual((path.read_bytes(), os.listdir(folder)), (old, ["u.png"]))


if __name__ == "__main__":
    unittest.main()
