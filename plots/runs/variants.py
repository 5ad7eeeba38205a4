"""Variants of a method: its runs on one task with different settings."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from plots.runs import read
from plots.runs.read import RunRecord, repeat_by_row

if TYPE_CHECKING:
    import pandas as pd

Thing = TypeVar("Thing")
Key = TypeVar("Key", bound=Hashable)

DASHES = ((), (5, 2), (5, 1.5, 1.2, 1.5), (9, 2), (9, 1.5, 1.2, 1.5, 1.2, 1.5), (2.5, 1.2))
"""Dash patterns of a method's variants, in turn: lengths drawn and left out, in line widths. The first is solid."""

_NOT_OF_A_CURVE = {
    "lr", "seed", "epochs", "results_dir", "threads", "device", "logger", "study", "checkpoint_every",
    "stale", "verify_every", "packages", "cluster.server", "cluster.timeout",
}  # fmt: skip
"""Keys and groups that choose a curve, or that say where and how it was run. Rounds replace epochs."""

_OF_A_METHOD = ("algorithm", "compressor", "update")
"""Groups in which methods always differ. Other settings distinguish all curves of a task."""

_MARKERS = {*"osD^v<>XPp*hHxd+"}
"""Markers known without importing matplotlib."""

_NOT_ANYWHERE = {"display", "data_dir", "url", "cuda_graphs"}
"""Names that never distinguish curves, in any group."""


@dataclass(frozen=True)
class Variant:
    """A run with the look of its curves.

    `settings` distinguish it from the method's other runs. `dash` is an index into DASHES. `color` is the method's,
    in shades from light to dark for several variants. `lrs` are the run's step sizes, except those that a later run
    has with the same settings and seed. `method` is the method's label, with the algorithm's name if several
    algorithms share it. `left_out` lists the seeds of its curve that `keep_ended` drops.
    """

    run: RunRecord
    settings: str
    dash: int
    color: str
    lrs: tuple[float, ...]
    method: str
    left_out: str = ""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, [self.run.algorithm, self.settings]))

    @property
    def label(self) -> str:
        return ", ".join(filter(None, [self.method, self.settings]))


def variant_rows(variants: Sequence[Variant]) -> pd.DataFrame:
    """Return the rows of `plots.runs.read.table` with every variant as an algorithm of its own.

    Columns dash and left_out are added."""
    import numpy as np

    runs = [variant.run for variant in variants]
    names = ["color", "dash", "left_out"]
    looks = [
        {"algorithm": one.name, "label": one.label, **{key: getattr(one, key) for key in names}} for one in variants
    ]
    frame = read.table(runs)
    frame[["algorithm", "label", *names]] = repeat_by_row(runs, looks)
    return frame[np.concatenate([np.isin(variant.run.rows["lr"], variant.lrs) for variant in variants])]


def distinguish(runs: Iterable[RunRecord]) -> list[Variant]:
    """Name the curves of runs. Runs share a name exactly if they differ only in seed and step sizes.

    Of several runs with the same settings, seed and step size the last is kept, and finished ones before others. A
    run that keeps no step size is left out.
    """
    runs = list(runs)
    differing = settings(runs)
    known: dict[str, list[str]] = {}  # settings of each method's variants; none first, drawn solid
    for run in sorted(runs, key=lambda run: natural_key(differing[run.folder])):
        if differing[run.folder] not in known.setdefault(run.algorithm, []):
            known[run.algorithm].append(differing[run.folder])

    def curve(run: RunRecord) -> tuple:
        return (run.task, run.algorithm, differing[run.folder], run.seed)

    in_time = sorted(runs, key=lambda run: (run.is_finished, run.status.get("time", "")))
    standing = {(*curve(run), lr): run.folder for run in in_time for lr in run.lrs}
    methods = Counter(label for label, _ in {(run.display["label"], run.algorithm) for run in runs})
    variants = []
    for run in runs:
        if lrs := sorted({lr for lr in run.lrs if standing[*curve(run), lr] == run.folder}):
            mine, others = differing[run.folder], known[run.algorithm]
            color = _shade(run.display["color"], others.index(mine) - ("" in others), len(others) - ("" in others))
            dash = others.index(mine) % len(DASHES)
            name = run.display["label"]
            method = f"{name} ({run.algorithm})" if methods[name] > 1 else name
            variants.append(Variant(run, mine, dash, color if mine else run.display["color"], tuple(lrs), method))
    return variants


