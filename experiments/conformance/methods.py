"""What an algorithm's function is tried with."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import product
from typing import Any

from algorithms.compressors import Blocks, Compressor, Identity, Natural, RandomK, ScaledSign, TopK
from algorithms.protocol import Algorithm
from algorithms.updates import SGD, Adam, AMSGrad, Update
from experiments.config.classes import parameter_types
from experiments.conformance.findings import Check, expect, given

COMPRESSORS = (Identity(), ScaledSign(), TopK(k=2), RandomK(k=6), Natural(), Blocks(ScaledSign(), (7, 5)))
"""For 12 coordinates. A method may refuse some by a ValueError."""

UPDATES = (SGD(momentum=0.5), Adam(), AMSGrad())
"""Those are tried that the annotation of `update` lets in."""

ROUNDS = 16
"""Of a try, unless said otherwise; methods that ask for the number of rounds, to change after some, are told it."""

Build = Callable[..., Algorithm]
"""Makes an algorithm of the same kind, anew at every call; `rounds` is how many it is for."""


class Method:
    """The function of an algorithm with some of its options set.

    A `compressor` or an `update` among them is then the only one that it is tried with.
    """

    def __init__(self, function: Callable[..., Algorithm], **options: Any) -> None:
        self.function, self.options = function, options
        self._hints = parameter_types(function)

    def cases(self) -> dict[str, Build]:
        """A way to build it for every compressor and update that it takes. Raises Violation where there is none."""
        found, refusals = {}, []
        for compressor, update in product(self._choices("compressor", COMPRESSORS), self._choices("update", UPDATES)):
            parts = {"compressor": compressor} | ({} if update is None else {"update": update})
            try:
                expect(isinstance(self._build(**parts), Algorithm), "an Algorithm", "something else")
            except ValueError as error:
                refusals.append(str(error))
                continue
            found[", ".join(map(str, parts.values()))] = lambda parts=parts, **rounds: self._build(**parts, **rounds)
        tried = ", ".join(map(str, COMPRESSORS))
        expect(found, f"a method that takes one of {tried}", "; ".join(refusals[:1]) or "none that its hints let in")
        return found

    def _build(self, compressor: Compressor, update: Update | None = None, rounds: int = ROUNDS) -> Algorithm:
        parts = {"compressor": compressor, "update": update, "rounds": rounds}
        return self.function(**{name: part for name, part in parts.items() if name in self._hints} | self.options)

    def _choices(self, name: str, among: tuple) -> list:
        if name in self.options:
            return [self.options[name]]
        hint = self._hints.get(name)
        return [None] if hint is None else [choice for choice in among if isinstance(choice, hint)]


def in_every_case(check: Callable[[Build], None]) -> Check:
    """A check of a method, out of one of a way to build its algorithm."""

    @wraps(check)
    def every(method: Method) -> None:
        for name, build in method.cases().items():
            with given(name):
                check(build)

    return every
