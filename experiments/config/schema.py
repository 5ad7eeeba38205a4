"""The schema of runs and commands: every key with its type, default, range, unit and effect."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, Gt, Le
from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from algorithms.core.lr_schedules import SCHEDULES

Affects = Literal["numbers", "others", "place", "look"]
"""The effect of a key: on the run's numbers; only on other keys; on where, how fast and how safely it runs; or on how
it is shown. Keys that affect numbers, which is the default, are the run's identity."""


Name = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) in (int, float) else name)]
"""A text, even if it consists of digits."""

Schedule = Literal[tuple(SCHEDULES)]  # pyright: ignore


@dataclass(frozen=True)
class KeySpec:
    """The schema's facts about a key besides name, type and default.

    unit: what a number counts. derived: null is filled in while composing.
    """

    help: str
    unit: str = ""
    affects: Affects = "numbers"
    derived: bool = False


def key(default: Any, help: str, **about: Any) -> Any:
    """Return a dataclass's field with its KeySpec."""
    return field(default=default, metadata={"key": KeySpec(help, **about)})


def spec_of(attribute: Field[Any]) -> KeySpec:
    """Return the KeySpec of a field."""
    return attribute.metadata["key"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The choice of a group: the class or function `target` (None: nothing), called with `options`.

    name: of a method or task, in paths. display: its label, and a method's color and marker. entry: for the
    leaderboard, a method's family, usual step size and other values to tune.
    """

    target: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    display: Mapping[str, str] = field(default_factory=dict)
    entry: Mapping[str, Any] = field(default_factory=dict, compare=False)  # runs do not record it

    @classmethod
    def read(cls, node: Mapping[str, Any]) -> Self:
        """Read a part from its node of a composed configuration."""
        labels = {"name", "display", "entry"} & node.keys() if "display" in node else set()
        options = {name: value for name, value in node.items() if name not in {"_target_", *labels}}
        return cls(target=node["_target_"], options=options, **{name: node[name] for name in labels})

    def node(self) -> dict[str, Any]:
        """Return the part's node."""
        labels = {"name": self.name, "display": dict(self.display)} if self.display else {}
        return {"_target_": self.target, **labels, **self.options}


def limits(kind: Any) -> list[str]:
    """The choices and bounds of an annotated type, in words."""
    match kind:
        case str():
            return [kind]
        case Gt():
            return ["positive"]
        case Ge():
            return [f"at least {kind.ge}"]
        case Le():
            return [f"at most {kind.le}"]
    return [words for part in get_args(kind) for words in limits(part)]


def part(help: str, affects: Affects = "numbers") -> Any:
    """A field that a group of conf/ fills."""
    return field(metadata={"key": KeySpec(help, affects=affects), "part": True})


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """The n workers, whatever the number of processes."""

    workers: PositiveInt = key(20, "number of workers n, whatever the number of processes", unit="workers")
    server: Literal["rank0", "sharded"] = key(
        "rank0",
        "where the server runs on several ranks: on rank 0, or in shards, one per rank; the numbers are the same",
        affects="place",
    )
    participation: Annotated[PositiveFloat, Le(1)] | None = key(
        None, "probability that a worker takes part in a round after the first; null: all workers in all rounds"
    )
    absent: tuple[tuple[NonNegativeInt, PositiveInt, PositiveInt], ...] | None = key(
        None,
        "planned absences, such as [[3,100,200]]: worker 3 is absent from round 100 to 200; null: none",
        unit="triples of a worker, its first and its last round of absence",
    )
    late: tuple[tuple[NonNegativeInt, PositiveInt], ...] | None = key(
        None,
        "late workers, such as [[3,2]]: the server uses a message of worker 3 two rounds later; null: none",
        unit="pairs of a worker and rounds",
    )
    groups: PositiveInt | None = key(
        None,
        "number of equal groups of neighbouring workers; inside a group gradients are averaged uncompressed, and the "
        "method sees one worker; null: no groups",
        unit="groups",
    )
    timeout: Annotated[PositiveFloat, Le(10**9)] = key(  # a thread waits no longer than 9.2e9 s
        600.0, "how long ranks wait for one another; longer than one evaluation", unit="seconds", affects="place"
    )

    @property
    def group_size(self) -> int:
        """The number of workers in a group."""
        return self.workers // (self.groups or self.workers)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run: an algorithm, a task and a number of workers."""

    algorithm: Part = part("the method")
    compressor: Part = part("the compressor C of the method's channels; default: the published one")
    update: Part = part("the update rule of a replica, where the method brings none")
    task: Part = part("the objective f and its data")
    logger: Part = part("where rows are shown besides the run's folder", affects="look")
    cluster: ClusterConfig = field(default_factory=ClusterConfig, metadata={"key": KeySpec("the workers")})

    partition: Literal["whole", "layer", "bucket"] = key(
        "whole", "blocks that are compressed separately: the whole vector, a tensor, or 25 MB of float32 as in DDP"
    )
    lr: Sequence[float] = key(0.001, "step size α; a list such as [0.001,0.003] is a grid trained as one batch")
    lr_schedule: Schedule = key(  # pyright: ignore[reportInvalidTypeForm]: made of a table
        "constant",
        "how α changes: a tenth at 50 % and 75 % of the rounds (step_decay), α/√t (inverse_sqrt), α/√T "
        "(horizon), half a cosine, or a line over the last fifth of the rounds (wsd)",
    )
    lr_final: NonNegativeFloat = key(0.1, "the share of α at which cosine and wsd end")
    warmup_rounds: NonNegativeInt = key(
        0, "W: rounds t ≤ W have t/(W+1) of the step size; the schedule covers the others", unit="rounds"
    )
    clip_worker: PositiveFloat | None = key(
        None, "largest norm of a worker's gradient before compression; null: no limit"
    )
    clip_aggregate: PositiveFloat | None = key(
        None, "largest norm of the vector that a replica's update gets, even a vote or a step; null: no limit"
    )
    weight_decay: float = key(0.0, "weight decay λ of the update rule or method", affects="others")
    rounds: PositiveInt = key(1000, "total rounds; null derives them from `epochs`", unit="rounds", derived=True)
    epochs: PositiveFloat | None = key(
        None,
        "length of the run where the task counts in epochs",
        unit="passes over the training images",
        affects="others",
    )
    eval_every: PositiveInt = key(10, "rounds between two evaluations; null: one epoch", unit="rounds", derived=True)
    eval_early: bool = key(False, "also evaluate after rounds 1, 2, 4, …, before the first regular evaluation")
    seed: NonNegativeInt = key(0, "seed of shards, batches, initial weights and stochastic compressors")

    device: Literal["auto", "cpu", "cuda"] = key(
        "auto", "auto: a GPU if there is one and the task can use it", affects="place"
    )
    deterministic: bool = key(
        False,
        "on a GPU, use deterministic algorithms only, and fail where there is none; CPU runs stay the same",
    )
    threads: Annotated[PositiveInt, Le(1024)] | None = key(
        None,
        "threads of torch; null: 1 for small rounds, the run's cores for large ones, or OMP_NUM_THREADS",
        unit="threads",
        affects="place",
    )
    checkpoint_every: PositiveInt = key(
        500,
        "rounds between two checkpoints; a stopped run writes one too, and so does a failed run of one process",
        unit="rounds",
        affects="place",
    )
    stale: Literal["rerun", "keep"] = key(
        "rerun",
        "for a run that other code computed: run it anew beside the older folder, or keep its result",
        affects="place",
    )
    verify_every: PositiveInt | None = key(
        None,
        "rounds between two comparisons of x between ranks, besides evaluations and checkpoints; null: none",
        unit="rounds",
        affects="place",
    )
    results_dir: Name = key("results", "folder of the runs' folders", affects="place")
    data_dir: Name = key("${oc.env:DATA_DIR,data/downloads}", "folder of the data sets", affects="place")
    study: Name | None = key(None, "the figure or sweep that a run is shown under", affects="look")
    packages: tuple[str, ...] = key((), "your packages whose classes and functions may be named", affects="place")

    def is_due(self, t: int) -> bool:
        """Whether round t is evaluated: every `eval_every` rounds, the last, and with `eval_early` 1, 2, 4, …"""
        early = self.eval_early and t < self.eval_every and t & (t - 1) == 0
        return early or t % self.eval_every == 0 or t == self.rounds

    @property
    def evaluations(self) -> int:
        """The number of evaluations, including the one at the start."""
        return 1 + sum(self.is_due(t) for t in range(1, self.rounds + 1))


UNCHANGING = tuple(
    f"{prefix}{key.name}"
    for kind, prefix in ((RunConfig, ""), (ClusterConfig, "cluster."))
    for key in fields(kind)
    if spec_of(key).affects in ("place", "look")
)
"""Keys of runs that change no numbers."""


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """How a command starts its runs. Runs do not depend on it."""

    jobs: PositiveInt | None = key(
        None,
        "runs at once, each in its own process; GPUs are assigned in turn; null: as cores and GPUs allow",
        unit="runs",
    )
    ranks: PositiveInt = key(
        1, "processes of each run; 1 simulates all workers in one, more start a torchrun", unit="processes"
    )
    job_timeout: PositiveFloat | None = key(
        None, "time after which a run is stopped; the same command resumes it; null: no limit", unit="seconds"
    )
    fail_fast: bool = key(False, "stop at the first failed run")
    dry_run: bool = key(False, "print runs, rounds, bits and estimated time, and run nothing")
    select: str | None = key(
        None,
        "what a sweep returns and selects step sizes by: final_<metric> or best_<metric>; null: the task's metric",
    )


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The keys of `experiments.reproduce`; every other key goes to the runs."""

    figure: Any = part("the runs, how they are drawn, the claims")
    budget: Literal["auto", "full", "large", "medium", "quick"] = key(
        "auto", "auto: the largest whose runs, timed here by a few rounds, take at most two hours"
    )
    seeds: Any = key(None, "seeds of every run, such as [0,1,2]; null: the figure's")
    overrides: tuple[str, ...] = key((), "overrides of every run")
    packages: tuple[str, ...] = key((), "your packages, for the figure and its runs")


def is_part(attribute: Field[Any]) -> bool:
    """Whether a group of conf/ fills this field."""
    return bool(attribute.metadata.get("part"))


def node(*schemas: type) -> DictConfig:
    """The keys of these dataclasses with their defaults, side by side, as Hydra composes them."""
    keys: dict[str, Any] = {}
    for key in (key for schema in schemas for key in fields(schema)):
        if is_part(key):
            keys[key.name] = "???"  # a group fills it
        elif key.name == "cluster":
            keys[key.name] = {each.name: each.default for each in fields(ClusterConfig)}
        else:
            keys[key.name] = list(key.default) if isinstance(key.default, tuple) else key.default
    return OmegaConf.create(keys)
