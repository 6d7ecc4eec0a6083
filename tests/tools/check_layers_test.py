"""tools/check_layers on trees that break one rule each."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_layers"


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)


class CheckLayers(unittest.TestCase):
    def assert_reported(self, name, text, *words):
        result = check({name: text})
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith(name + ": "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_accepts_a_layer_that_uses_the_layers_above_it(self):
        result = check({"adjoin/nn/linear.cpp": '#include <ATen/core/Tensor.h>\n#include "adjoin/movement/copy_to.hpp"\n',
                        "adjoin/comm/algorithm/tree.cpp": '#include "adjoin/base/error.hpp"\n',
                        "tests/nn/linear_test.cpp": '#include "adjoin/models/transformer.hpp"\n'})
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_reports_a_layer_that_uses_one_below_it(self):
        self.assert_reported("adjoin/comm/a.hpp", '#pragma once\n#include "adjoin/partition/split.hpp"\n',
                             "comm is above partition")

    def test_reports_a_nested_folder_that_uses_a_layer_below_it(self):
        self.assert_reported("adjoin/comm/algorithm/a.cpp", '#  include <adjoin/nn/linear.hpp>\n', "comm/algorithm is above nn")

    def test_reports_rooms_of_a_layer_that_use_each_other(self):
        self.assert_reported("adjoin/comm/host/a.cpp", '#include "adjoin/comm/launch.hpp"\n', "comm/host is above comm ")
        self.assertEqual(check({"adjoin/comm/launch.cpp": '#include "adjoin/comm/host/group.hpp"\n'}).returncode, 0)

    def test_reports_libtorch_in_a_layer_without_it(self):
        for header in ["torch/types.h", "ATen/core/Tensor.h", "c10/util/Half.h"]:
            self.assert_reported("adjoin/partition/a.cpp", f"#include <{header}>\n", header)

    def test_reports_libtorch_through_headers_in_a_layer_without_its_headers(self):
        files = {"adjoin/nn/a.hpp": "#include <ATen/core/Tensor.h>\n", "adjoin/train/b.hpp": '#include "adjoin/nn/a.hpp"\n',
                 "adjoin/train/c.hpp": "", "adjoin/cli/a.cpp": '#include "adjoin/train/c.hpp"\n#include "adjoin/train/b.hpp"\n'}
        self.assertEqual(check(files).stderr, "adjoin/cli/a.cpp: cli is without LibTorch's headers but includes adjoin/train/b.hpp, "
                         "which includes adjoin/nn/a.hpp, which includes ATen/core/Tensor.h\n")
        del files["adjoin/cli/a.cpp"]
        self.assertEqual(check(files).returncode, 0)

    def test_reports_the_whole_of_libtorch_anywhere(self):
        for name in ["adjoin/nn/a.cpp", "tests/nn/a_test.cpp", "bench/a.cpp", "examples/a.cpp"]:
            self.assert_reported(name, "#include <torch/torch.h>\n", "torch/torch.h")

    def test_reports_custom_function_in_a_header(self):
        text = "#include <torch/csrc/autograd/custom_function.h>\n"
        self.assert_reported("adjoin/movement/a.hpp", text, "custom_function.h")
        self.assertEqual(check({"adjoin/movement/a.cpp": text}).returncode, 0)

    def test_reports_a_long_main_and_a_long_file(self):
        self.assert_reported("adjoin/cli/main.cpp", "//\n" * 81, "81 lines, 80")
        self.assert_reported("adjoin/nn/a.cpp", "//\n" * 401, "401 lines, 400")
        self.assertEqual(check({"adjoin/cli/main.cpp": "//\n" * 80, "adjoin/nn/a.cpp": "//\n" * 400}).returncode, 0)

    def test_reports_folders_that_are_no_layer(self):
        self.assert_reported("adjoin/utils/a.hpp", "", "no layer")
        self.assert_reported("adjoin/nn/a.hpp", '#include "adjoin/utils/a.hpp"\n', "no layer")

    def test_refuses_a_tree_without_sources(self):
        self.assertNotEqual(check({}).returncode, 0)


if __name__ == "__main__":
    unittest.main()
