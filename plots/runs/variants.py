"""Runs of one method on one task that differ in their settings, told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plots.runs import read
from plots.runs.read import RunRecord, beside

if TYPE_CHECKING:
    import pandas as pd

Thing = TypeVar("Thing")
Key = TypeVar("Key", bound=Hashable)

DASHES = ((), (5, 2), (5, 1.5, 1.2, 1.5), (9, 2), (9, 1.5, 1.2, 1.5, 1.2, 1.5), (2.5, 1.2))
"""Of a method's variants, in turn: lengths drawn and left out, in line widths; the first is a whole line."""

_LIGHT, _DARK = -0.5, 0.5
"""How far the colours of a method's first and last variant are from its own, towards white and black."""

_NOT_OF_A_CURVE = {
    "lr", "seed", "epochs", "results_dir", "threads", "device", "logger", "study", "checkpoint_every", "durable",
    "stale", "verify_every", "packages", "cluster.server", "cluster.timeout",
}  # fmt: skip
"""Keys and groups that a curve is chosen by, or that say where and how it was run; rounds stand for epochs."""

_OF_A_METHOD = ("algorithm", "compressor", "update")
"""Groups in which methods differ by nature; all other settings are told wherever curves of a task differ in them."""

_CUT: dict[str, Callable[[str], str]] = {
    "_target_": lambda text: text.rpartition(".")[2],
    "sha256": lambda text: text[:8],
}
"""Of keys with these last names what is shown of their values."""

_NOT_ANYWHERE = {"display", "data_dir", "cuda_graphs"}
"""Names that tell no curves apart in any group."""


@dataclass(frozen=True)
class Variant:
    """A run and what its curves are called: name and label are the method's, with the settings that differ behind.

    `dash` is an index into DASHES, and `place` says which of the `of` variants of its method it is, in order of their
    settings' values. `lrs` are the step sizes that the run stands for: all of its own, but for those
    that a later run has with the same settings and seed.
    """

    run: RunRecord
    settings: str
    dash: int
    lrs: tuple[float, ...]
    place: int = 0
    of: int = 1

    @property
    def name(self) -> str:
        return ", ".join(filter(None, [self.run.algorithm, self.settings]))

    @property
    def label(self) -> str:
        return ", ".join(filter(None, [self.run.display["label"], self.settings]))

    @property
    def color(self) -> str:
        """The method's colour, of several variants from light to dark in order of their values."""
        if self.of == 1:
            return self.run.display["color"]
        apart = min(1.0, (self.of + 1) / 5)  # two or three need not go as far as more
        return _shade(self.run.display["color"], apart * (_LIGHT + (_DARK - _LIGHT) * self.place / (self.of - 1)))

    def frame(self) -> pd.DataFrame:
        """The rows as `table` has them."""
        return table([self])


def table(variants: Sequence[Variant]) -> pd.DataFrame:
    """The rows as `plots.runs.read.table` has them, every variant an algorithm of its own, and a column dash."""
    runs, of = [variant.run for variant in variants], {variant.run.folder: variant for variant in variants}

    def facts(run: RunRecord) -> dict[str, Any]:
        variant = of[run.folder]
        return {"algorithm": variant.name, "label": variant.label, "color": variant.color, "dash": variant.dash}

    frame = read.table(runs).assign(**beside(runs, facts))
    stands = [lr in variant.lrs for variant in variants for lr in variant.run.numbers["lr"]]
    return frame[stands]


