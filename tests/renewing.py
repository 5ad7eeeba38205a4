"""The checksums of a run's folder for tests that change its files."""

import json
from pathlib import Path
from typing import Any

from plots.runs.checksums import KEY, as_json, as_row, as_yaml, id_of, initial_checksum


def renew(folder: Path, run: str | None = None) -> None:
    """Renew the checksums of all files in a run's folder.

    run: the run's id; None for the folder's name.
    """
    run, lines = run or id_of(folder), []
    last, metrics, config = initial_checksum(run), folder / "metrics.jsonl", folder / "config.yaml"
    if metrics.exists():
        *rows, half = metrics.read_bytes().split(b"\n")
        for row in rows:
            line, last = as_row(_without(row), last)
            lines.append(line)
        metrics.write_bytes(b"".join(lines) + half)
    for file in folder.glob("*.json"):
        content = _without(file.read_bytes())
        if file.name == "status.json":
            content["metrics_size"] = sum(map(len, lines))
        file.write_bytes(as_json(content, run))
    if config.exists():
        config.write_bytes(as_yaml(config.read_bytes().decode().partition(f"# {KEY}: ")[0], run))


def _without(text: bytes) -> dict[str, Any]:
    content = json.loads(text)
    content.pop(KEY, None)
    return content