def keep_ended(variants: Iterable[Variant]) -> list[Variant]:
    """Select each curve's finished runs, else the run that came furthest. A method's variants are sorted by value."""
    chosen: list[Variant] = []
    for parts in group_by(variants, lambda variant: (variant.run.task, variant.name)).values():
        finished = [part for part in parts if part.run.is_finished]
        kept = finished or [max(parts, key=lambda part: part.run.round)]
        gone = {part.run.seed for part in parts} - {part.run.seed for part in kept}
        chosen += [replace(part, left_out=", ".join(map(str, sorted(gone)))) for part in kept]
    methods = group_by(chosen, lambda variant: (variant.run.task, variant.run.algorithm)).values()
    return [variant for parts in methods for variant in sorted(parts, key=lambda part: natural_key(part.settings))]


def report_mixed_code(variants: Iterable[Variant]) -> None:
    """Print, on standard error, how many curves have runs of different code, and the modules that differ."""
    mixed: dict[str, set[str]] = {}
    curves = group_by(variants, lambda variant: (variant.run.task, variant.label))
    for (task, label), parts in curves.items():
        digests = {item for part in parts for item in part.run.code.items()}
        if modules := {name for name, count in Counter(name for name, _ in digests).items() if count > 1}:
            mixed[f"{label} on {task}"] = modules
    if mixed:
        files = sorted(f"{name.replace('.', '/')}.py" for name in set().union(*mixed.values()))
        where = f"{len(mixed)} of {len(curves)} curves have runs of different code, such as {next(iter(mixed))}"
        print(f"{where}: {', '.join(files[:5])}{' and others' * (len(files) > 5)}", file=sys.stderr)


def natural_key(text: str) -> list[tuple[bool, float, str]]:
    """A sort key that orders texts by the numbers in them."""
    parts = re.split(r"(?<![\w.])([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])", text)
    return [(bool(place % 2), float(part) if place % 2 else 0.0, part) for place, part in enumerate(parts)]


def find_undrawable(color: str, marker: str) -> str:
    """Return color=… or marker=… if matplotlib cannot draw it, else an empty text."""
    if re.fullmatch("#[0-9a-fA-F]{6}", color) and marker in _MARKERS:
        return ""
    from matplotlib.colors import is_color_like  # slow to import
    from matplotlib.markers import MarkerStyle

    if not is_color_like(color):
        return f"color={color}"
    try:
        MarkerStyle(marker)
    except ValueError:
        return f"marker={marker}"
    return ""


def _shade(color: str, place: int, of: int) -> str:
    """The colour #rrggbb of one of several variants: the first is mixed with white, the last with black."""
    if of < 2:
        return color
    from matplotlib.colors import to_hex, to_rgb  # which only drawing needs

    darkness = min(1.0, (of + 1) / 5) * (place / (of - 1) - 0.5)  # two or three need less contrast than more
    red, green, blue = (part + ((darkness < 0) - part) * abs(darkness) for part in to_rgb(color))
    return to_hex((red, green, blue))


def settings(runs: Iterable[RunRecord]) -> dict[Path, str]:
    """The settings in which runs differ, by folder, as on a command line.

    A run is compared with runs of its task and algorithm, and outside the method's groups with all of its task."""
    texts = _texts(runs)
    return {
        Path(str(folder)): ", ".join(
            f"{key.removesuffix('._target_')}={text}" for key, text in zip(keys, mine, strict=True) if text == text
        )  # a missing setting is NaN
        for group, keys in _distinguishing_keys(texts)
        for folder, mine in zip(group.index, group[keys].to_numpy(), strict=True)
    }


