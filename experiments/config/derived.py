"""Fill in derived keys: rounds from epochs, and a data file's hash and name."""

import hashlib
import re
from pathlib import Path
from typing import Any

from common.errors import UsageError
from common.files import require_regular
from experiments.config.compose import Config


def fill_derived_keys(config: Config) -> None:
    """Fill in derived keys, in place. Raises UsageError if one cannot be derived."""
    task = config["task"]
    _name_by_file(task)
    if {"rows", "batch_size"} <= task.keys():
        _count_in_epochs(config, task, config["cluster"]["workers"])
    elif config["epochs"] is not None:
        raise UsageError(f"epochs={config['epochs']}: task={task['name']} counts in rounds; set rounds")
    elif None in (config["rounds"], config["eval_every"]):
        raise UsageError(f"rounds, eval_every: task={task['name']} does not count in epochs; set both")
    if config["rounds"] <= config["warmup_rounds"]:
        raise UsageError(f"warmup_rounds={config['warmup_rounds']}: must be less than rounds={config['rounds']}")
    _pin_files(task)


def _count_in_epochs(config: Config, task: Config, workers: int) -> None:
    rows, batch_size, epochs = task["rows"], task["batch_size"], config["epochs"]
    for key, count in (("rows", rows), ("batch_size", batch_size)):
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"task.{key}={count}: must be a whole number of at least 1")
    own = rows // workers
    an_epoch = own // batch_size
    if not an_epoch:
        raise UsageError(
            f"task.batch_size={batch_size}, cluster.workers={workers}: each worker has {own} images; choose a batch "
            "of at most that, or fewer workers"
        )
    if config["rounds"] is not None:
        config["epochs"] = None
    elif epochs is None:
        raise UsageError("epochs: set epochs or rounds")
    else:
        config["rounds"] = max(1, round(epochs * an_epoch))
    if config["eval_every"] is None:
        config["eval_every"] = an_epoch


def _name_by_file(task: Config) -> None:
    """Replace {file} by the data file's name in a task's name, which is a folder's, and in its label."""
    dataset, display = task.get("dataset"), task.get("display")
    file = Path(str(dataset.get("file"))).name if isinstance(dataset, dict) else ""
    plain = re.sub(r"[^\w.+-]+", "_", file).lstrip("_.+-")
    for node, key, name in ((task, "name", plain), (display, "label", file)):
        if isinstance(node, dict) and isinstance(node.get(key), str):
            node[key] = node[key].replace("{file}", name)


def _pin_files(node: Any) -> None:
    """Set the hash of every data file named by path, so that a changed file gives another run."""
    if isinstance(node, dict):
        path = node.get("file")
        if path is not None and node.get("sha256", "") is None:
            try:
                with require_regular(Path(str(path)).expanduser()).open("rb") as file:
                    node["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from error
        for value in node.values():
            _pin_files(value)
