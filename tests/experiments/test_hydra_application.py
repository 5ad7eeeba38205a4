"""What Hydra's documentation says of an application, line by line."""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from hydra import compose as of_hydra
from omegaconf import DictConfig, OmegaConf
from run_support import SMALL, stopped

from experiments import run
from experiments.config import schema
from experiments.config.compose import CONF, compose, composing

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Say:
    """What a command line prints, in an empty folder where it leaves nothing."""
    monkeypatch.chdir(tmp_path)

    def printed(*arguments: str) -> str:
        with suppress(SystemExit):  # as --help ends
            run.main(list(arguments))
        assert list(tmp_path.iterdir()) == []
        return capsys.readouterr().out

    return printed


@pytest.fixture
def extra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user's configurations, whose name needs care, with the method `mine`."""
    folder = tmp_path_factory.mktemp("a folder, é (1)")
    (folder / "algorithm").mkdir()
    display = "display: {label: Mine, color: black, marker: o}"
    (folder / "algorithm" / "mine.yaml").write_text(
        f"# @package _global_\ndefaults: [ef21, _self_]\nalgorithm:\n  name: mine\n  {display}\n"
    )
    return folder


def test_help_lists_choices_and_says_what_keys_mean(say: Say) -> None:
    printed = say("--help")
    words = set(re.split(r"[\s,]+", printed))
    for group in ("algorithm", "compressor", "logger", "sweep"):
        assert {group, *(file.stem for file in (CONF / group).glob("*.yaml"))} <= words
    assert {"logreg/a9a", "digits", "stale=rerun", "cluster.workers=20"} <= words
    assert "data_dir=${oc.env:DATA_DIR,data/downloads} " in printed
    assert not [word for word in words if word.startswith(("_images", "amsgrad_slow")) or "_options" in word]
    for kind in (schema.RunConfig, schema.ClusterConfig, schema.LaunchConfig):
        for one in fields(kind):
            if not schema.is_part(one) and one.name != "cluster":
                assert " ".join(schema.about(one).help.split()) in " ".join(printed.split())


def test_cfg(say: Say) -> None:
    job = yaml.safe_load(say("algorithm=ef21", "seed=3", "--cfg", "job", "--resolve"))
    assert (job["algorithm"]["name"], job["seed"], job["data_dir"]) == ("ef21", 3, "data/downloads")
    assert "hydra" not in job
    hydra = yaml.safe_load(say("--cfg", "hydra"))["hydra"]
    assert (hydra["run"]["dir"], hydra["output_subdir"], hydra["job"]["chdir"]) == (".", None, False)
    assert {"hydra", "seed"} <= yaml.safe_load(say("--cfg", "all")).keys()
    assert "name: logreg/digits" in say("--cfg", "job", "--package", "task")


def test_a_folder_of_the_users(say: Say, extra: Path, capsys: pytest.CaptureFixture) -> None:
    flag = f"--config-dir={extra}"
    assert yaml.safe_load(say(flag, "algorithm=mine", "--cfg", "job"))["algorithm"]["name"] == "mine"
    assert stopped(["-cd", str(extra), "algorithm=mien"]) == 2
    assert "algorithm=mien: no such choice; did you mean mine?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_primary_configuration_of_the_users(say: Say, extra: Path, capsys: pytest.CaptureFixture) -> None:
    (extra / "usual.yaml").write_text("defaults: [config, {override algorithm: mine}, _self_]\nseed: 7\n")
    usual = ["-cd", str(extra), "-cn", "usual"]
    job = yaml.safe_load(say(*usual, "--cfg", "job"))
    assert (job["algorithm"]["name"], job["seed"]) == ("mine", 7)
    assert stopped([*usual, "sede=3"]) == 2
    assert "sede: no such key; did you mean seed?" in capsys.readouterr().err


REFUSED = {
    "-cn nowhere": "Cannot find primary config 'nowhere'",
    "--resolve": "--resolve: goes with --cfg job, which prints the configuration",
    "lr=1e−3": "lr=1e−3: has the dash −; write - instead",
    "--config-path conf": "--config-path: configurations come from conf/; add your own by --config-dir",
    "+seed=3": "Could not append to config. An item is already at 'seed'",
    "-m compressor=top_k,sign compressor.k=3": "compressor=sign: compressor.k: no such key",
    "compressor=stc": "packages=[mine] adds those of a package mine",
    "-m lr=interval(0.1,1)": "does not support sweep type : INTERVAL",
}


@pytest.mark.parametrize(("line", "message"), REFUSED.items(), ids=REFUSED)
def test_what_is_refused(line, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert stopped([*line.split(), *SMALL]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_key_is_refused_before_torch_is_imported() -> None:
    code = "import sys, experiments.run as run\ntry: run.main(['roundz=3'])\nfinally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CONF.parent, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert "did you mean rounds?" in done.stderr


def test_an_option_of_swept_choices_is_theirs_not_the_defaults(say: Say) -> None:
    said = say("-m", "compressor=top_k,random_k", "compressor.k=3", "dry_run=true", *SMALL)
    assert "compressor=TopK" in said
    assert "compressor=RandomK" in said


def test_completion(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, completed in (("compressor=top", "compressor=top_k"), ("cluster.w", "cluster.workers=")):
        monkeypatch.setenv("COMP_LINE", f"python run.py {typed}")
        assert completed in say("--shell-completion", "query=bash").split()
    assert "complete -o nospace" in say("--shell-completion", "install=bash")


@pytest.mark.slow
def test_nothing_is_left_beside_the_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run.main(list(SMALL))
    out = capsys.readouterr().out
    assert re.search(r"^results: results/logreg/breast_cancer/cd_adam/[0-9a-f]{12}$", out, re.MULTILINE)
    run.main(["-m", *SMALL, "study=again"])  # finished, so no further process
    assert "all 1 runs are finished" in capsys.readouterr().err
    assert sorted(map(str, Path().glob("*/*/*"))) == ["results/logreg/breast_cancer", "results/sweeps/again"]
    assert list(map(str, Path().iterdir())) == ["results"]


def flags(node: DictConfig) -> dict[object, object]:
    return {key: dict(node._get_node(key)._metadata.flags or {}) for key in node}  # type: ignore[union-attr]


def test_composing_without_hydras_own_settings_is_composing() -> None:
    groups = ["algorithm=ef21", "task=cifar10/resnet18", "compressor=top_k"]
    both = [*groups, "compressor.ratio=0.05", "lr=[0.1,0.3]"], [*groups, "seed=3"]
    with composing():
        for words in (*both, ["task=digits"], *both):  # later ones start from copies that earlier ones left
            ours, theirs = compose(words), of_hydra("run", words)
            assert OmegaConf.to_yaml(ours, resolve=False) == OmegaConf.to_yaml(theirs, resolve=False)
            assert OmegaConf.is_struct(ours)
            assert flags(ours) == flags(theirs)