def tell_apart(runs: Iterable[RunRecord]) -> list[Variant]:
    """The runs with names of their curves: runs have one name exactly where nothing but seed and step sizes differ.

    Of several with the same settings, seed and step size, which edited code leaves behind, the last one stands, and
    finished ones before others; a run of which nothing stands is left out.
    """
    runs = list(runs)
    differing = settings(runs)
    places: dict[str, dict[str, int]] = {}  # by method of its variants, what has no settings first: with a whole line
    for run in sorted(runs, key=lambda run: by_value(differing[run.folder])):
        known = places.setdefault(run.algorithm, {})
        known.setdefault(differing[run.folder], len(known))

    def curve(run: RunRecord) -> tuple:
        return (run.task, run.algorithm, differing[run.folder], run.seed)

    standing = {(*curve(run), lr): run.folder for run in sorted(runs, key=precedence) for lr in run.lrs}
    variants = []
    for run in runs:
        lrs = sorted({lr for lr in run.lrs if standing[*curve(run), lr] == run.folder})
        if lrs:
            some, known = differing[run.folder], places[run.algorithm]
            dash, several = known[some] % len(DASHES), [text for text in known if text]
            place = (several.index(some), len(several)) if some and len(several) > 1 else (0, 1)
            variants.append(Variant(run, some, dash, tuple(lrs), *place))
    return variants


def precedence(run: RunRecord) -> tuple:
    """Of runs with the same settings the greatest stands for them: the last one, and finished ones before others."""
    return (run.is_finished, run.status.get("time", ""))


def settled(variants: Iterable[Variant]) -> list[Variant]:
    """Of every curve its finished runs; where it has none, the run that came furthest. Variants of a method on a task
    stand in order of their values."""
    chosen: list[Variant] = []
    for parts in grouped(variants, lambda variant: (variant.run.task, variant.name)).values():
        finished = [part for part in parts if part.run.is_finished]
        chosen += finished or [max(parts, key=lambda part: part.run.round)]
    methods = grouped(chosen, lambda variant: (variant.run.task, variant.run.algorithm)).values()
    return [variant for parts in methods for variant in sorted(parts, key=lambda part: by_value(part.settings))]


def by_value(text: str) -> list[tuple[bool, float, str]]:
    """A key that sorts texts with numbers in them by these."""
    parts = re.split(r"(?<![\w.])([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])", text)
    return [(bool(place % 2), float(part) if place % 2 else 0.0, part) for place, part in enumerate(parts)]


def _shade(color: str, darkness: float) -> str:
    """A colour mixed with black, or where `darkness` is negative with white, to this share; as #rrggbb."""
    from matplotlib.colors import to_hex, to_rgb  # which only drawing needs

    to = float(darkness < 0)
    red, green, blue = (part + (to - part) * abs(darkness) for part in to_rgb(color))
    return to_hex((red, green, blue))


def settings(runs: Iterable[RunRecord]) -> dict[Path, str]:
    """By folder the settings in which runs differ, as on a command line: from the others of the same task and
    algorithm, and, but for those of methods, from all others of the task."""
    found = {}
    for of_task in grouped(runs, lambda run: run.task).values():
        leaves = {run.folder: _leaves(run.config) for run in of_task}
        for group, keys in _told(of_task, leaves):
            texts = {key: _shown(key, leaves.values()) for key in keys}
            for run in group:
                mine = leaves[run.folder]
                found[run.folder] = ", ".join(
                    f"{key.removesuffix('._target_')}={texts[key][mine[key]]}" for key in keys if key in mine
                )
    return found


def columns(runs: Iterable[RunRecord]) -> dict[str, list]:
    """By key the values, one a run, of every setting in which runs differ, beside task, algorithm and seed.

    These are the settings that `settings` tells, and those that runs of different tasks do not share. Of classes it
    is the last name; None where a run has no such setting.
    """
    runs = list(runs)
    leaves = {run.folder: _leaves(run.config) for run in runs}
    keys = [key for key in _differing(leaves.values()) if key.partition(".")[0] not in (*_OF_A_METHOD, "task")]
    for of_task in grouped(runs, lambda run: run.task).values():
        keys += [key for _, some in _told(of_task, leaves) for key in some]
    found = {}
    for key in dict.fromkeys(keys):
        texts = _shown(key, leaves.values())
        written = [texts.get(leaves[run.folder].get(key, "")) for run in runs]
        plain = key.rpartition(".")[2] in _CUT
        values = written if plain else [_at(run.config, key) for run in runs]
        found[key.removesuffix("._target_")] = values
    return found


