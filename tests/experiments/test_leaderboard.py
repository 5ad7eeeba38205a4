"""The command that ranks entries, on made-up ones written as the files of a track."""

from pathlib import Path

import pandas as pd
import pytest
from leaderboard_support import entry as rows_of
from real_data import link_sets

from common.errors import UsageError
from experiments import leaderboard
from experiments.config.compose import CONF
from experiments.entries.entry import ENTRY, ROWS, Choice, Entry, find_entries, read_entry, write_entry
from experiments.entries.track import read_track
from experiments.entries.verify import agreement, problems
from experiments.figures.committed import PLACE
from plots.runs import checksums

TRACK = "digits"


def enter(place: Path, name: str, rate: float, bits: float = 32.0, version: str = "", seeds: int = 10) -> None:
    """An entry of the track, with trials among its rows."""
    track = read_track(TRACK)
    task = next(iter(track.tasks))
    judged = rows_of(name, rate, bits, bits, task=task, rounds=2400, every=20, seeds=range(seeds)).assign(judged=True)
    trials = judged[judged["seed"] == 0].assign(judged=False, seed=1000, train_loss=0.0)
    chosen = Choice(setting={"lr": 0.1}, tried={"lr": [0.1, 1.0]}, inside=False, note="", config={})
    entry = Entry(
        track=TRACK, version=version or track.version, name=name, algorithm=name, label=name.title(), color="#D55E00",
        marker="o", family="made up", overrides=[], packages=[], memory=2.0, parts={"memory": name, "update": "SGD"},
        seeds=list(range(seeds)), tasks={task: chosen}, code={}, machines=[],
    )  # fmt: skip
    looks = ["label", "color", "marker", "family", "memory", "part.memory", "part.update", "note", "task_label"]
    rows = pd.concat([trials, judged]).drop(columns=looks).assign(algorithm="any", compressor="Any", run="1")
    write_entry(entry, rows, place / "leaderboard" / TRACK / name)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The committed results and a results folder, with entries in both."""
    committed, own = tmp_path / "committed", tmp_path / "results"
    monkeypatch.setattr(leaderboard, "PLACE", committed)
    enter(committed, "dense", 1.0)
    enter(committed, "signs", 0.01)
    enter(own, "signs", 0.8, 1.0)
    enter(own, "older", 2.0, version="of before")
    return committed, own


def test_committed_and_own_entries_are_ranked_together(places: tuple[Path, Path], capsys) -> None:
    found = leaderboard.ranking(TRACK, places[1])
    assert "older" in capsys.readouterr().out
    easy = found[(found["level"] == 1) & (found["task"] == "all")].set_index("entry")
    assert easy["rank"].to_dict() == {"signs": 1, "dense": 2}  # the own one stands for the committed one
    assert easy["runs"].to_dict() == {"signs": 10, "dense": 10}
    assert easy.loc["signs", "note"].endswith("best at the edge of the grid")


def test_a_damaged_entry_is_left_out_and_named(places: tuple[Path, Path], capsys) -> None:
    enter(places[1], "bomb", 1.0)
    enter(places[1], "torn", 1.0)
    bomb, torn = (places[1] / "leaderboard" / TRACK / name for name in ("bomb", "torn"))
    aliases = "a: &a [x]\nb: [*a, *a]\n"
    (bomb / ENTRY).write_bytes(checksums.as_yaml(aliases, checksums.id_of(bomb)))
    (torn / ROWS).write_bytes((torn / ROWS).read_bytes()[:-9])
    assert set(leaderboard.ranking(TRACK, places[1])["entry"]) == {"signs", "dense"}
    said = capsys.readouterr().out
    assert f"left out: {bomb}: " in said
    assert "aliases" in said
    assert f"left out: {torn}: " in said


def test_what_cannot_replace_a_committed_entry(places: tuple[Path, Path], capsys) -> None:
    committed, own = places
    enter(own, "dense", 3.0, seeds=1)
    enter(committed, "third", 1.0)
    enter(own, "third", 3.0, version="of before")
    folder = own / "leaderboard" / TRACK
    (folder / "signs").rename(folder / "signs.old")
    found = leaderboard.ranking(TRACK, own).query("task == 'all' and level == 1").set_index("entry")
    assert found["runs"].to_dict() == {"dense": 10, "signs": 10, "third": 10}
    assert found["rank"].dropna().to_dict() == {"dense": 1, "third": 1}  # the committed signs are slow
    said = capsys.readouterr().out
    assert f"left out: {folder / 'dense'}: has fewer seeds than the committed entry" in said
    assert f"left out: {folder / 'third'}: has version of before" in said
    assert f"left out: {folder / 'signs.old'}: is the entry signs" in said


def test_a_track_without_usable_entries_does_not_stop_the_others(places, monkeypatch, capsys):
    (places[1] / "leaderboard" / "images" / "torn").mkdir(parents=True)
    (places[1] / "leaderboard" / "images" / "torn" / ENTRY).write_text("torn")
    shown: list[str] = []
    monkeypatch.setattr("plots.leaderboard.publish.publish", lambda name, *_: shown.append(name))
    leaderboard.main([f"results_dir={places[1]}"])
    assert shown == [TRACK]
    assert "track=images: no entries" in capsys.readouterr().out


def test_a_package_has_a_track_of_its_own(tmp_path, monkeypatch, capsys):
    own = tmp_path / "mine" / "conf" / "leaderboard" / f"{TRACK}_of_mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text((CONF / "leaderboard" / f"{TRACK}.yaml").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    enter(tmp_path, "dense", 1.0)
    (tmp_path / "leaderboard" / TRACK).rename(tmp_path / "leaderboard" / own.stem)
    shown: list[str] = []
    monkeypatch.setattr("plots.leaderboard.publish.publish", lambda name, *_: shown.append(name))
    leaderboard.main([f"results_dir={tmp_path}", "packages=[mine]", f"track={own.stem}"])
    assert shown == [own.stem]
    with pytest.raises(SystemExit):
        leaderboard.main([f"results_dir={tmp_path}", f"track={own.stem}"])
    assert "no such track" in capsys.readouterr().err


def test_an_unknown_track_and_one_without_entries(places: tuple[Path, Path]) -> None:
    cases = ("digit", places[1], "no such track"), ("logreg", places[1], "no entries"), (TRACK, "typo", "such folder")
    for track, place, said in cases:
        with pytest.raises(UsageError, match=said):
            leaderboard.ranking(track, place)


def test_entries_agree_as_far_as_their_bits_to_the_levels(tmp_path: Path) -> None:
    for name, rate in (("once", 1.0), ("twice", 2.0), ("never", 0.01)):
        enter(tmp_path, name, rate, seeds=1)
    once, twice, never = (tmp_path / "leaderboard" / TRACK / name for name in ("once", "twice", "never"))
    assert agreement(once, once).endswith("differ by at most 0 %")
    # exp(-t/100) is first seen below 0.3, 0.1 and 0.03 in rounds 140, 240 and 360; exp(-2t/100) in 80, 120 and 180.
    assert agreement(once, twice).endswith("differ by at most 50 %")
    assert agreement(once, never).endswith("differ and only one of them reaches some level")


def test_committed_entries_are_of_the_tracks_of_now() -> None:
    folders = find_entries(PLACE / "leaderboard")
    assert folders
    for folder in folders:
        entry = read_entry(folder)
        assert (entry.track, entry.name) == (folder.parent.name, folder.name)
        assert entry.version == read_track(entry.track).version, folder


@pytest.mark.slow
def test_committed_entries_follow_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = link_sets(tmp_path / "data")
    monkeypatch.setenv("DATA_DIR", str(data))
    needed = {"text": data / "text", "images": data / "cifar10"}
    folders = [one for one in find_entries(PLACE / "leaderboard") if needed.get(one.parent.name, data).exists()]
    assert {folder: found for folder in folders if (found := problems(folder))} == {}


@pytest.mark.slow
def test_the_command_prints_ranks_and_leaves_its_files(places: tuple[Path, Path], capsys) -> None:
    leaderboard.main([f"results_dir={places[1]}"])
    out = capsys.readouterr().out
    first = next(line for line in out.splitlines() if line.startswith("1\t"))
    assert first.split("\t")[1] == "Signs *"
    assert "* has a note in ranking.csv" in out
    target = places[1] / "rankings" / TRACK
    names = [f"{name}.{end}" for name in ("bits", "front", "curves", "effects") for end in ("pdf", "png")]
    assert {file.name for file in target.iterdir()} == {
        *names, "ranking.csv", "pairs.csv", "claims.csv", "effects.csv", "ranking.tex", "ranking.html",
    }  # fmt: skip
    table = pd.read_csv(target / "ranking.csv")
    pd.testing.assert_series_equal(table["bits"], leaderboard.ranking(TRACK, places[1])["bits"])
    page = (target / "ranking.html").read_text()
    assert page.count("<tr") == 1 + len(table)
    assert "http" not in page.replace("http-equiv", "")
    assert r"\toprule" in (target / "ranking.tex").read_text()
