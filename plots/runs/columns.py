"""What the columns of the results are called, and which way is better."""

from __future__ import annotations

from difflib import get_close_matches

LABELS = {
    "bits": "communication bits",
    "round": "rounds",
    "epoch": "epochs",
    "seconds": "seconds of training",
    "modelled_seconds": "modelled seconds",
    "grad_norm": r"gradient norm  $\|\nabla f(x)\|_2$",
    "train_loss": "training loss",
    "train_accuracy": "training accuracy",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
    "aggregate_error": r"compression error  $\|\hat g - g\|_2$",
    "signal_error": r"compression error, both ways  $\|\tilde g - g\|_2$",
    "second_moment": r"second moment  $\sum \hat v$",
    "second_moment_ratio": r"$\sum \hat v$ over uncompressed",
    "min_grad_norm_squared": r"$\min_t\, \|\nabla f(x_t)\|_2^2$",
}
"""Axis labels by column of the results; a column that is not here is its own label."""


def in_words(column: str) -> str:
    """A column's label without the formula behind it."""
    return LABELS.get(column, column).partition("  $")[0]


def higher_is_better(metric: str) -> bool:
    """Whether a larger value is a better one: true of accuracies, of nothing else."""
    return metric.endswith("accuracy")


def misspelt(metric: str) -> str | None:
    """The column that a name looks like without being one; a user's task may measure what it likes."""
    near = get_close_matches(metric, LABELS, n=1, cutoff=0.88)
    return near[0] if near and metric not in LABELS else None
