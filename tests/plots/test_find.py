"""Many run folders are read by several processes, and what they share is read once: nothing else changes."""

import json
import os
import pickle
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from folder_support import change, folder
from hypothesis import given, settings
from hypothesis import strategies as st

from plots.runs import columns, files, find, workers
from plots.runs.files import configuration
from plots.runs.read import open_run
from plots.runs.variants import distinguish, latest, variant_rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Runs of several states, two of them damaged, one in its rows alone."""
    for seed in range(5):
        folder(tmp_path, f"{seed}", seed=seed, lrs=(0.1, 0.2), algorithm="plain" if seed % 2 else "noisy")
    folder(tmp_path, "begun", status="running", reached=50)
    mine = [{"name": "mine", "better": "higher"}]
    change(folder(tmp_path, "own"), "environment.json", lambda facts: facts | {"columns": mine})
    (folder(tmp_path, "small") / "summary.json").write_text("{}")
    rows = folder(tmp_path, "rows") / "metrics.jsonl"
    rows.write_text(rows.read_text().replace('"round": 10,', '"round": 11,'))
    frozen = tmp_path / "sweeps" / "s" / "jobs" / "missing.yaml"
    frozen.parent.mkdir(parents=True)
    frozen.write_text((tmp_path / "toy" / "plain" / "1" / "config.yaml").read_text())
    return tmp_path


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two processes whatever there are; how many processes were begun."""
    begun: list[int] = []
    pool = workers.ProcessPoolExecutor

    def counted(processes: int, *details: object) -> object:
        begun.append(processes)
        return pool(processes, *details)

    monkeypatch.setattr(workers, "ProcessPoolExecutor", counted)
    monkeypatch.setattr(workers, "EACH", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return begun


def found(results: Path, capsys: pytest.CaptureFixture) -> tuple:
    """What is found, what is whole, its rows, and what is said of the rest."""
    runs = find.find(results)
    whole = find.whole(find.with_rows(runs))
    return runs, whole, variant_rows(latest(distinguish(whole))), capsys.readouterr().err


def test_several_processes_find_what_one_finds(
    results: Path, several: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(columns, "_declared", {})
    runs, whole, rows, said = found(results, capsys)
    assert several == [2, 2]
    assert columns.column("mine").better == "higher"
    monkeypatch.setattr(workers, "EACH", 1000)
    others, also_whole, same_rows, also_said = found(results, capsys)
    assert several == [2, 2]
    assert runs == others
    assert {run.id for run in whole} == {*"01234", "begun", "own"} == {run.id for run in also_whole}
    assert rows.equals(same_rows)
    assert said == also_said
    assert "small: not a whole run" in said
    assert "line 2: its checksum is not that of its content" in said


def _die(thing: int) -> int:
    """Doubled; a process that was begun for it is killed."""
    if os.getpid() != _parent and thing == 3:
        os.kill(os.getpid(), 9)
    return 2 * thing


_parent = os.getpid()


def test_a_process_that_is_killed_changes_nothing(several: list[int]) -> None:
    assert workers.each(_die, range(10)) == [2 * thing for thing in range(10)]
    assert several == [2]


def test_an_error_is_that_of_the_thing(several: list[int]) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        workers.each(int, ["1"] * 9 + ["x"])


def test_no_process_is_left_when_the_command_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom pathlib import Path\nfrom plots.runs import workers\n"
        "workers.EACH = 1\nos.sched_getaffinity = lambda _: {0, 1}\n"
        "def wait(place):\n    Path(place, str(os.getpid())).touch()\n    time.sleep(60)\n"
        "workers._AT_ONCE = 1\nworkers.each(wait, [sys.argv[1]] * 2)\n"
    )
    command = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    command.kill()
    command.wait()
    left = {int(file.name) for file in tmp_path.iterdir()}
    assert len(left) == 2
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = {process for process in left if _is_there(process)}
    assert not left


def _is_there(process: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_run_can_be_sent_with_its_rows(results: Path) -> None:
    run = open_run(results / "toy" / "plain" / "1")
    rows = run.rows
    (run.folder / "metrics.jsonl").unlink()
    assert pickle.loads(pickle.dumps(run)).rows.equals(rows)


# configurations, of which what many have in common is parsed once

QUICK = settings(max_examples=100, deadline=None, derandomize=True)

_names = st.text("abct_:#-&*! \"'\n", min_size=1, max_size=6) | st.sampled_from(
    ["a", "lr", "_target_", "crc32", "true"]
)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("aé \n:\\\u2028", max_size=9)
    | _names
)
_nodes = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3), max_leaves=8
)


@QUICK
@given(st.dictionaries(_names, _nodes, max_size=5), st.booleans(), st.integers(20, 200))
def test_entries_parsed_apart_are_the_document(config: dict, shared: bool, width: int) -> None:
    if shared and config:  # which YAML writes with an anchor
        config["again"] = next(iter(config.values()))
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=width) + "# crc32: 01234567\n"
    assert files._document(text.encode()) == yaml.safe_load(text) == config


@QUICK
@given(st.dictionaries(_names, _nodes, max_size=4), st.data())
def test_what_is_no_document_is_refused_or_read_the_same(config: dict, data: st.DataObject) -> None:
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    place = data.draw(st.integers(0, len(text)))
    text = (
        text[:place]
        + data.draw(st.sampled_from(["", "\n", " ", "# ", "a: ", "'", "[", "- ", "|\n", "\n...\n", "---\n", "*a "]))
        + text[place:]
    )
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            files._document(text.encode())
    else:
        assert files._document(text.encode()) == expected


@pytest.mark.parametrize("text", ["a: 1\n...\nb: 2\n", " a: 1\nb: 2\n", "a: 1\n---\nb: 2\n", "a: &x 1\nb: *y\n"])
def test_what_yaml_refuses_is_refused_though_its_entries_are_well(text: str) -> None:
    for load in (yaml.safe_load, lambda text: files._document(text.encode())):
        with pytest.raises(yaml.YAMLError):
            load(text)


def test_what_runs_share_is_parsed_once(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    load = yaml.load
    monkeypatch.setattr(yaml, "load", lambda content, Loader: parsed.append(content) or load(content, Loader))
    files._entry.cache_clear()
    for seed in range(5):
        place = results / "toy" / ("plain" if seed % 2 else "noisy") / str(seed) / "config.yaml"
        assert configuration(place, place.read_bytes())["seed"] == seed
    assert len(parsed) == len(set(parsed)) < 25
    assert json.dumps(open_run(results / "toy" / "plain" / "1").config)
