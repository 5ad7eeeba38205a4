"""The configuration reference says everything that the configuration holds, as it is there."""

from __future__ import annotations

import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from docs.extensions.pages import pages
from docs.extensions.settings import CONF, File, files, groups

CHOICES = [(group, file.name) for group in groups() for file in files(group) if not file.shared]
BUILT = sorted({group for group in groups() if any("_target_" in file.text for file in files(group))})


def _leaves(node: object, prefix: str = "") -> list[str]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in _leaves(value, f"{prefix}{key}.")]
    return [prefix.removesuffix(".")]


def _composed(name: str, *overrides: str) -> list[str]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config: DictConfig = compose(name, list(overrides))
    leaves = _leaves(OmegaConf.to_container(config, resolve=False))
    return [leaf for leaf in leaves if not leaf.endswith("_target_")]


written = cache(pages)


@cache
def _shown() -> set[str]:
    """The keys that the reference has an entry for."""
    names = ["keys", *BUILT]
    lines = [line for name in names for line in written()[f"configuration/{name}.rst"]]
    return {key for line in lines for key in re.findall(r"^``([\w.]+)``(?: = |$)", line)}


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name)
def test_every_composed_key_is_in_the_reference(file):
    asked_for = [group for group, name in file.brings.items() if name == "???"]
    composed = _composed(file.name, *(f"{group}={files(group)[-1].name}" for group in asked_for))
    whole = {group for group in groups() if group not in BUILT}  # whose files are shown themselves
    missing = {leaf for leaf in composed if leaf.partition(".")[0] not in whole} - _shown()
    assert not missing


@pytest.mark.parametrize(("group", "name"), [choice for choice in CHOICES if choice[0] in BUILT])
def test_every_key_that_a_choice_brings_is_in_the_reference(group, name):
    assert set(_composed("config", f"{group}={name}")) <= _shown()


@pytest.mark.parametrize("group", groups())
def test_every_choice_has_an_entry_and_no_other(group):
    lines = written()[f"configuration/{group}.rst"]
    titles = [line for line, below in pairwise(lines) if below and set(below) == {"-"}]
    names = [file.name for file in files(group)]
    assert [title.strip("`") for title in titles] == names
    assert {str(path.relative_to(CONF / group).with_suffix("")) for path in (CONF / group).rglob("*.yaml")} == set(
        names
    )


@pytest.mark.parametrize(
    "file", [file for group in ["", *BUILT] for file in files(group)], ids=lambda file: file.name
)
def test_defaults_are_those_of_the_file(file: File):
    prefix = "" if "_global_" in file.text else f"{file.group}." if file.group else ""
    for key, default, _ in file.settings:
        value = file.values
        for part in key.removeprefix(prefix).split("."):
            value = value[part]
        assert isinstance(value, dict) if not default else yaml.safe_load(default) == value, key


def test_a_comment_on_two_lines_is_one_meaning():
    [schedule] = [setting for setting in File(CONF / "config.yaml").settings if setting.key == "lr_schedule"]
    text = (CONF / "config.yaml").read_text()
    first, second = re.search(r"lr_schedule: \S+ +# (.*)\n +# (.*)", text).groups()
    assert schedule.meaning == f"{first} {second}"


def test_what_is_said_of_a_shared_key_is_said_where_it_is_set_again():
    [file] = [file for file in files("task") if file.name == "digits"]
    before = {setting.key: setting.meaning for setting in file.settings}
    after = {setting.key: setting.meaning for setting in file.complete}
    assert before["task.padding"] == before["epochs"] == ""
    assert after["task.padding"] == "black pixels around an image, out of which it is cropped"
    assert after["epochs"] == "passes over the training images, where the task counts them"


def test_a_new_file_alone_makes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(CONF, tmp_path / "conf")
    text = (CONF / "algorithm" / "naive.yaml").read_text()
    (tmp_path / "conf" / "algorithm" / "mine.yaml").write_text(text.replace("Naive compression", "My method"))
    for module in ("pages", "settings"):
        monkeypatch.setattr(f"docs.extensions.{module}.CONF", tmp_path / "conf")
    made = pages()
    assert made["algorithms/mine.rst"][0] == "My method"
    assert "``mine``" in made["configuration/algorithm.rst"]
