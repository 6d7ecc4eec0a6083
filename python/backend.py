"""Builds the wheel of adjoin, for pip: CMake against the torch of the environment, downloading nothing.

pip runs this apart from the environment's packages, so torch is looked for as the environment's own Python would.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = "2.13"


def version():
    return re.search(r'kVersion = "(.+)"', (ROOT / "adjoin/base/version.hpp").read_text()).group(1)


def torch_folder():
    """The folder of the torch that the wheel is built against."""
    find = "import torch; print(torch.__version__); print(torch.__path__[0])"
    found = subprocess.run([sys.executable, "-I", "-c", find], capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit(f"adjoin: there is no torch in this environment; install torch {TORCH} first: pip install torch=={TORCH}.*")
    torch_version, folder = found.stdout.splitlines()[-2:]
    if torch_version.split(".")[:2] != TORCH.split("."):
        raise SystemExit(f"adjoin: is built for torch {TORCH}, but this environment has torch {torch_version}")
    return folder


def run(*command):
    """Whether a command succeeds. What it prints goes to the errors, as pip reads the output."""
    try:
        return subprocess.run(command, stdout=sys.stderr).returncode == 0
    except FileNotFoundError:
        raise SystemExit("adjoin: cmake and ninja are needed to build; tools/setup installs the other requirements") from None


def built_package():
    """Builds the package, and gives its folder."""
    folder = Path(os.environ.get("ADJOIN_BUILD", ROOT / "build" / "wheel"))
    options = [
        "-DCMAKE_BUILD_TYPE=Release", "-DADJOIN_BUILD_PYTHON=ON", "-DADJOIN_BUILD_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON",
        "-DCMAKE_UNITY_BUILD_BATCH_SIZE=12", f"-DTORCH_DIR={torch_folder()}", f"-DPython3_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count()))
    configure, build = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *options], ["cmake", "--build", folder, "-j", jobs, "--target"]
    if run(*configure):
        built = run(*build, "adjoin_python")
    else:
        print("adjoin: builds the backend of torch.distributed alone: the lines above say what all else lacks", file=sys.stderr)
        built = run(*configure, "-DADJOIN_ONLY_C10D=ON") and run(*build, "adjoin_c10d")
    if not built:
        raise SystemExit("adjoin: cannot be built; the lines above say why (tools/setup installs what is needed)")
    return folder / "python" / "adjoin"


def metadata():
    return (
        "Metadata-Version: 2.1\nName: adjoin\n"
        f"Version: {version()}\nSummary: Trains one neural network on many workers, on threads or MPI\n"
        f"Requires-Python: >=3.10\nRequires-Dist: torch =={TORCH}.*\n"
    )


def tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def write_metadata(folder):
    """The files beside the package that say what it is."""
    info = Path(folder) / f"adjoin-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata())
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: adjoin\nRoot-Is-Purelib: false\nTag: {tag()}\n")
    (info / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())
    return info.name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    torch_folder()  # says what lacks before anything is built
    return write_metadata(metadata_directory)


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = built_package()
    name = f"adjoin-{version()}-{tag()}.whl"
    files = {f"adjoin/{p.relative_to(package)}": p for p in sorted(package.rglob("*")) if p.is_file() and "__pycache__" not in p.parts}
    record = ""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        info = write_metadata(folder)
        files |= {f"{info}/{p.name}": p for p in sorted((Path(folder) / info).iterdir())}
        for path, file in files.items():
            data = file.read_bytes()
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return name
