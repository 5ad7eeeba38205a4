"""What is written into the page, and that nothing outside it is needed. What its scripts make of it is tested in a
browser, in test_page_in_browser.py."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from folder_support import change, folder, rewrite

from experiments.report import main
from plots.page import page as module
from plots.page.page import page, page_data, read_figures
from plots.runs.find import find

CLAIMS = """number,statement,task,step_size,verdict,measured
1,"It is lower, by far",toy,best,holds,2×
1,"It is lower, by far",toy,0.1,fails,
"""


def embedded(text: str) -> dict:
    """The data in a page, with the lists that its runs share in their places."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    for run in data["runs"]:
        run["axes"] = {name: data["lists"][place] for name, place in run["axes"].items()}
    return data


def outline(text: str) -> str:
    """A page without the contents of its scripts and styles."""
    return re.sub(r"(<(script|style)[^>]*>).*?(</\2>)", r"\1\3", text, flags=re.DOTALL)


def test_every_value_of_every_trial_is_in_the_page(tmp_path):
    path = folder(tmp_path, "a", lrs=(0.1, 0.2))
    [run] = embedded(page(find(tmp_path), [], "now"))["runs"]
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for trial, (lr, curve) in enumerate(zip((0.1, 0.2), run["trials"], strict=True)):
        mine = [row for row in rows if row["trial"] == trial]
        assert curve["lr"] == lr
        for name in ("train_loss", "grad_norm", "train_accuracy", "extra"):
            assert curve[name] == [row.get(name) for row in mine]  # what a row does not have is null
        for name in ("round", "epoch", "bits", "seconds"):
            assert run["axes"][name] == [row[name] for row in mine]
    assert (run["workers"], run["ranks"], run["grid"], run["commit"]) == (4, 2, 2, "abcdef0")


def test_labels_cannot_end_the_script_that_holds_them_and_nothing_outside_is_referred_to(tmp_path):
    label = "</script><script>alert(1)</script><!-- é ‖ {{style}}"
    folder(tmp_path, "a", algorithm__display={"label": label, "color": "#000000", "marker": "?"})
    text = page(find(tmp_path), [], "now")
    assert embedded(text)["methods"][0]["label"] == label
    text = outline(text)
    assert "alert(1)" not in text
    assert "{{" not in text
    assert not re.search(r"""(src|href|url|action)\s*[=(]""", text)
    assert "default-src 'none'" in text  # a browser then fetches nothing even if asked to


def test_methods_look_as_in_the_figures(tmp_path):
    for ratio in (0.1, 0.2):
        folder(tmp_path, f"p{ratio}", compressor__ratio=ratio)
    folder(tmp_path, "n", algorithm="noisy")
    found = page_data(find(tmp_path), [], "now")
    looks = {look["label"]: look for look in found["methods"]}
    assert list(looks) == ["Noisy", "Plain"]
    assert [look["color"] for look in looks.values()] == ["#cc0000", "#111111"]
    assert [look["symbol"] for look in looks.values()] == ["square", "circle"]
    assert [look["dark"] for look in looks.values()] == ["#e68080", "#888888"]
    assert [(curve["label"], curve["method"], curve["dash"]) for curve in found["curves"]] == [
        ("Noisy", "noisy", "solid"),
        ("Plain, compressor.ratio=0.1", "plain", "solid"),
        ("Plain, compressor.ratio=0.2", "plain", "10px,4px"),
    ]


def test_settings_in_which_runs_differ_are_listed_in_order_with_what_each_run_has(tmp_path):
    for name, ratio in (("x", 0.25), ("y", 0.0625), ("z", 1)):
        folder(tmp_path, name, compressor__ratio=ratio)
    folder(tmp_path, "n", algorithm="noisy", rounds=200)
    folder(tmp_path, "m", algorithm="noisy", rounds=1000)
    folder(tmp_path, "o", task="other", rounds=30)
    found = page_data(find(tmp_path), [], "now")
    assert {one["key"]: one["values"] for one in found["settings"]} == {
        "rounds": ["30", "100", "200", "1000"],
        "compressor.ratio": ["0.0625", "0.25", "1"],
    }
    have = {run["folder"]: run["settings"] for run in found["runs"]}
    assert have["x"] == {"rounds": "100", "compressor.ratio": "0.25"}
    assert (have["n"], have["o"]) == ({"rounds": "200"}, {"rounds": "30"})


