"""Control characters in names and texts are written out wherever a terminal or a table would obey them."""

import json
from pathlib import Path

import pytest
import yaml
from renewing import renew
from run_support import SMALL, go

from common import tables
from common.errors import visible
from experiments import status
from plots.figure.markdown import row_table

SIGNS = ["\n", "\r", "\x1b[2J", "\x07", "\x00", "\x7f", "\x9b1m", "\u2028", "\u2029", "\ud800"]


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
def test_each_of_them_is_written_out(sign: str) -> None:
    assert visible(f"é{sign}b") == f"é{ascii(sign)[1:-1]}b"
    assert visible(f"é{sign}b", allowed=sign) == f"é{sign}b"


def test_what_other_people_s_folders_hold(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    sign = "\x1b[2J"
    path = go(*SMALL, f"results_dir={tmp_path}")
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["algorithm"]["name"] = config["study"] = f"a{sign}b"
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    failed = {"status": "failed", "error": f"a{sign}b", "time": "2026-01-01T00:00:00+00:00"}
    (path / "status.json").write_text(json.dumps(failed))
    renew(path.rename(path.with_name(f"{path.name}{sign}")))
    capsys.readouterr()
    status.main([f"results_dir={tmp_path}"])
    out = capsys.readouterr().out
    assert "a\\x1b[2Jb" in out
    assert "\x1b" not in out


def test_tables_keep_their_lines(capsys: pytest.CaptureFixture) -> None:
    from rich.console import Console

    tables.show(Console(), ["a"], [["x\ny\tz\x1b[2J"]])
    assert capsys.readouterr().out == "a\nx\\ny\\tz\\x1b[2J\n"
    assert row_table(["a"], [["x\ny"]])[-1] == "| x\\ny |"
