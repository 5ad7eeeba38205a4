"""Renew the locks in this folder from pyproject.toml, with the hashes of all files of a version.

    make lock                        new hashes; versions change only if they no longer fit
    make lock ARGS=--upgrade         the newest versions that fit

    build.lock       pip and setuptools, which install the others
    torch-cpu.lock   torch's builds for CPUs, for installs that choose them: renewed by hand, with torch's version
    run.lock         packages for running
    cuda.lock        further packages of the registry's torch: constraints, used only if that torch needs them
    dev.lock         further packages for tests, checks and documentation
    frameworks.lock  further packages for the frameworks' recipes and their tests

One resolution by uv, for every Python and platform that the project runs on.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).resolve().parent
BUILD = ("pip", "setuptools")
RUN = ("harness", "sweeps", "dashboard")
DEV = ("docs", "dev")
FRAMEWORKS = ("frameworks",)
LOCKS = ("build", "run", "cuda", "dev", "frameworks")
CUDA = re.compile("nvidia-|cuda-|triton$")


def main(arguments: list[str]) -> None:
    before = "".join((FOLDER / f"{lock}.lock").read_text() for lock in LOCKS)
    whole = resolve(RUN + DEV + FRAMEWORKS, before, arguments)
    if f"\n{whole['torch'].split()[0]}+cpu " not in (FOLDER / "torch-cpu.lock").read_text():
        sys.exit(f"requirements/torch-cpu.lock: is not for {whole['torch'].split()[0]}; renew it first")
    run, developing = (resolve(extras, "".join(whole.values()), []) for extras in (RUN, RUN + DEV))
    rest = [name for name in whole if name not in BUILD and not CUDA.match(name)]
    sets = {
        "build": BUILD,
        "run": [name for name in rest if name in run],
        "cuda": [name for name in whole if CUDA.match(name)],
        "dev": [name for name in rest if name in developing and name not in run],
        "frameworks": [name for name in rest if name not in developing],
    }
    for lock, names in sets.items():
        (FOLDER / f"{lock}.lock").write_text("# Written by renew.py.\n" + "".join(whole[name] for name in names))
        print(f"{lock}.lock: {len(names)} packages")


def resolve(extras: tuple[str, ...], before: str, arguments: list[str]) -> dict[str, str]:
    """Return uv's lock entries for these extras, by name. uv keeps the versions in `before` if it can."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    with TemporaryDirectory() as folder:
        asked, lock = Path(folder, "build.in"), Path(folder, "lock")
        asked.write_text("\n".join(BUILD))
        lock.write_text(re.sub(r" \\\n(    .*\n)+", "\n", before))  # without hashes, because uv would keep them
        options = ["--quiet", "--no-header", "--no-annotate", "--universal", "--python-version=3.11"]
        command = [uv, "pip", "compile", *options, "--generate-hashes", *(f"--extra={extra}" for extra in extras)]
        files = ["pyproject.toml", str(asked), "-o", str(lock)]
        subprocess.run([*command, *arguments, *files], cwd=FOLDER.parent, check=True)
        found = re.findall(r"^[a-z0-9].*\n(?:    .*\n)+", lock.read_text(), re.MULTILINE)
        return {re.split("[=;]", entry)[0]: entry for entry in found}


if __name__ == "__main__":
    main(sys.argv[1:])
