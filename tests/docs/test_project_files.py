"""Dockerfile, citation, changelog and contributing guide agree with the project."""

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def _instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE, re.MULTILINE)


def _locked(lock: str) -> dict[str, str]:
    """The entries of a lock, by the names of packages."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    found = re.findall(r"^([a-z0-9-]+)(==.*\n(?:    .*\n)*)", text, re.MULTILINE)
    assert "".join(map("".join, found)) == re.sub("^#.*\n", "", text)
    return dict(found)


LOCKS = {name: _locked(name) for name in ("build", "torch-cpu", "run", "cuda", "dev", "frameworks")}


def test_what_is_declared_is_locked_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = {
        "run": [*project["dependencies"], *extras["harness"], *extras["sweeps"], *extras["dashboard"]],
        "dev": [*extras["docs"], *extras["dev"]],
        "frameworks": extras["frameworks"],
    }
    for lock, requirements in asked.items():
        assert {re.split("[<>=]", one)[0] for one in requirements} <= set(LOCKS[lock])
    names = [name for lock in LOCKS if lock != "torch-cpu" for name in LOCKS[lock]]
    assert len(names) == len(set(names))
    assert LOCKS["torch-cpu"]["torch"].split()[0] == f"{LOCKS['run']['torch'].split()[0]}+cpu"
    assert not set(LOCKS["torch-cpu"]["torch"].split()) & set(LOCKS["run"]["torch"].split()[2:]) - {"\\"}


def test_nothing_is_installed_unchecked():
    installs = [line for line in made("-B", "setup").stdout.splitlines() if " pip install " in line]
    assert len(installs) == 4
    for line in installs:
        assert "--require-hashes --no-build-isolation " in line
    assert not [run for run in _instructions("RUN") if "pip install" in run]


def test_the_image_is_pinned_and_not_run_by_root():
    [image] = _instructions("FROM")
    least = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert re.fullmatch(rf"python:{re.escape(least)}-slim@sha256:[0-9a-f]{{64}}", image)
    [user] = _instructions("USER")
    assert user != "root"
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("make setup-run") < DOCKERFILE.index("CMD ")


def made(*words: str) -> subprocess.CompletedProcess[str]:
    """What make would do, whether or not these tests were started by make."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", "-n", *words], cwd=ROOT, env=own, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        ("reproduce-figure-3 budget=quick", "figure=figure_3 budget=quick"),
        ("reproduce-figure-2-top-k seeds=[0,1] PYTHON=python3", "figure=figure_2_top_k seeds=[0,1]"),
        ("demo ARGS='rounds=5 jobs=2' 'data_dir=my data'", "figure=demo data_dir=my data rounds=5 jobs=2"),
    ],
)
def test_what_make_is_given_goes_to_the_command(words, passed):
    command = made(*shlex.split(words)).stdout.splitlines()[-1]
    assert " ".join(shlex.split(command)) == f".venv/bin/python -m experiments.reproduce {passed}"


def test_the_papers_are_those_that_the_sources_of_the_methods_name():
    """Every published method's docstring names its authors; the citation lists a paper of theirs."""
    first = {paper["authors"][0]["family-names"] for paper in CITATION["references"]}
    named = set()
    for file in (ROOT / "algorithms").rglob("*.py"):
        for source in re.findall(r"Source: (.+?)(?:\n\n|\"\"\")", file.read_text(), re.DOTALL):
            named |= set(re.findall(r"(\w+)(?:, \w+)*(?: et al\.| and \w+(?: \d{4}|,))", " ".join(source.split())))
    assert {"Wang", "Chen", "Tang", "Richtárik", "Karimireddy", "Kingma", "Gan", "Alistarh", "Horváth"} <= named
    assert named <= first
