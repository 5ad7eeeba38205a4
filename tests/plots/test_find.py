"""What is found below a results folder, and what is said of damage."""

from pathlib import Path

import pytest
from folder_support import change, folder

from plots.runs import columns, find


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


def test_every_state_is_found_and_damage_named(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(columns, "_declared", {})
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
    assert {run.id for run in find.chosen_runs(results)} == {*"01234", "begun", "own"}
    said = capsys.readouterr().err
    assert "small: not a whole run" in said
    assert "line 2: checksum mismatch" in said
