"""Keys that follow from others: rounds from epochs, a data file's hash, the precision that the machine is fast in."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from common.errors import UsageError
from experiments.config.compose import Config


def complete(config: Config) -> None:
    """Fill in what follows, in place. Raises UsageError where it cannot be told."""
    _count_rounds(config)
    _pin_files(config["task"])
    if config["task"].get("precision") == "auto":
        # What is fast depends on the machine, and so torch is asked; the run is known by the answer.
        from experiments.tasks.precision import resolved_precision

        config["task"]["precision"] = resolved_precision("auto", config["device"])


def _count_rounds(config: Config) -> None:
    """`rounds` and `eval_every` where a task counts in epochs of ⌊⌊rows/n⌋/batch_size⌋ rounds."""
    task, workers = config["task"], config["cluster"]["workers"]
    if "rows" not in task:
        if config["epochs"] is not None:
            raise UsageError(f"epochs={config['epochs']}: task={task['name']} counts in rounds; set rounds")
        if config["rounds"] is None or config["eval_every"] is None:
            raise UsageError(f"rounds, eval_every: task={task['name']} does not count in epochs; set both")
        return
    for key in ("rows", "batch_size"):
        if not isinstance(task[key], int) or task[key] < 1:
            raise UsageError(f"task.{key}={task[key]}: must be a whole number of at least 1")
    rows = task["rows"] // workers
    an_epoch = rows // task["batch_size"]
    if not an_epoch:
        raise UsageError(
            f"task.batch_size={task['batch_size']}, cluster.workers={workers}: each worker has {rows} images; choose "
            "a batch of at most that, or fewer workers"
        )
    if config["rounds"] is not None:
        config["epochs"] = None
    elif config["epochs"] is None:
        raise UsageError("epochs: neither they nor rounds are set")
    else:
        config["rounds"] = max(1, round(config["epochs"] * an_epoch))
    if config["eval_every"] is None:
        config["eval_every"] = an_epoch


def _pin_files(node: Any) -> None:
    """Give every data file named by path the hash of its bytes, so that a changed file is another run."""
    if isinstance(node, dict):
        if "file" in node and node.get("sha256", "") is None:
            try:
                with Path(str(node["file"])).expanduser().open("rb") as file:
                    node["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise UsageError(f"{node['file']}: {error.strerror}") from error
        for value in node.values():
            _pin_files(value)
