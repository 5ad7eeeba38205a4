"""The list for a borrowed GPU: what is done is skipped, what fails is said, and the deadline is kept."""

import json
import tarfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import devices, gpu
from common.errors import UsageError
from experiments.config.identity import of as run_id
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.training.trainer import Trainer

PROGRAMS = {
    "counts": "import sys\nopen(sys.argv[1], 'a').write('x')\nprint('counted')\n",
    "fails": "raise ValueError('of this size')\n",
    "waits": "import time\nprint('begun')\ntime.sleep(60)\n",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that commands can name."""
    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(gpu.__file__).parents[1]))
    return tmp_path


def run(place: Path, command: str, seconds: float = 300) -> str:
    return gpu.run("one", command, place / "r", time.monotonic() + seconds)


def log(place: Path) -> str:
    return (place / "r" / "items" / "one.log").read_text()


def test_what_is_done_is_not_done_again(place: Path) -> None:
    said = [run(place, f"counts {place}/times") for _ in range(2)]
    assert said == ["done: counted", "done before"]
    assert (place / "times").read_text() == "x"
    run(place, f"counts {place}/times small")  # another command
    assert (place / "times").read_text() == "xx"


def test_a_failure_is_said_and_tried_again(place: Path) -> None:
    for _ in range(2):
        assert run(place, "fails") == "failed: ValueError: of this size"
    assert log(place).count("Traceback") == 2


def test_it_stops_at_the_deadline(place: Path) -> None:
    assert run(place, "waits", 5) == "stopped: begun"
    assert run(place, "waits", 0) == "no time is left"


def test_after_a_failure_the_next_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    list_of_two = [gpu.Item("first", "fails", ""), gpu.Item("second", "counts {results}/times", "")]
    monkeypatch.setattr(gpu, "items", lambda: list_of_two)
    gpu.main(["rehearse=true", f"results_dir={place / 'r'}", f"out={place / 'out'}"])
    assert capsys.readouterr().out == "first: failed: ValueError: of this size\nsecond: done: counted\n"
    assert (place / "out" / "gpu.tar.gz").exists()


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


def test_a_short_comparison_comes_before_the_figures_and_the_whole_one_after() -> None:
    names = [item.name for item in gpu.items()]
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
    saving = [*gpu._ONCE.format(results="elsewhere").split(), "task.cuda_graphs=false"]
    ids = {run_id(load_run([*run, *more])) for more in ([], saving)}
    assert len(ids) == 1


def test_what_is_carried_has_no_checkpoints(tmp_path: Path) -> None:
    run = tmp_path / "r" / "digits" / "one" / "0123"
    (run / "checkpoint").mkdir(parents=True)
    (run / "checkpoint" / "large.pt").write_text("large")
    (run / "metrics.jsonl").write_text("{}\n")
    gpu.pack(tmp_path / "r", tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "gpu.tar.gz") as archive:
        files = {name for name in archive.getnames() if archive.getmember(name).isfile()}
    assert files == {"./digits/one/0123/metrics.jsonl"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["deadlin=3"], "did you mean deadline?"),
        ([], "torch sees no CUDA GPU here"),
    ],
)
def test_a_wrong_call_ends_before_anything_starts(
    given: list[str], said: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        gpu.main(given)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_list_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Every command of the list, tiny and on the CPU. The second call has nothing left to do."""
    given = ["rehearse=true", f"results_dir={tmp_path / 'r'}", f"out={tmp_path / 'out'}"]
    for said in (": done: ", ": done before"):
        gpu.main(given)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(gpu.items())
        assert all(said in line for line in lines), lines
    assert (tmp_path / "out" / "gpu.tar.gz").stat().st_size < 16 * 2**20
