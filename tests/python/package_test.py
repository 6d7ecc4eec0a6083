import ast
import inspect
import unittest
from pathlib import Path

import adjoin
from adjoin import nn


def stubbed(path):
    """The names that a stub defines, and the methods of its classes."""
    names = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            members = [m for m in node.body if isinstance(m, (ast.FunctionDef, ast.AnnAssign))]
            names[node.name] = {m.name if isinstance(m, ast.FunctionDef) else m.target.id for m in members}
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = set()
    return names


class Package(unittest.TestCase):
    def test_stubs_name_what_there_is(self):
        folder = Path(adjoin.__file__).parent
        for module, path in ((adjoin, folder / "__init__.pyi"), (nn, folder / "nn" / "__init__.pyi"), (nn.init, folder / "nn" / "init.pyi"),
                             (adjoin.pipeline, folder / "pipeline.pyi")):
            stub = stubbed(path)
            public = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
            self.assertEqual(public - set(stub), set(), path)
            self.assertEqual({name for name in stub if not hasattr(module, name)}, set(), path)
            for name, members in stub.items():
                lacking = {member for member in members if not hasattr(getattr(module, name), member)}
                own = {"Weights": {"module"}, "Layer": {"weight", "bias"}}.get(name, set())  # of objects, not of the class
                self.assertEqual(lacking - own, set(), name)

    def test_everything_explains_itself(self):
        for module in (adjoin, nn):
            for name, value in vars(module).items():
                if callable(value) and not name.startswith("_"):
                    says = [line for line in (inspect.getdoc(value) or "").splitlines() if line and not line.startswith(f"{name}(")]
                    self.assertTrue(says, name)  # more than how it is called


if __name__ == "__main__":
    unittest.main()
