"""The list for a borrowed GPU: what is done is not done again, what fails is kept, and the deadline is kept too."""

import json
import math
import tarfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import devices, gpu
from benchmarks.gpu import Item, do, main, pack
from common.errors import UsageError
from data import shakespeare
from experiments.config.identity import identity, settings
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.training.trainer import Trainer

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
    (tmp_path / "waits.py").write_text("import time\nprint('begun')\ntime.sleep(60)\n")
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
    refused = [
        "algorithm=econtrol compressor=uniform_quantize", "algorithm=marina compressor=top_k",
        "algorithm=muloco partition=layer",  # a tensor of two, which its compressor does not take
    ]  # fmt: skip
    taken = ["algorithm=econtrol compressor=top_k", "algorithm=marina compressor=natural", "algorithm=cd_adam"]
    layout = devices.network([*devices.COMMON.split(), "task.model.width=2"])
    for words in refused:
        with pytest.raises(UsageError):
            devices.combined(words, [], layout)
    for words in taken:
        devices.combined(words, [], layout)


ON_THE_CPU = ["device=cpu", "rounds=6", "task.model.width=2", "cluster.workers=2"]


def compared(names: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The rows after these were compared, the CPU with itself."""
    monkeypatch.setattr(devices, "_names", lambda every: iter(names))
    with suppress(SystemExit):
        devices.main([f"file={folder / 'd.jsonl'}", *ON_THE_CPU])
    return [json.loads(line) for line in (folder / "d.jsonl").read_text().splitlines()]


def test_methods_with_a_period_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in compared(["algorithm=diloco", "algorithm=muloco"], tmp_path, monkeypatch):
        assert row["difference"] == 0


def test_what_was_compared_or_refused_is_not_even_composed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["algorithm=sgd", "algorithm=adam compressor=top_k"]
    first = compared(names, tmp_path, monkeypatch)
    assert ["difference" in row for row in first] == [True, False]
    assert "takes Identity" in first[1]["refused"]
    monkeypatch.setattr(devices, "combined", None)
    assert compared(names, tmp_path, monkeypatch) == first


def test_a_difference_that_is_no_number_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = devices._trained

    def at_rest(run: RunConfig) -> Trainer:
        return trained(replace(run, rounds=0))

    monkeypatch.setattr(devices, "_trained", at_rest)
    [row] = compared(["algorithm=sgd"], tmp_path, monkeypatch)
    assert "nothing to compare: on the CPU x moved by 0.0" in row["error"]


def test_after_a_lost_gpu_the_next_call_does_the_others_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def lost(*arguments: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    names = ["algorithm=sgd", "algorithm=ef21"]
    with monkeypatch.context() as patch:
        patch.setattr("torch.cuda.is_initialized", lambda: True)
        patch.setattr("torch.cuda.synchronize", lost)
        patch.setattr(devices, "_trained", lost)
        [row] = compared(names, tmp_path, patch)
    assert (row["of"], row["is_gpu_lost"]) == (names[0], True)
    assert f"error: {names[0]}: lost the GPU to this process" in capsys.readouterr().err
    rows = compared(names, tmp_path, monkeypatch)
    assert [row["of"] for row in rows] == [names[0], names[1], names[0]]
    assert "2 combinations" in capsys.readouterr().out


def test_without_its_data_set_an_item_is_skipped(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item("five", f"counts {programs}/times", rehearsing="", data="shakespeare")
    monkeypatch.setenv("DATA_DIR", str(programs))
    deadline = time.monotonic() + 300
    assert do(item, programs / "r", False, deadline) == f"skipped: shakespeare is not in {programs}"
    assert do(item, programs / "r", True, deadline).startswith("done after")  # a rehearsal has another
    (programs / "times").unlink()
    (programs / "r" / "items" / "five.json").unlink()
    (programs / "text").mkdir()
    (programs / "text" / shakespeare.FILE).write_text("")
    assert do(item, programs / "r", False, deadline).startswith("done after")


def test_decoded_data_sets_are_found(tmp_path: Path) -> None:
    assert not gpu._is_there("shakespeare", tmp_path)
    shakespeare_again = tmp_path / "cache" / f"tiny shakespeare-{shakespeare.SHA256[:12]}.npz"
    shakespeare_again.parent.mkdir()
    shakespeare_again.write_bytes(b"")
    assert gpu._is_there("shakespeare", tmp_path)
    assert not gpu._is_there("cifar10", tmp_path)


def test_graphs_are_left_out_until_their_test_has_passed(programs: Path) -> None:
    (programs / "prints.py").write_text("import sys\nprint(sys.argv[1:])\n")
    item = Item("six", "prints", rehearsing="", has_graphs=True)
    for before, said in (("fails", "['task.cuda_graphs=false']"), ("prints", "[]")):
        (programs / "r" / "items" / "six.json").unlink(missing_ok=True)
        do(Item("graphs", before, rehearsing=""), programs / "r", False, time.monotonic() + 300)
        assert do(item, programs / "r", False, time.monotonic() + 300).endswith(said)


def test_what_fails_with_graphs_is_done_without_them(programs: Path) -> None:
    lines = ["import sys", "print(sys.argv[1:])", "sys.exit('task.cuda_graphs=false' not in sys.argv)"]
    (programs / "picky.py").write_text("\n".join(lines))
    do(Item("graphs", f"counts {programs}/times", rehearsing=""), programs / "r", False, time.monotonic() + 300)
    item = Item("seven", "picky", rehearsing="", has_graphs=True)
    said = do(item, programs / "r", False, time.monotonic() + 300)
    assert said.startswith("done after")
    assert said.endswith("['task.cuda_graphs=false']")
    assert do(item, programs / "r", False, time.monotonic() + 300) == "done before"


def test_a_short_comparison_comes_before_the_figures_and_the_whole_one_after() -> None:
    names = [item.name for item in gpu._items()]
    figures = [number for number, name in enumerate(names) if name.startswith("figure")]
    assert names.index("devices") < min(figures) < max(figures) < names.index("devices-all")
    short, every = (set(devices._names(choice)) for choice in (False, True))
    methods = {name.split()[0] for name in every}
    assert methods == {name.split()[0] for name in short}
    assert len(methods) < len(short) < len(every) / 10
    assert short < every


def test_what_saves_time_makes_no_other_run() -> None:
    """Checkpoints that are few, and not forced onto the disk; nor do CUDA graphs."""
    run = ["task=digits", "algorithm=cd_adam"]
    saving = [*gpu._ONCE.format(results_dir="elsewhere").split(), "task.cuda_graphs=false"]
    ids = {identity(settings(load_run([*run, *more])), {}) for more in ([], saving)}
    assert len(ids) == 1


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
def test_the_whole_list_rehearsed(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of the list for real, tiny and on the CPU, however long it takes; the second call has nothing
    left to do."""
    items = [replace(item, limit=math.inf) for item in gpu._items()]
    monkeypatch.setattr(gpu, "_items", lambda: iter(items))
    given = ["rehearse=true", f"results_dir={tmp_path / 'r'}", f"out={tmp_path / 'out'}"]
    main(given)
    for item in items:
        assert record(tmp_path / "r", item.name)["status"] == "done", item.name
    capsys.readouterr()
    main(given)
    assert all(" done before" in line for line in capsys.readouterr().out.splitlines())
    assert (tmp_path / "out" / "gpu.tar.gz").stat().st_size < 16 * 2**20
