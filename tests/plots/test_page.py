"""What is written into the page, and that nothing outside it is needed. What its scripts make of it is tested in a
browser, in test_page_in_browser.py."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from folder_support import folder, rewrite

from experiments.report import main
from plots.page import page as module
from plots.page.page import as_html, page_data, read_figures
from plots.runs.find import find
from plots.runs.network import Network, modelled_seconds
from plots.runs.results import bits_to_reach
from plots.runs.variants import distinguish, variant_rows

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


def test_every_value_of_every_trial_is_in_the_page(tmp_path):
    path = folder(tmp_path, "a", lrs=(0.1, 0.2))
    [run] = embedded(as_html(page_data(find(tmp_path), [], "now")))["runs"]
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for trial, (lr, curve) in enumerate(zip((0.1, 0.2), run["trials"], strict=True)):
        mine = [row for row in rows if row["trial"] == trial]
        assert curve["lr"] == lr
        for name in ("train_loss", "grad_norm", "train_accuracy", "extra"):
            assert curve[name] == [row.get(name) for row in mine]  # what a row does not have is null
        for name in ("round", "epoch", "bits", "seconds"):
            assert run["axes"][name] == [row[name] for row in mine]


def test_labels_cannot_end_the_script_that_holds_them_and_nothing_outside_is_referred_to(tmp_path):
    label = "</script><script>alert(1)</script><!-- é ‖ {{style}}"
    folder(tmp_path, "a", algorithm__display={"label": label, "color": "#000000", "marker": "?"})
    text = as_html(page_data(find(tmp_path), [], "now"))
    assert embedded(text)["methods"][0]["label"] == label
    outline = re.sub(r"(<(script|style)[^>]*>).*?(</\2>)", r"\1\3", text, flags=re.DOTALL)
    assert "alert(1)" not in outline
    assert "{{" not in outline
    assert not re.search(r"""(src|href|url|action)\s*[=(]""", outline)
    assert "default-src 'none'" in outline  # a browser then fetches nothing even if asked to


def test_methods_look_as_in_the_figures(tmp_path):
    for ratio in (0.1, 0.2):
        folder(tmp_path, f"p{ratio}", compressor__ratio=ratio)
    folder(tmp_path, "n", algorithm="noisy")
    found = page_data(find(tmp_path), [], "now")
    looks = [(look["label"], look["color"], look["symbol"], look["dark"]) for look in found["methods"]]
    assert looks == [("Noisy", "#cc0000", "square", "#e68080"), ("Plain", "#111111", "circle", "#888888")]
    assert [(curve["label"], curve["method"], curve["dash"]) for curve in found["curves"]] == [
        ("Noisy", "noisy", "solid"),
        ("Plain, compressor.ratio=0.1", "plain", "solid"),
        ("Plain, compressor.ratio=0.2", "plain", "10px,4px"),
    ]


def test_methods_with_one_label_have_their_names_beside_it(tmp_path):
    for name, ratio in (("a", 0.1), ("a", 0.2), ("b", 0.1)):
        display = {"label": "Mine", "color": "#111111", "marker": "o"}
        folder(tmp_path, f"{name}{ratio}", algorithm=name, algorithm__display=display, compressor__ratio=ratio)
    methods = page_data(find(tmp_path), [], "now")["methods"]
    assert [look["label"] for look in methods] == ["Mine (a)", "Mine (b)"]


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
    place, seen_from = folder(tmp_path / "results #1", "a"), tmp_path / "pages"
    [run] = page_data(find(tmp_path / "results #1"), [], "now", seen_from=seen_from)["runs"]
    assert run["href"] == "../results%20%231/toy/plain/a"
    assert (seen_from / unquote(run["href"])).resolve() == place


def test_best_step_sizes_and_bits_to_levels_are_those_of_the_rules(tmp_path):
    for seed in (0, 1):
        folder(tmp_path, f"a{seed}", seed=seed, lrs=(0.1, 0.3, 0.2))
    folder(tmp_path, "b", algorithm="noisy", lrs=(0.1, 0.2), status="running", reached=50)
    [task] = embedded(as_html(page_data(find(tmp_path), [], "now")))["tasks"]
    assert task["best"] == {"noisy": 0.2, "plain": 0.3}
    assert task["rule"].endswith("gradient norm over the last tenth of the rounds and over seeds")
    levels, rows = task["targets"]["grad_norm"].values()
    assert levels == [0.1, 0.01, 0.001, 1e-4, 1e-5]
    expected = bits_to_reach(variant_rows(distinguish(find(tmp_path))), "grad_norm", levels)
    for name, some in expected.groupby("algorithm"):
        assert [cell["bits"] for cell in rows[name]] == [None if bits != bits else bits for bits in some["bits"]]
    assert rows["noisy"][-1] == dict.fromkeys(("bits", "round", "lr"))


def test_modelled_seconds_are_those_of_the_network(tmp_path):
    folder(tmp_path, "a", lrs=(0.1, 0.2))
    network = Network(bandwidth=0.25, latency=3.5)
    data = page_data(find(tmp_path), [], "now", network=network)
    frame = variant_rows(distinguish(find(tmp_path)))
    expected = modelled_seconds(frame, network)[frame["lr"] == 0.1]
    assert data["lists"][data["runs"][0]["axes"]["modelled_seconds"]].tolist() == expected.tolist()
    assert data["axes"]["modelled_seconds"]["about"].startswith("Modelled: 0.25 Mbit/s a link")


def test_without_loss_and_gradient_norm_only_a_single_step_size_is_best(tmp_path):
    folder(tmp_path, "whole", task="another")
    for name, lrs in (("plain", (0.1,)), ("noisy", (0.1, 0.2))):
        path = folder(tmp_path, name, algorithm=name, lrs=lrs)
        rewrite(path, lambda row: {key: row[key] for key in row if key not in ("train_loss", "grad_norm")})
    another, toy = page_data(find(tmp_path), [], "now")["tasks"]
    assert (another["best"], toy["best"]) == ({"plain": 0.1}, {"plain": 0.1})
    assert toy["rule"] == "the step sizes it was given, none of them selected"


def test_what_a_reader_must_know_of_the_runs_is_said(tmp_path):
    folder(tmp_path, "a", task="other")
    folder(tmp_path, "b", task="other", time="2026-02-01T00:00:00+00:00")
    folder(tmp_path, "c", task="other", seed=1, status="running", reached=50)
    found = page_data(find(tmp_path), [], "now")
    assert found["notices"] == [
        "Runs that are not finished: 1; left out: 1. other, plain, seed 1: gone, round 50 of 100, left out.",
        "Older runs with the settings of later ones, left out: 1.",
    ]
    assert [run["folder"] for run in found["runs"]] == ["b"]


def test_claims_come_with_their_figure_and_damaged_ones_are_left_out(tmp_path, capsys):
    for name, report in (
        ("b-quick-seeds=[0,1]", "# b\n\n**quick budget: width 8**\n\nA figure. **bold**\n"),
        ("a", "# a\n"),
    ):
        (target := tmp_path / "figures" / name).mkdir(parents=True)
        (target / "claims.csv").write_text(CLAIMS)
        (target / "report.md").write_text(report)
    (tmp_path / "figures" / "no_claims").mkdir()
    first, second = read_figures(tmp_path, tmp_path / "pages")
    assert (first["name"], first["note"]) == ("a", "")
    assert (second["name"], second["note"]) == ("b-quick-seeds=[0,1]", "quick budget: width 8")
    assert second["href"] == "../figures/b-quick-seeds%3D%5B0%2C1%5D/report.md"
    assert second["claims"][1] == {
        "number": "1", "statement": "It is lower, by far", "task": "toy", "step_size": "0.1", "verdict": "fails",
        "measured": "",
    }  # fmt: skip
    file = tmp_path / "figures" / "a" / "claims.csv"
    for damage in (b"", b"\xff\xfe"):
        file.write_bytes(damage)
        assert [one["name"] for one in read_figures(tmp_path, tmp_path)] == ["b-quick-seeds=[0,1]"]
        assert f"left out: {file}: damaged" in capsys.readouterr().err


def test_a_long_curve_keeps_its_ends_and_the_same_rounds_for_all_seeds(tmp_path, monkeypatch):
    for seed in (0, 1):
        folder(tmp_path, f"{seed}", seed=seed, lrs=(0.1, 0.2), rounds=1000)
    whole = page_data(find(tmp_path), [], "")
    monkeypatch.setattr(module, "MOST", 20)
    some = page_data(find(tmp_path), [], "")
    assert len({run["axes"]["round"] for run in some["runs"]}) == 1
    assert [notice for notice in some["notices"] if "20 evaluations at most" in notice]
    for one, other in zip(whole["runs"], some["runs"], strict=True):
        rounds, fewer = (found["lists"][run["axes"]["round"]] for found, run in ((whole, one), (some, other)))
        assert (fewer[0], fewer[-1]) == (rounds[0], rounds[-1])
        assert 10 < len(fewer) <= 20
        for trial, less in zip(one["trials"], other["trials"], strict=True):  # values stay with their rounds
            at = dict(zip(rounds, trial["grad_norm"], strict=True))
            assert less["grad_norm"].tolist() == [at[t] for t in fewer]


def test_a_page_of_nothing_can_be_made():
    data = embedded(as_html(page_data([], [], "now")))
    assert (data["runs"], data["methods"], data["figures"]) == ([], [], [])


# the command


@pytest.fixture
def results(tmp_path) -> Path:
    """One method on two tasks, another on one of them."""
    for task, algorithm in (("a/toy", "plain"), ("b", "plain"), ("b", "noisy")):
        folder(tmp_path / "results", "run", task=task, algorithm=algorithm)
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ("task=a/tyo", 2, "did you mean a/toy?"),
        ("results_dir=nowhere", 2, "nowhere: no such folder"),
        ("x=rounds", 2, "x, y: only tables take them"),
        ("out=page.doc", 2, "out=.doc: no such choice; Valid: .html, .csv, .tex"),
        ("out=../full.html", 1, "/dev/full: not a regular file, so nothing is written there"),
    ],
)
def test_what_cannot_be_shown_is_refused(results, tmp_path, monkeypatch, capsys, request_, code, message):
    empty = tmp_path / "empty" / "inner"
    empty.mkdir(parents=True)
    (tmp_path / "empty" / "full.html").symlink_to("/dev/full")
    monkeypatch.chdir(empty)
    with pytest.raises(SystemExit, match=f"^{code}$"):
        main([f"results_dir={results}", "out=page.html", "task=b", request_])
    assert message in capsys.readouterr().err
    assert not list(empty.iterdir())
