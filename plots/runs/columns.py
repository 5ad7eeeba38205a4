"""The columns of the results: name, label, unit, better direction, and the part that fills it."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from common.errors import UsageError
from common.names import closest_name, explain_unknown


@dataclass(frozen=True)
class Column:
    """A column of metrics.jsonl, or one that a figure derives from these.

    `label` may end in a formula, after two spaces. `wandb` is its name there, with its group. `better` is empty if
    neither direction is better.
    """

    name: str
    label: str = ""  # empty: the name
    unit: str = ""
    better: Literal["lower", "higher", ""] = ""
    filled_by: Literal["trainer", "meter", "task", "diagnostics", "figure"] = "task"
    wandb: str = ""  # empty: compression/<name> for diagnostics, metric/<name> for others

    def __post_init__(self) -> None:
        if self.better not in ("lower", "higher", ""):
            raise ValueError(f'Column("{self.name}", better="{self.better}"): must be "lower" or "higher", or empty')

    @property
    def is_measured(self) -> bool:
        """Whether it measures the model rather than the cost of training."""
        return self.filled_by not in ("trainer", "meter")


TABLE = (
    Column("bits", "communication bits", "bits", filled_by="meter", wandb="comm/bits"),
    Column("round", "rounds", "rounds", filled_by="trainer", wandb="progress/round"),
    Column("epoch", "epochs", "passes", filled_by="trainer", wandb="progress/epoch"),
    Column("trial", filled_by="trainer"),
    Column("lr", "step size as configured", filled_by="trainer"),
    Column("step_size", "step size", filled_by="trainer"),
    Column("gradient_calls", "gradients taken by a worker", filled_by="trainer", wandb="progress/gradient_calls"),
    Column("bits_up", "uplink bits", "bits", filled_by="meter", wandb="comm/bits_up"),
    Column("bits_down", "downlink bits", "bits", filled_by="meter", wandb="comm/bits_down"),
    Column("bits_inside", "bits inside a group", "bits", filled_by="meter", wandb="comm/bits_inside"),
    Column("payload_bytes", "payload", "bytes", filled_by="meter", wandb="comm/payload_bytes"),
    Column("seconds", "seconds of training", "seconds", filled_by="trainer", wandb="time/seconds"),
    Column("train_loss", "training loss", better="lower", wandb="loss/train"),
    Column("grad_norm", r"gradient norm  $\|\nabla f(x)\|_2$", better="lower", wandb="gradient/norm"),
    Column("train_accuracy", "training accuracy", "share", "higher", wandb="accuracy/train"),
    Column("test_loss", "test loss", better="lower", wandb="loss/test"),
    Column("test_accuracy", "test accuracy", "share", "higher", wandb="accuracy/test"),
    Column("mean_norm", r"norm of the workers' mean  $\|g\|_2$", filled_by="diagnostics"),
    Column("aggregate_error", r"compression error  $\|\hat g - g\|_2$", "", "lower", "diagnostics"),
    Column("signal_error", r"compression error, both ways  $\|\tilde g - g\|_2$", "", "lower", "diagnostics"),
    Column("second_moment", r"second moment  $\sum \hat v$", filled_by="diagnostics"),
    Column("second_moment_ratio", r"$\sum \hat v$ over uncompressed", filled_by="figure"),
    Column("relative_error", r"$\|\tilde g - g\|_2$ over $\|g\|_2$", "", "lower", "figure"),
    Column("train_loss_ratio", "least training loss over uncompressed", "", "lower", "figure"),
    Column("grad_norm_ratio", r"least $\|\nabla f\|_2$  over uncompressed", "", "lower", "figure"),
    Column("min_grad_norm_squared", r"$\min_t\, \|\nabla f(x_t)\|_2^2$", "", "lower", "figure"),
    Column("batch_size", "batch size of a worker", filled_by="figure"),
    Column("modelled_seconds", "modelled seconds", "seconds", filled_by="figure"),
    Column("bandwidth", "Mbit/s of every link", "Mbit/s", filled_by="figure"),
    Column("seconds_to_level", "modelled seconds to the level", "seconds", filled_by="figure"),
    Column("seconds_of_round", "seconds a round", "seconds", filled_by="figure"),
)
"""The project's columns. A row holds all except those filled by figures."""

