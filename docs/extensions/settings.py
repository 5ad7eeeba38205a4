"""What a YAML file of conf/ says about itself: its first comment, its keys, their defaults and their comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import yaml

CONF = Path(__file__).resolve().parents[2] / "conf"


class Setting(NamedTuple):
    """A key as it is set on the command line, its default as it stands in the file, and the comment beside it."""

    key: str
    default: str
    meaning: str


@dataclass(frozen=True)
class File:
    """One YAML file of conf/."""

    path: Path

    @property
    def group(self) -> str:
        """The folder of conf/ it is a choice of, such as `task`; empty for config.yaml and those beside it."""
        inside = self.path.relative_to(CONF).parts
        return inside[0] if len(inside) > 1 else ""

    @property
    def name(self) -> str:
        """How it is chosen, such as `logreg/a9a`."""
        return str(self.path.relative_to(CONF / self.group).with_suffix(""))

    @property
    def shared(self) -> bool:
        """Whether it is no choice, but what choices build on."""
        return self.path.name.startswith("_")

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def values(self) -> dict:
        """Its content, interpolations unresolved."""
        return yaml.safe_load(self.text) or {}

    @property
    def head(self) -> list[tuple[bool, str]]:
        """The comment at its beginning, in paragraphs: whether one is a command (it is indented), and its text."""
        comment = re.match(r"(?:#.*\n)*", self.text)[0].splitlines()
        lines = [line.removeprefix("#").removeprefix(" ") for line in comment if not line.startswith("# @")]
        runs = groupby(lines, key=lambda line: line.startswith(" "))
        return [(is_command, " ".join(line.strip() for line in run)) for is_command, run in runs]

    @property
    def description(self) -> str:
        """That comment without its commands."""
        return " ".join(text for is_command, text in self.head if not is_command)

    @property
    def builds_on(self) -> list[File]:
        """The other files of its group that it takes its keys from."""
        names = [entry for entry in self.values.get("defaults", []) if isinstance(entry, str) and entry != "_self_"]
        return [File(CONF / self.group / f"{name.removeprefix(f'/{self.group}/')}.yaml") for name in names]

    @property
    def brings(self) -> dict[str, str]:
        """The choices of other groups that come with it, by group."""
        entries = [entry for entry in self.values.get("defaults", []) if isinstance(entry, dict)]
        return {key.removeprefix("override /"): value for entry in entries for key, value in entry.items()}

    @property
    def settings(self) -> list[Setting]:
        """Its keys in order, those of nested mappings dotted, without `defaults` and `_target_`."""
        package = re.search(r"^# @package (\S+)", self.text, re.MULTILINE)
        prefix = package[1] if package else self.group
        node = yaml.compose(self.text)
        return list(self._walk(node, "" if prefix in ("_global_", "") else f"{prefix}.")) if node else []

    @property
    def complete(self) -> list[Setting]:
        """Its settings; where nothing is written beside a key, what the files below it say of it."""
        known = {key: meaning for file in self._below() for key, _, meaning in file.settings if meaning}
        return [setting._replace(meaning=setting.meaning or known.get(setting.key, "")) for setting in self.settings]

    def _below(self) -> list[File]:
        """config.yaml and the files it builds on, the nearest last."""
        below = [file for base in self.builds_on for file in (*base._below(), base)]
        return below or [File(CONF / "config.yaml")] * bool(self.group)

    def _walk(self, mapping: yaml.MappingNode, prefix: str) -> list[Setting]:
        found = []
        for key, value in mapping.value:
            if key.value in ("defaults", "_target_"):
                continue
            name = prefix + key.value
            if isinstance(value, yaml.MappingNode) and value.value:
                meaning = self._comment(value.end_mark if value.flow_style else key.end_mark)
                found += [Setting(name, "", meaning)] * bool(meaning) + self._walk(value, f"{name}.")
            else:
                default = self.text[value.start_mark.index : value.end_mark.index].strip()
                found.append(Setting(name, default, self._comment(value.end_mark)))
        return found

    def _comment(self, mark: yaml.Mark) -> str:
        """The comment behind a place of the file, with the lines that go on below it."""
        lines = self.text.splitlines()
        behind = lines[mark.line][mark.column :].lstrip(":").lstrip()
        if not behind.startswith("#"):
            return ""
        column = lines[mark.line].index(behind)
        comment = [behind]
        for line in lines[mark.line + 1 :]:
            if line.strip()[:1] != "#" or line.index("#") != column:
                break
            comment.append(line.strip())
        return " ".join(line.lstrip("# ") for line in comment)


def files(group: str = "") -> list[File]:
    """The YAML files of a group, shared ones first; without a group those directly in conf/, config.yaml first."""
    if not group:
        return sorted(map(File, CONF.glob("*.yaml")), key=lambda file: (file.name != "config", file.name))
    return sorted(map(File, (CONF / group).rglob("*.yaml")), key=lambda file: (not file.shared, file.name))


def groups() -> list[str]:
    """The folders of conf/."""
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())