def facets(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """The settings in which runs differ, across tasks: a row for each run's folder, a column for each setting.

    Values are texts as on a command line; NaN if a run has no such setting.
    """
    import pandas as pd

    texts = _texts(runs)
    keys = _differing_keys(texts, (*_OF_A_METHOD, "task"))
    keys += [key for _, own in _distinguishing_keys(texts) for key in own]
    columns: dict[str, pd.Series] = {}
    for key in dict.fromkeys(keys):
        name = key.removesuffix("._target_")  # null in one run, a class in another
        columns[name] = columns[name].combine_first(texts[key]) if name in columns else texts[key]
    return pd.DataFrame(columns, index=texts.index, dtype=object)


def _texts(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Settings as on a command line: a row for each run, a column for each dotted key, NaN for a missing setting.

    Classes are shortened to their last name and hashes to their beginning if these still differ."""
    import pandas as pd

    runs = list(runs)
    nodes = {(key, id(node)): node for run in runs for key, node in run.config.items()}  # runs share most of them
    known = {(key, place): _leaves({key: node}) for (key, place), node in nodes.items()}
    leaves = {
        run.folder: {name: text for key, node in run.config.items() for name, text in known[key, id(node)].items()}
        for run in runs
    }
    texts = pd.DataFrame([*leaves.values()], index=[*leaves], dtype=object)
    for key in [key for key in map(str, texts) if key.endswith(("_target_", "sha256"))]:
        length = 8 if key.endswith("sha256") else None
        short = {text: text.rpartition(".")[2][:length] for text in texts[key].dropna().unique()}
        if len({*short.values()}) == len(short):
            texts[key] = texts[key].map(short)
    return texts


def _distinguishing_keys(texts: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Yield the rows of each task and algorithm, with the keys that distinguish them from each other and the rest."""
    for _, of_task in texts.groupby("task.name", sort=False) if len(texts) else ():
        common = _differing_keys(of_task, _OF_A_METHOD)
        for _, group in of_task.groupby("algorithm.name", sort=False):
            yield group, [*dict.fromkeys([*common, *_differing_keys(group)])]


def group_by(things: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, list[Thing]]:
    """Group things by key, in their order."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def _differing_keys(texts: pd.DataFrame, without: Sequence[str] = ()) -> list[str]:
    """Find the keys that differ or are missing among configurations with the same classes above them.

    Groups in `without` are skipped. A key that always copies a shared one, such as a data set's seed, does not count.
    """
    keys, values, missing = [], texts.to_numpy(), texts.isna().to_numpy()
    differs = (values != values[:1]) & ~(missing & missing[:1])
    for key in texts.columns[differs.any(axis=0)]:
        parts = key.split(".")
        if {*_NOT_OF_A_CURVE, *without} & {key, parts[0]} or _NOT_ANYWHERE & {*parts}:
            continue
        groups = key.removesuffix("._target_").split(".")[:-1]
        above = {".".join([*groups[: depth + 1], "_target_"]) for depth in range(len(groups))} & {*texts}
        is_apart = not above or texts.groupby([*above], dropna=False)[key].nunique(dropna=False).max() > 1
        having, shared = texts[texts[key].notna()], {parts[-1], f"cluster.{parts[-1]}"} & {*texts} - {key}
        is_copy = having[[*shared]].eq(having[key], axis=0).any(axis=1).all()
        if is_apart and not is_copy:
            keys.append(key)
    return keys


def _leaves(node: dict, prefix: str = "") -> dict[str, str]:
    """Flatten a configuration to dotted keys with values as on a command line. Files are known by their hashes.

    Null keys of the cluster are left out, as in a run's id, because older runs do not have them.
    """
    leaves = {}
    for key, value in node.items():
        if isinstance(value, dict):
            leaves |= _leaves(value, f"{prefix}{key}.")
        elif (key != "file" or not node.get("sha256")) and (value is not None or prefix != "cluster."):
            leaves[f"{prefix}{key}"] = _text(value)
    return leaves


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.12g}" if isinstance(value, (int, float)) else str(value)
