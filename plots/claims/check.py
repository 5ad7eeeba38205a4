"""What every check has: typed options, the methods and metrics that it is about, and `judge`."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Gt, Le, MinLen
from pydantic import AfterValidator, ConfigDict
from pydantic.dataclasses import dataclass

from common.names import unknown
from plots.claims.finding import Curves, Finding
from plots.runs.columns import misspelt, x_axes

METHOD, METRIC = "a method", "a metric"


def known_metric(name: str) -> str:
    """A task names its metrics itself, so only a name close to one of ours is refused. Raises ValueError."""
    if near := misspelt(name):
        raise ValueError(f"no column is called {name}; did you mean {near}?")
    return name


def known_axis(name: str) -> str:
    """A column that curves are drawn over. Raises ValueError."""
    if name not in x_axes():
        raise ValueError(unknown("no such axis", name, x_axes()))
    return name


Method = Annotated[str, METHOD]
Methods = Annotated[list[str], MinLen(1), METHOD]
Metric = Annotated[str, AfterValidator(known_metric), METRIC]
Metrics = Annotated[list[Annotated[str, AfterValidator(known_metric)]], MinLen(1), METRIC]
Axis = Annotated[str, AfterValidator(known_axis)]
Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Gt(0), Le(1)]

OPTIONS = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, config=OPTIONS)
class Check:
    """A rule that decides a claim about one task's curves. The fields of a rule are its options in conf/figure."""

    def judge(self, curves: Curves) -> Finding:
        """The verdict, with the numbers that it rests on."""
        raise NotImplementedError

    @property
    def named_methods(self) -> set[str]:
        """The methods that it is about."""
        return self._marked(METHOD)

    @property
    def named_metrics(self) -> set[str]:
        """The metrics that it needs."""
        return self._marked(METRIC)

    @property
    def to_the_end(self) -> set[str]:
        """The methods without whose last round nothing can be decided."""
        return self.named_methods

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, defaults included."""
        return {name: getattr(self, name) for name in self._fields() if name != "name"}

    def _marked(self, mark: str) -> set[str]:
        values = (getattr(self, name) for name, field in self._fields().items() if mark in field.metadata)
        return {name for value in values for name in ([value] if isinstance(value, str) else value)}

    @classmethod
    def _fields(cls) -> dict[str, Any]:
        return cls.__pydantic_fields__  # type: ignore[attr-defined]