def test_runs_link_to_their_folders(tmp_path):
    place = folder(tmp_path / "results #1", "a")
    seen_from = tmp_path / "pages"
    [run] = page_data(find(tmp_path / "results #1"), [], "now", seen_from=seen_from)["runs"]
    assert run["href"] == "../results%20%231/toy/plain/a"
    assert (seen_from / unquote(run["href"])).resolve() == place
    [run] = page_data(find(tmp_path), [], "now", seen_from=place.parent)["runs"]
    assert run["href"] == "a"


def test_a_page_is_named_after_its_study(tmp_path):
    folder(tmp_path, "a", study="mine")
    assert page_data(find(tmp_path), [], "now")["study"] == "mine"
    folder(tmp_path, "b", seed=1, study="other")
    assert page_data(find(tmp_path), [], "now")["study"] == ""
    assert page_data(find(tmp_path), [], "now", study="asked")["study"] == "asked"


def test_the_best_step_sizes_are_those_of_the_rule(tmp_path):
    for seed in (0, 1):
        folder(tmp_path, f"a{seed}", seed=seed, lrs=(0.1, 0.3, 0.2))
    folder(tmp_path, "b", algorithm="noisy", lrs=(0.1, 0.2), status="running", reached=50)
    [task] = page_data(find(tmp_path), [], "now")["tasks"]
    assert task["best"] == {"noisy": 0.2, "plain": 0.3}
    assert task["rule"].endswith("gradient norm over the last tenth of the rounds and over seeds")


def test_without_loss_and_gradient_norm_only_a_single_step_size_is_best(tmp_path):
    folder(tmp_path, "whole", task="another")
    for name, lrs in (("plain", (0.1,)), ("noisy", (0.1, 0.2))):
        path = folder(tmp_path, name, algorithm=name, lrs=lrs)
        rewrite(path, lambda row: {key: row[key] for key in row if key not in ("train_loss", "grad_norm")})
    another, toy = page_data(find(tmp_path), [], "now")["tasks"]
    assert (another["best"], toy["best"]) == ({"plain": 0.1}, {"plain": 0.1})
    assert another["rule"].endswith("gradient norm over the last tenth of the rounds")
    assert toy["rule"] == "the step sizes it was given, none of them selected"


def test_runs_that_are_not_finished_or_stand_behind_later_ones_are_marked(tmp_path):
    folder(tmp_path, "a")
    folder(tmp_path, "b", time="2026-02-01T00:00:00+00:00")
    folder(tmp_path, "c", seed=1, status="running", reached=50)
    found = page_data(find(tmp_path), [], "now")
    assert found["older"] == 1
    assert {run["folder"]: (run["status"], run["latest"]) for run in found["runs"]} == {
        "b": ("finished", True),
        "c": ("gone", False),  # whatever its status says, nobody holds its lock
    }


def test_code_with_changes_is_told_from_code_without(tmp_path):
    for name, changed in (("a", False), ("b", True)):
        path = folder(tmp_path, name, algorithm=name)
        change(path, "environment.json", lambda about, changed=changed: about | {"uncommitted_changes": changed})
    commits = dict(page_data(find(tmp_path), [], "now")["commits"])
    assert commits == {"abcdef0": 1, "abcdef0 with changes": 1}


def figure(place: Path, name: str, report: str) -> None:
    target = place / "figures" / name
    target.mkdir(parents=True)
    (target / "claims.csv").write_text(CLAIMS)
    (target / "report.md").write_text(report)


def test_claims_come_with_their_figure_and_its_note(tmp_path):
    figure(tmp_path, "b-quick-seeds=[0,1]", "# b\n\n**quick budget: width 8**\n\nA figure. **bold**\n")
    figure(tmp_path, "a", "# a\n\nA figure.\n")
    (tmp_path / "figures" / "no_claims").mkdir()
    first, second = read_figures(tmp_path, tmp_path / "pages")
    assert (first["name"], first["note"]) == ("a", "")
    assert (second["name"], second["note"]) == ("b-quick-seeds=[0,1]", "quick budget: width 8")
    assert second["href"] == "../figures/b-quick-seeds%3D%5B0%2C1%5D/report.md"
    assert second["claims"][1] == {
        "number": "1", "statement": "It is lower, by far", "task": "toy", "step_size": "0.1", "verdict": "fails",
        "measured": "",
    }  # fmt: skip


