"""The name that was meant where one is not known."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_OTHER_WORDS = {
    "gpu": "cuda", "n": "cluster.workers", "workers": "cluster.workers", "learning_rate": "lr", "step_size": "lr",
    "optimizer": "algorithm", "method": "algorithm", "steps": "rounds", "iterations": "rounds", "dataset": "task",
}  # fmt: skip


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """A message about a name that is none: what was meant by it, and all that are valid."""
    names = [str(valid) for valid in names]
    grouped = [valid for valid in names if valid.startswith(f"{name}/")]
    if grouped:
        return f"{what}; it is a group; choose {', '.join(grouped)}"
    near = meant(name, names)
    return f"{what}; {f'did you mean {near}? ' if near else ''}Valid: {', '.join(names) or 'none'}"


def meant(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `names` that a name most likely stands for: the same in other letters, another word for it, or one
    with nearly the same letters; None where there is none."""
    plain = {_plain(valid): valid for valid in names}
    other = _OTHER_WORDS.get(name.lower())
    if other in plain.values():
        return other
    if _plain(name) in plain:
        return plain[_plain(name)]
    return next((plain[near] for near in get_close_matches(_plain(name), plain, n=1, cutoff=cutoff)), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())
