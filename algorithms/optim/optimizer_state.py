"""Convert states to nested dicts and back, and check that a saved state is complete and of this optimizer."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..comm.consistency import digest
from ..core.algorithm import Algorithm, as_dicts, from_dicts, leaves
from ..core.grouped import States
from ..utils.seeding import keyed_seed
from .flat_params import Flat


def round_state(state_dict: Any) -> Any:
    """Return a CompressedOptimizer's own state from a torch state dict. One parameter's entry holds it."""
    states = state_dict.get("state") if isinstance(state_dict, dict) else None
    each = states.values() if isinstance(states, dict) else ()
    return next((state for state in each if isinstance(state, dict) and "of" in state), None)


def parts_to_dicts(states: States) -> Any:
    """Return the states of all groups as nested dicts, by group number. A single group's state has no number."""
    if len(states) == 1:
        return as_dicts(states[0])
    return {str(number): as_dicts(state) for number, state in enumerate(states)}


def parts_from_dicts(saved: Any, like: States) -> States:
    """The inverse of `parts_to_dicts`, with the types of `like`."""
    parts = [saved] if len(like) == 1 else list(saved.values())
    return tuple(from_dicts(part, one) for part, one in zip(parts, like, strict=True))


def to_device(node: Any, device: torch.device) -> Any:
    """Move floating-point tensors of nested dicts to a device. Worker numbers stay on the CPU."""
    if isinstance(node, dict):
        return {key: to_device(value, device) for key, value in node.items()}
    return node.to(device) if isinstance(node, Tensor) and node.is_floating_point() else node


def describe(*algorithms: Algorithm) -> str:
    """Return the text of algorithms, without the addresses of functions."""
    return re.sub(" at 0x[0-9a-f]+", "", "\n".join(map(repr, algorithms)))


def identity(
    rank: int, workers: int, algorithms: Sequence[Algorithm], seed: int, d: object, flat: Flat
) -> dict[str, object]:
    """Return values that a saved state and its reader must share. All ranks must share them too, except `rank`.

    The shapes detect another order of parameters, or other frozen ones. Otherwise one could get another's values.
    """
    own = {"rank": rank, "workers": workers, "algorithm": describe(*algorithms), "seed": seed, "d": d}
    return {**own, "dtype": str(flat.dtype), "shapes": flat.shapes}


def with_digest(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "digest": state_digest(state)}


def check_state(saved: dict, own: dict, identity: dict[str, object], kind: str, hint: str = "") -> None:
    """Raise ValueError unless `saved` is undamaged and has the entries of `own`.

    identity: the required entry `of`. kind: the class that saved it. hint: how to load it on other ranks.
    """
    if not isinstance(saved, dict) or not isinstance(saved.get("of"), dict):
        raise ValueError(f"this is no state_dict of a {kind}: its description is missing")
    for quantity in identity | saved["of"]:
        mine, found = (of.get(quantity, "unknown") for of in (identity, saved["of"]))
        if found != mine:
            of_ranks = f"every rank loads its own state{hint}"
            advice = of_ranks if quantity in ("rank", "workers") else "make the optimizer like the one that saved it"
            found, mine = _shorten_pair(found, mine)
            raise ValueError(f"this state is of {quantity} {found}, not {mine}: {advice}")
    state = {name: saved.get(name) for name in own}
    if saved.get("digest") != state_digest(state):
        raise ValueError("this state is damaged: its digest does not match; load another one")
    if state.get("server") is None and own.get("server") is not None:  # saved by another rank of this node
        raise ValueError("this state was saved by a rank without a server: every rank loads its own state")


def check_names(saved: Any, own: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if a group has the saved names in another order. Does not detect a damaged `saved`."""
    for number, (group, mine) in enumerate(zip(saved if isinstance(saved, list) else (), own, strict=False)):
        found = group.get("param_names") if isinstance(group, dict) else None
        names = mine.get("param_names", [])
        if isinstance(found, list) and found != names and sorted(map(str, found)) == sorted(names):
            found, names = _shorten_pair(found, names)
            raise ValueError(
                f"this state has {found} of group {number}, not {names}: give the parameters in the saved order"
            )


def _shorten_pair(one: Any, other: Any) -> tuple[Any, Any]:
    """Shorten two long descriptions to their first difference. Short ones stay."""
    if not (isinstance(one, list | str) and type(one) is type(other)):
        return one, other
    differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    place = next(differing, min(len(one), len(other)))
    if isinstance(one, list):
        if len(one) != len(other):
            return f"{len(one)} in all", f"{len(other)}"
        return f"{one[place]} in place {place}", other[place]
    if max(len(one), len(other)) <= 80:
        return one, other
    option = max(one.rfind("=", 0, place), 0)
    begin = max(one.rfind(sign, 0, option) for sign in " (") + 1
    return f"…{one[begin : begin + 60]}…", f"…{other[begin : begin + 60]}…"


def state_digest(state: dict) -> int:
    """Return a digest of all bits of a state."""
    return keyed_seed(*(
        f"{name}={digest(leaf.flatten()) if isinstance(leaf, Tensor) else leaf}"
        for name, leaf in leaves(state)
    ))  # fmt: skip
