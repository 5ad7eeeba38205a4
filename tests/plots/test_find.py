"""What is found below a results folder, and what is said of damage."""

import errno
import os
import re
from pathlib import Path

import pytest
import yaml
from folder_support import change, folder
from renewing import renew

from plots.runs import columns, find
from plots.runs.files import read_yaml


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
    for file in (frozen, tmp_path / "toy" / "config.yaml"):  # the second is a stray file
        file.write_text((tmp_path / "toy" / "plain" / "1" / "config.yaml").read_text())
    return tmp_path


def test_every_state_is_found_and_damage_named(results: Path, capsys: pytest.CaptureFixture) -> None:
    runs = find.find(results)
    assert {run.id: run.state for run in runs} == {
        **dict.fromkeys("01234", "finished"),
        "begun": "gone",
        "own": "finished",
        "small": "damaged",
        "rows": "damaged",
        "missing": "missing",
    }
    assert columns.column("mine").better == "higher"
    assert {run.id for run in find.choose_runs(results)} == {*"01234", "begun", "own"}
    assert re.search("line 2: checksum mismatch.*small: not a complete run", capsys.readouterr().err, re.DOTALL)


def test_rows_that_were_edited_after_a_run_was_opened_are_noticed(tmp_path: Path) -> None:
    path = folder(tmp_path, "1", lrs=(0.1,))
    before, after = find.open_run(path), find.open_run(path)
    rows = before.rows["round"].tolist()
    (path / "metrics.jsonl").write_text((path / "metrics.jsonl").read_text().replace('"round": 10,', '"round": 11,'))
    with pytest.raises(ValueError, match="line 2: checksum mismatch"):
        _ = after.rows
    assert before.rows["round"].tolist() == rows


BOMBS = {
    "deep": "[" * 10**5,
    "aliases": "a: &a [x]\nb: [*a, *a]\n",
    "itself": "a: &a [*a]\n",
    "digits": f"seed: {'7' * 4000}\n",
    "keys": "".join(f"k{number}: 1\n" for number in range(10**5)),
    "none": "{}\n",
    "a list": "- 1\n",
    "no YAML": "a: {\n",
}


def test_neither_a_link_nor_an_endless_file_takes_the_others_down(results: Path) -> None:
    for name in ("summary.json", ".lock", "metrics.jsonl"):
        bad = folder(results, f"pipe {name}", status="running" if name == ".lock" else "finished")
        (bad / name).unlink(missing_ok=True)
        os.mkfifo(bad / name)
    for name in ("config.yaml", "metrics.jsonl"):
        os.truncate(folder(results, f"endless {name}") / name, 2**40)
    file = folder(results, "a folder") / "status.json"
    file.unlink()
    file.mkdir()
    (results / "linked").symlink_to(results / "toy" / "plain")
    runs = {run.id: run for run in find.find(results)}
    bad = {name for name, run in runs.items() if run.state == "damaged"}
    assert {name for name in runs if name.startswith(("pipe", "endless", "linked", "a "))} == bad - {"small", "rows"}
    assert len(bad) == 9
    assert "linked: a link, which is not followed" in runs["linked"].error
    assert runs["0"].is_finished


def test_no_folder_takes_the_others_down(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a signed configuration says, and where a folder cannot be read."""
    for name, text in BOMBS.items():
        bomb = folder(results, name)
        (bomb / "config.yaml").write_text(text)
        renew(bomb)
    shut, scandir = folder(results, "shut").parent, os.scandir

    def guarded(place: object) -> object:
        if Path(str(place)) == shut / "shut":
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", guarded)
    runs = {run.id: run for run in find.find(results)}
    assert {run.state for name, run in runs.items() if name in BOMBS} == {"damaged"}
    assert all(f"{runs[name].folder}" in runs[name].error for name in BOMBS)
    assert runs["shut"].folder == shut / "shut"
    assert runs["0"].is_finished


@pytest.mark.parametrize(
    "text",
    ["a: b", "\nb: 2", "c:\nd: 4\n", "# no comment", "\n# e: 5", "f\n\ng: '6'", '"h: [', "{i: 7", "é: ü", "- 8"],
)
def test_a_configuration_is_read_as_the_whole_document_is(text: str) -> None:
    """Keys are parsed one by one, whatever stands in a value and however a key is written."""
    config = {"first": text, text: {"inner": [text, {"deeper": text * 30}]}, "list": [1.0, text], "last_2": text}
    content = yaml.safe_dump(config, sort_keys=False, allow_unicode=True) + "# crc32: 01234567\n"
    assert read_yaml(content.encode(), Path()) == config
