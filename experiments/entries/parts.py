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

    memory: what senders remember, a channel without its compressor. compressor: of the channel. Both name the uplink
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


def _describe(one: Algorithm | Channel, leave_out: Iterable[str]) -> str:
    options: dict[str, Any] = {part.name: getattr(one, part.name) for part in fields(one)}
    said = ", ".join(f"{name}={value!r}" for name, value in options.items() if name not in leave_out)
    return f"{type(one).__name__}({said})"


def _join_ways(ways: list[str]) -> str:
    return ways[0] if ways[0] == ways[1] else f"{ways[0]} up, {ways[1]} down"
