"""A coin that all processes throw alike."""

from dataclasses import dataclass

from ...utils.seeding import keyed_seed


@dataclass(frozen=True)
class Coin:
    """Shows heads in round 1, and in every later one with probability p, by (seed, "coin", round) alone.

    So every process knows it without being told, and so does a resumed run: 0 bits on the wire, where papers let the
    server send 1. `p` is None as long as nobody knows it.
    """

    p: float | None
    seed: int

    def __post_init__(self) -> None:
        if self.p is not None and not 0 < self.p <= 1:
            raise ValueError(f"p={self.p}: must lie in (0, 1]")

    @property
    def chance(self) -> float:
        """p. Raises ValueError where it is not known."""
        if self.p is None:
            raise ValueError("needs p=, how often the coin shows heads, or d=, the number of coordinates")
        return self.p

    def at(self, t: int) -> bool:
        """Whether it shows heads in round t (from 1). Raises ValueError as `chance`."""
        return t == 1 or keyed_seed(self.seed, "coin", t) < self.chance * 2**63
