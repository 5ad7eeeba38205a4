"""The parts of a method, as text. Two entries that differ in one part show its effect."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Channel
from experiments.config.schema import RunConfig
from experiments.training.build import build_algorithm


def parts_of(run: RunConfig) -> dict[str, str]:
    """Return the parts of a run's method by name, with their options.

    memory: the channel without its compressor, that is its memory. compressor: the channel's. Both name the uplink
    and the downlink, or one of them if they are alike. update: the update rule. partition: the run's. method: the
    class of the method with all its other options.
    """
    algorithm = build_algorithm(run)
    ways = (algorithm.uplink, algorithm.downlink)
    return {
        "memory": _join_ways([_describe(way, leave_out={"compressor"}) for way in ways]),
        "compressor": _join_ways([repr(way.compressor) for way in ways]),
        "update": repr(algorithm.update),
        "partition": run.partition,
        "method": _describe(algorithm, leave_out={"uplink", "downlink", "update"}),
    }


def _describe(part: Algorithm | Channel, leave_out: Iterable[str]) -> str:
    options: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}
    text = ", ".join(f"{name}={value!r}" for name, value in options.items() if name not in leave_out)
    return f"{type(part).__name__}({text})"


def _join_ways(ways: list[str]) -> str:
    return ways[0] if ways[0] == ways[1] else f"{ways[0]} up, {ways[1]} down"