def test_damaged_claims_are_named_and_left_out(tmp_path, capsys):
    figure(tmp_path, "a", "# a\n")
    figure(tmp_path, "b", "# b\n")
    file = tmp_path / "figures" / "a" / "claims.csv"
    for damage in (b"", b"\xff\xfe"):
        file.write_bytes(damage)
        assert [one["name"] for one in read_figures(tmp_path, tmp_path)] == ["b"]
        assert f"left out: {file}: damaged" in capsys.readouterr().err


def test_seeds_that_gave_the_same_numbers_are_named(tmp_path):
    for seed in (0, 1):
        path = folder(tmp_path, f"same{seed}", seed=seed)
        rewrite(path, lambda row: row | {"grad_norm": 1.0})
        folder(tmp_path, f"other{seed}", seed=seed, algorithm="noisy")
    found = page_data(find(tmp_path), [], "now")["identical"]
    assert found == ["Plain on toy: seeds 0, 1 gave the same numbers."]


@pytest.mark.parametrize("room", [1, 600, 900, 1500, 10**6])
def test_a_page_has_as_many_evaluations_as_it_has_room_for(tmp_path, monkeypatch, room):
    for seed in (0, 1):
        folder(tmp_path, f"{seed}", seed=seed, lrs=(0.1, 0.2), rounds=1000)
    folder(tmp_path, "short", algorithm="short", rounds=100)
    whole = page_data(find(tmp_path), [], "", whole=True)
    monkeypatch.setattr(module, "ROOM", room)
    some = page_data(find(tmp_path), [], "")
    assert (some == whole) == (room == 10**6)
    places = [run["axes"]["round"] for run in some["runs"]]
    assert len(some["lists"]) == len({str(one) for one in some["lists"]})
    assert len(set(places)) == 2  # seeds keep the same
    values = 0
    for one, other in zip(whole["runs"], some["runs"], strict=True):
        rounds, fewer = (found["lists"][run["axes"]["round"]] for found, run in ((whole, one), (some, other)))
        assert (fewer[0], fewer[-1], other["evaluations"]) == (rounds[0], rounds[-1], len(rounds))
        for trial, less in zip(one["trials"], other["trials"], strict=True):  # values stay with their rounds
            at = dict(zip(rounds, trial["grad_norm"], strict=True))
            assert less["grad_norm"] == [at[t] for t in fewer]
        values += len(fewer) * (1 + 4 * len(one["trials"]))
    assert values <= max(room, 2 * (9 + 9 + 5))  # no curve has fewer than its ends


def test_a_page_of_nothing_can_be_made(tmp_path):
    data = embedded(page([], [], "now"))
    assert (data["runs"], data["tasks"], data["methods"], data["figures"]) == ([], [], [], [])


# the command


@pytest.fixture
def results(tmp_path) -> Path:
    """One method on two tasks, another on one of them."""
    for task, algorithm in (("a/toy", "plain"), ("b", "plain"), ("b", "noisy")):
        folder(tmp_path / "results", "run", task=task, algorithm=algorithm)
    return tmp_path / "results"


def test_tasks_and_algorithms_can_be_chosen(results, tmp_path, capsys):
    target = tmp_path / "sub" / "page.html"
    main([f"results_dir={results}", "task=b", "algorithm=noisy", f"out={target}"])
    assert capsys.readouterr().out == f"1 run: {target}\n"
    assert [(run["task"], run["method"]) for run in embedded(target.read_text())["runs"]] == [("b", "noisy")]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ("task=a/tyo", 2, "did you mean a/toy?"),
        ("algorithm=niosy", 2, "did you mean noisy?"),
        ("algoritm=noisy", 2, "did you mean algorithm?"),
        ("report.html", 2, "not of the form key=value"),
        ("results_dir=nowhere", 2, "nowhere: no such folder"),
        ("results_dir=..", 2, "task=b: no run has it"),
        ("out=/dev/full", 2, "out=/dev/full: no such kind of file; Valid: .html, .csv,"),
        ("out=page.doc", 2, "out=page.doc: no such kind of file"),
        ("out=../full.html", 1, "/dev/full: not a regular file, so nothing is written there"),
    ],
)
def test_what_cannot_be_shown_is_refused(results, tmp_path, monkeypatch, capsys, request_, code, message):
    empty = tmp_path / "empty" / "inner"
    empty.mkdir(parents=True)
    (tmp_path / "empty" / "full.html").symlink_to("/dev/full")
    monkeypatch.chdir(empty)
    with pytest.raises(SystemExit) as stop:
        main([f"results_dir={results}", "out=page.html", "task=b", request_])
    assert stop.value.code == code
    assert message in capsys.readouterr().err
    assert not list(empty.iterdir())