RESERVED = (
    "crc32", "task", "algorithm", "compressor", "seed", "run", "planned_rounds", "d", "workers", "ranks", "servers",
    "exchanges", "stages", "trials", "groups", "task_label", "selected_by", "label", "color", "marker", "dash",
    "left_out", "method", "budget", "best", "drawn", "published", "stopped", "front", "diverged",
    "judged", "setting", "status",
)  # fmt: skip
"""Names of the columns that files and tables add to TABLE."""

Axis = Literal["bits", "round", "epoch", "bits_up", "bits_down", "seconds", "modelled_seconds"]
"""The x axes of curves: growing columns of every row, and the modelled seconds."""

AXES: tuple[Axis, ...] = get_args(Axis)

_OURS = {column.name: column for column in TABLE}
_TAKEN = {*RESERVED, *(column.name for column in TABLE if column.filled_by != "task")}
_declared: dict[str, Column] = {}
_reported = set[str]()


def declare(record: Iterable[Mapping[str, Any]]) -> None:
    """Register the columns of a user's task from `dataclasses.asdict`. The project's columns take precedence.

    If runs declare different directions, the run read last counts, with a notice on standard error.
    """
    for new in (Column(**entry) for entry in record):
        if _declared.get(new.name, new).better != new.better and new.name not in _reported:
            _reported.add(new.name)
            print(f"{new.name}: runs disagree on whether higher or lower is better; rename one", file=sys.stderr)
        _declared[new.name] = new


def refuse_reserved_names(metrics: Iterable[str]) -> None:
    """Raise UsageError if a task's metric has the name of another column, because it would replace that column."""
    for name in _TAKEN.intersection(metrics):
        raise UsageError(f"{name}: the task's `evaluate` returns it, but another column has this name; rename it")


ABOUT_BITS = {
    "bits": "Bits count what {} sends and receives.",
    "bits_up": "Uplink bits are those that {} sends to the server.",
    "bits_down": "Downlink bits are those that {} receives from the server.",
}
"""A caption's sentence about an axis. {} stands for the worker or group."""


def column(name: str) -> Column:
    """Look up a column. An undeclared one belongs to a task, and has a direction only if it is an accuracy."""
    known = _OURS.get(name) or _declared.get(name)
    return known or Column(name, better="higher" if name.endswith("accuracy") else "")


def usual_scale(name: str) -> Literal["log", "linear"]:
    """The default scale of an axis: log for bits, modelled seconds, diagnostics and whatever is better if lower."""
    known = column(name)
    over_decades = known.unit == "bits" or known.better == "lower" or known.filled_by == "diagnostics"
    return "log" if over_decades or name == "modelled_seconds" else "linear"


def label(name: str) -> str:
    return column(name).label or name


def in_words(name: str) -> str:
    """A column's label without its formula."""
    return label(name).partition("  $")[0].replace("  ", " ")


def higher_is_better(name: str) -> bool:
    return column(name).better == "higher"


def sign(name: str) -> int:
    """The factor, 1 or -1, that makes smaller values of a column better.

    Raises UsageError for a column without a better direction.
    """
    if not column(name).better:
        own = f'add Column("{name}", better=...) to the `columns` of its task, and run it again'
        what = "choose a metric that has a better direction" if name in _OURS else own
        raise UsageError(f"{name}: nothing says whether lower or higher is better; {what}")
    return -1 if higher_is_better(name) else 1


def check_rule(rule: str) -> None:
    """Raise UsageError unless the metric of `select=` has a better direction and belongs to runs.

    Any name that ends in accuracy is accepted, because a task may measure it.
    """
    of, _, name = rule.partition("_")
    if not column(name).better or column(name).filled_by == "figure":
        known = (one for one in (_OURS | _declared).values() if one.better and one.filled_by != "figure")
        raise UsageError(
            explain_unknown(f"select={rule}: no such choice", rule, [f"{of}_{one.name}" for one in known])
        )


def default_metric(measured: Iterable[str], *declared: str | None) -> str | None:
    """Choose the measured metric that selects step sizes: the one that the task declares.

    Without one it is the training loss if there is a test loss, as for networks, and else the gradient norm, as for
    logistic regression. None if none of these was measured.
    """
    measured = set(measured)
    usual = ("train_loss", "grad_norm") if "test_loss" in measured else ("grad_norm", "train_loss")
    return next((name for name in (*declared, *usual) if name in measured and column(str(name)).better), None)


def suggest_column(metric: str) -> str | None:
    """The known column that an unknown name resembles closely. A user's task may have any other name."""
    return None if metric in {*_OURS, *_declared} else closest_name(metric, _OURS, cutoff=0.88)
