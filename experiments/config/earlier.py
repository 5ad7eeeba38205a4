"""Configurations of older code, as today's has them."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from experiments.config import schema
from experiments.config.run import read
from experiments.config.signatures import defaults


def today(config: Mapping[str, Any]) -> schema.RunConfig:
    """The run of a recorded configuration, with keys that there were none of then at their defaults of today.

    Raises UsageError for a configuration that is none any more, and KeyError for one that lacks a part.
    """
    return read(_filled(config), config["packages"])


def _filled(config: Mapping[str, Any], of: type = schema.RunConfig) -> dict[str, Any]:
    """A run's configuration, with every key and option that it does not have at its default of today."""
    known = {one.name: one.default for one in fields(of) if one.default is not MISSING}
    parts = {one.name: _optional(config[one.name]) for one in fields(of) if schema.is_part(one)}
    cluster = {"cluster": _filled(config["cluster"], schema.ClusterConfig)} if "cluster" in config else {}
    return known | dict(config) | parts | cluster


def _optional(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node, and those within it, with the options of its target that it does not have."""
    known = defaults(node["_target_"]) if node.get("_target_") else {}
    return known | {
        name: _optional(value) if isinstance(value, Mapping) and "_target_" in value else value
        for name, value in node.items()
    }