def _at(config: dict, key: str) -> Any:
    """What a configuration has at a dotted key, lists as on a command line; None where there is nothing."""
    node: Any = config
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return _text(node) if isinstance(node, list) else node


def facets(runs: Iterable[RunRecord]) -> dict[Path, dict[str, str]]:
    """By folder every setting in which runs of any task differ, with its value as on a command line; also those in
    which the runs of its own task are all alike."""
    runs = list(runs)
    leaves = {run.folder: _leaves(run.config) for run in runs}
    by_task = grouped(runs, lambda run: run.task).values()
    keys = dict.fromkeys(key for of_task in by_task for _, some in _told(of_task, leaves) for key in some)
    texts = {key: _shown(key, leaves.values()) for key in keys}
    return {
        folder: {key.removesuffix("._target_"): texts[key][mine[key]] for key in keys if key in mine}
        for folder, mine in leaves.items()
    }


def _told(
    of_task: Sequence[RunRecord], leaves: dict[Path, dict[str, str]]
) -> Iterator[tuple[list[RunRecord], list[str]]]:
    """The runs of each algorithm on a task, with the keys that tell them from these and from the task's others."""
    in_task = _differing(leaves[run.folder] for run in of_task)
    common = [key for key in in_task if key.partition(".")[0] not in _OF_A_METHOD]
    for group in grouped(of_task, lambda run: run.algorithm).values():
        yield group, [*dict.fromkeys([*common, *_differing(leaves[run.folder] for run in group)])]


def grouped(things: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, list[Thing]]:
    """Lists of those with the same key, all in the order in which they come."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def _differing(group: Iterable[dict[str, str]]) -> list[str]:
    """The keys of settings that differ, or that some lack, among configurations with the same classes above them.

    A key that in all of them repeats one that runs share, as a data set's seed does, is no setting of its own.
    """
    group = list(group)
    return [
        key
        for key in dict.fromkeys(key for leaves in group for key in leaves)
        if len({leaves.get(key) for leaves in group}) > 1  # which is soon seen
        and not _NOT_OF_A_CURVE & {key, key.partition(".")[0]}
        and not _NOT_ANYWHERE & set(key.split("."))
        and len({(_above(key, leaves), leaves.get(key)) for leaves in group})
        > len({_above(key, leaves) for leaves in group})
        and not all(_repeats(key, leaves) for leaves in group if key in leaves)
    ]


def _above(key: str, leaves: dict[str, str]) -> tuple[str | None, ...]:
    """The classes of the groups that a key stands in, from the outermost on; not the one that it names itself."""
    groups = key.removesuffix("._target_").split(".")[:-1]
    return tuple(leaves.get(".".join([*groups[: depth + 1], "_target_"])) for depth in range(len(groups)))


def _shown(key: str, group: Iterable[dict[str, str]]) -> dict[str, str]:
    """How a key's values are written: of classes the last name and of hashes the beginning, where these differ."""
    values = {leaves[key] for leaves in group if key in leaves}
    short = {value: _CUT.get(key.rpartition(".")[2], str)(value) for value in values}
    return short if len(set(short.values())) == len(values) else {value: value for value in values}


def _repeats(key: str, leaves: dict[str, str]) -> bool:
    """Whether the key stands below a group and has the value of the same name at the top or of the cluster's."""
    last = key.rpartition(".")[2]
    return any(leaves.get(shared) == leaves[key] for shared in (last, f"cluster.{last}") if shared != key)


def _leaves(node: dict, prefix: str = "") -> dict[str, str]:
    """Dotted keys of a configuration with their values as on a command line, files known by their hashes alone."""
    leaves = {}
    for key, value in node.items():
        if isinstance(value, dict):
            leaves |= _leaves(value, f"{prefix}{key}.")
        elif key != "file" or not node.get("sha256"):
            leaves[f"{prefix}{key}"] = _text(value)
    return leaves


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.12g}" if isinstance(value, (int, float)) else str(value)
