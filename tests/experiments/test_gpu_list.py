"""The list for a borrowed GPU: what is done is not done again, what fails is kept, and the deadline is kept too."""

import json
import tarfile
import time
from pathlib import Path

import pytest

from benchmarks import devices, gpu
from benchmarks.gpu import Item, do, main, pack
from common.errors import UsageError
from experiments.config.run import load_run

COUNTS = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text("x" + (file.read_text() if file.exists() else ""))
print("counted", file.read_text())
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that items can name."""
    (tmp_path / "counts.py").write_text(COUNTS)
    (tmp_path / "fails.py").write_text("raise ValueError('of this size')\n")
    (tmp_path / "waits.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(gpu.__file__).parents[1]))
    return tmp_path


def record(results: Path, name: str) -> dict:
    return json.loads((results / "items" / f"{name}.json").read_text())


def test_what_is_done_is_not_done_again(programs: Path) -> None:
    item = Item("one", f"counts {programs}/times", rehearsing="small")
    for _ in range(2):
        said = do(item, programs / "r", rehearse=False, deadline=time.monotonic() + 300)
    assert said == "done before"
    assert (programs / "times").read_text() == "x"
    kept = record(programs / "r", "one")
    assert (kept["status"], kept["exit_status"], kept["command"]) == ("done", 0, item.command)
    assert kept["torch"]
    do(item, programs / "r", rehearse=True, deadline=time.monotonic() + 300)  # another command
    assert (programs / "times").read_text() == "xx"
    assert "counted x" in (programs / "r" / "items" / "one.log").read_text()


def test_a_failure_is_kept_and_tried_again(programs: Path) -> None:
    item = Item("two", "fails", rehearsing="")
    for _ in range(2):
        said = do(item, programs / "r", rehearse=False, deadline=time.monotonic() + 300)
        assert said.startswith("failed after")
        assert "ValueError: of this size" in said
    assert record(programs / "r", "two")["status"] == "failed"
    assert (programs / "r" / "items" / "two.log").read_text().count("Traceback") == 2


def test_it_stops_before_the_deadline(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "RESERVE", 2.0)
    begin = time.monotonic()
    said = do(Item("three", "waits"), programs / "r", rehearse=False, deadline=begin + 5)
    assert said.startswith("stopped after")
    assert record(programs / "r", "three")["status"] == "stopped"
    assert "begun" in (programs / "r" / "items" / "three.log").read_text()
    assert do(Item("four", "counts"), programs / "r", False, begin + 5) == "skipped: no time is left"


def test_devices_are_compared_on_what_fits_together() -> None:
    refused = ["algorithm=econtrol compressor=uniform_quantize", "algorithm=marina compressor=top_k"]
    taken = ["algorithm=econtrol compressor=top_k", "algorithm=marina compressor=natural", "algorithm=cd_adam"]
    for words in refused:
        with pytest.raises(UsageError):
            devices.require_fit(load_run([*devices.COMMON.split(), *words.split()]))
    for words in taken:
        devices.require_fit(load_run([*devices.COMMON.split(), *words.split()]))


def test_an_item_may_need_what_is_not_there(programs: Path) -> None:
    said = do(Item("five", "counts", needs="conf/other.yaml"), programs / "r", False, time.monotonic() + 300)
    assert said == "skipped: conf/other.yaml is not there"


def test_what_is_carried_has_no_checkpoints(tmp_path: Path) -> None:
    run = tmp_path / "r" / "digits" / "one" / "0123"
    (run / "checkpoint").mkdir(parents=True)
    (run / "checkpoint" / "large.pt").write_text("large")
    (run / "metrics.jsonl").write_text("{}\n")
    pack(tmp_path / "r", tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "gpu.tar.gz") as archive:
        files = {name for name in archive.getnames() if archive.getmember(name).isfile()}
    assert files == {"./digits/one/0123/metrics.jsonl"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["deadlin=3"], "did you mean deadline?"),
        (["deadline=soon"], "deadline=soon: seconds, a positive number"),
        ([], "torch sees no CUDA GPU here"),
    ],
)
def test_a_wrong_call_ends_before_anything_starts(
    given: list[str], said: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        main(given)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_list_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Every command of the list for real, tiny and on the CPU; the second call has nothing left to do."""
    given = ["rehearse=true", f"results_dir={tmp_path / 'r'}", f"out={tmp_path / 'out'}"]
    main(given)
    for item in gpu._items():
        if (gpu.ROOT / item.needs).exists():
            assert record(tmp_path / "r", item.name)["status"] == "done", item.name
    capsys.readouterr()
    main(given)
    assert all(" done before" in line or "is not there" in line for line in capsys.readouterr().out.splitlines())
    assert (tmp_path / "out" / "gpu.tar.gz").stat().st_size < 16 * 2**20
