"""Names and texts that would act on a terminal, split a line or turn text around."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from run_support import SMALL, configuration, stopped

from common import tables
from common.characters import acting, visible, within
from common.errors import UsageError
from experiments import report, status
from experiments.config.run import frozen, plain
from experiments.config.schema import Reproduction
from experiments.figures.configuration import read
from plots.request import parse
from plots.runs.checksums import renew
from plots.runs.columns import Column

SIGNS = ["\n", "\r", "\x1b[2J", "\x07", "\x00", "\x7f", "\x9b1m", "\u2028", "\u2029", "\u202e", "\ud800"]
KEYS = [
    "study", "results_dir", "data_dir", "task.name", "task.display.label", "algorithm.name",
    "algorithm.display.label", "algorithm.display.color", "algorithm.display.marker", "task.partition", "lr_schedule",
]  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
def test_each_of_them_is_found_and_written_out(sign: str) -> None:
    for node in (f"a{sign}b", [f"a{sign}b"], {"a": {f"a{sign}b": 3}}):
        assert within(node, "key")
    assert not acting(visible(f"a{sign}b"))


def damaged(key: str, sign: str) -> dict:
    """A configuration with a sign within the text of a key."""
    config = plain(configuration(*SMALL, "study=mine"))
    *groups, last = key.split(".")
    node = config
    for group in groups:
        node = node[group]
    node[last] = f"{node[last]}{sign}x"
    return config


@pytest.mark.parametrize("key", KEYS)
def test_no_value_of_a_run_holds_one(key: str, tmp_path: Path) -> None:
    for sign in SIGNS[:-1]:
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(damaged(key, sign), allow_unicode=False))
        with pytest.raises(UsageError, match="would act on a terminal or split a line; leave it out") as refused:
            frozen(tmp_path / "job.yaml", [])
        assert str(refused.value).startswith(f"{key}: holds \\")
        assert not acting(str(refused.value))


def test_a_key_that_holds_one(tmp_path: Path) -> None:
    config = plain(configuration(*SMALL))
    config["task"]["a\x1b[2Jb"] = 3
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UsageError, match=r"task.a\\x1b\[2Jb: holds \\x1b"):
        frozen(tmp_path / "job.yaml", [])


@pytest.mark.parametrize("key", ["results_dir", "study", "algorithm.display.label"])
def test_nor_does_one_of_the_command_line(key: str, capsys: pytest.CaptureFixture) -> None:
    assert stopped([*SMALL, f'{key}="a\x1b[2Jb"']) == 2
    said = capsys.readouterr().err
    assert "\\x1b" in said
    assert not acting(said, "\n")


@pytest.mark.parametrize("main", [status.main, report.main])
def test_nor_a_folder_that_is_looked_at(main, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "a\x1b[2Jb").mkdir()
    with pytest.raises(SystemExit) as ended:
        main([f"results_dir={tmp_path / 'a'}\x1b[2Jb"])
    said = capsys.readouterr().err
    assert (ended.value.code, acting(said, "\n")) == (2, "")
    assert "holds \\x1b" in said


def test_nor_a_figure() -> None:
    node = {"name": "mine", "title": "a\x1b[2Jb", "grid": [["seed=0"]], "rows": [{"x": "bits", "y": "grad_norm"}]}
    with pytest.raises(UsageError, match=r"figure.title: holds \\x1b"):
        read(Reproduction(figure=node), lambda: False)
    assert read(Reproduction(figure={**node, "title": "a\nb"}), lambda: False).title == "a\nb"


@pytest.mark.parametrize("field", ["name", "label", "unit", "wandb"])
def test_nor_a_column(field: str) -> None:
    with pytest.raises(ValueError, match=rf"its {field} holds \\x1b, a control character"):
        Column(**{"name": "x", field: "a\x1b[2Jb"})


def test_nor_what_is_asked_of_results() -> None:
    with pytest.raises(UsageError, match=r"out: holds \\n"):
        parse(["out=a\nb"], {"out": ""})


@pytest.mark.slow
def test_nor_the_folder_that_data_are_fetched_into() -> None:
    done = subprocess.run([sys.executable, "-m", "data", "data_dir=a\x1b[2Jb"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "data_dir=a\\x1b[2Jb: holds \\x1b" in done.stderr
    assert not acting(done.stderr, "\n")


def test_what_folders_hold_is_written_out(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Of results that something else wrote: names, states, errors, and paths."""
    from run_support import go

    for number, sign in enumerate(SIGNS[:-1]):
        if sign in "\0":
            continue
        path = go(*SMALL, f"seed={number}", f"results_dir={tmp_path}")
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["algorithm"]["name"] = f"a{sign}b"
        config["study"] = f"a{sign}b"
        (path / "config.yaml").write_text(yaml.safe_dump(config))
        (path / "status.json").write_text(
            json.dumps({"status": "failed", "error": f"a{sign}b", "time": "2026-01-01T00:00:00+00:00"})
        )
        renew(path.rename(path.with_name(f"{path.name}{sign}")))
    capsys.readouterr()
    status.main([f"results_dir={tmp_path}"])
    out = capsys.readouterr().out
    assert not acting(out, "\n\t")
    assert "a\\x1b[2Jb" in out


def test_tables_keep_their_lines(capsys: pytest.CaptureFixture) -> None:
    from rich.console import Console

    tables.show(Console(), ["a"], [["x\ny\tz\x1b[2J"]])
    assert capsys.readouterr().out == "a\nx\\ny\\tz\\x1b[2J\n"
    assert tables.markdown(["a"], [["x\ny"]])[-1] == "| x\\ny |"


def test_letters_of_any_script_are_no_such_characters() -> None:
    for text in ("é ‖ × → − ‑ 汉字 हिन्दी עברית 👍🏽 a b", "λ_max ≤ 10⁻³"):
        assert acting(text) == ""
        assert visible(text) == text
        assert within({text: [text, {"x": text}]}) is None
