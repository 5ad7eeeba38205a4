"""Run identity: a hash of the part of the configuration that numbers depend on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from experiments.config import schema
from experiments.config.classes import PACKAGES, as_node, locate, parameters
from experiments.config.schema import ClusterConfig, Part, RunConfig


def run_id(run: RunConfig) -> str:
    """Return the run's id, 12 hex digits.

    1 and 1.0 are the same setting. The name of a class or function of this project counts, but not its module.
    """
    canonical = json.dumps(settings(run), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def folder(run: RunConfig) -> Path:
    """Return the folder of a run's results: results/<task>/<algorithm>/<id>."""
    return Path(run.results_dir, run.task.name, run.algorithm.name, run_id(run))


def settings(run: RunConfig) -> dict[str, Any]:
    """Return the keys of a run that affect its numbers, and the options of its parts except those annotated `Place`.

    Null keys of the cluster are left out, so that a new key leaves ids as they are.
    """
    cluster = {name: value for name, value in _numeric_keys(run.cluster).items() if value is not None}
    own = _numeric_keys(run) | {"cluster": cluster}
    for name, part in own.items():
        if isinstance(part, Part):
            own[name] = {"name": part.name, **_without_places(as_node(part))}
    return _normalize(own)


def _numeric_keys(keys: RunConfig | ClusterConfig) -> dict[str, Any]:
    return {key.name: getattr(keys, key.name) for key in fields(keys) if schema.spec_of(key).affects == "numbers"}


def _without_places(node: Mapping[str, Any]) -> dict[str, Any]:
    """Remove places, and the modules of this project's classes: class names are unique."""
    target = node.get("_target_") or ""
    known = parameters(locate(target)) if target else {}
    found = {
        key: _without_places(value) if isinstance(value, Mapping) else value
        for key, value in node.items()
        if key not in known or "place" not in getattr(known[key].annotation, "__metadata__", ())
    }
    package, _, rest = target.partition(".")
    return found | {"_target_": f"{package}:{rest.rpartition('.')[2]}"} if package in PACKAGES else found


def _normalize(node: Any) -> Any:
    """Turn whole floats into integers, so that 1.0 and 1 are the same."""
    if isinstance(node, Mapping):
        return {key: _normalize(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_normalize(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node
