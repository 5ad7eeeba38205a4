"""Suggestions for unknown names."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_OTHER_WORDS = {
    "gpu": "cuda", "n": "cluster.workers", "workers": "cluster.workers", "learning_rate": "lr", "step_size": "lr",
    "optimizer": "algorithm", "method": "algorithm", "steps": "rounds", "iterations": "rounds", "dataset": "task",
}  # fmt: skip


def explain_unknown(what: str, name: str, names: Iterable[str]) -> str:
    """Return an error text for an unknown name: `what`, then a suggestion and all valid names."""
    names = [str(valid) for valid in names]
    grouped = [valid for valid in names if valid.startswith(f"{name}/")]
    if grouped:
        return f"{what}; it is a group; choose {', '.join(grouped)}"
    near = closest_name(name, names)
    return f"{what}; {f'did you mean {near}? ' if near else ''}Valid: {', '.join(names) or 'none'}"


def closest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest of `names`, or None: a synonym, else the same name spelt otherwise, else a similar one."""
    plain = {_plain(valid): valid for valid in names}
    other = _OTHER_WORDS.get(name.lower())
    if other in plain.values():
        return other
    if _plain(name) in plain:
        return plain[_plain(name)]
    return next((plain[near] for near in get_close_matches(_plain(name), plain, n=1, cutoff=cutoff)), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())
