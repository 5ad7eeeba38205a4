"""Handmade run folders for the tests of their readers."""

import json
from collections.abc import Callable
from pathlib import Path

import yaml
from renewing import renew

LOOKS = {"plain": ("#111111", "o"), "noisy": ("#cc0000", "s")}


def folder(
    place: Path,
    name: str,
    *,
    algorithm: str = "plain",
    task: str = "toy",
    seed: int = 0,
    lrs: tuple[float, ...] = (0.1,),
    rounds: int = 100,
    status: str = "finished",
    time: str = "2026-01-01T00:00:00+00:00",
    reached: int | None = None,
    norm: Callable[[int, float, int], float] = lambda t, lr, seed: (1 + seed) * (1 - lr) ** t,
    **settings: object,
) -> Path:
    """Write a run like the harness, with a row every ten rounds up to `reached`.

    `settings` are dotted keys of its configuration, with __ for each dot: compressor__ratio=0.05.
    """
    color, marker = LOOKS.get(algorithm, ("#0000cc", "^"))
    config: dict = {
        "cluster": {"workers": 4, "timeout": 600},
        "lr": list(lrs),
        "rounds": rounds,
        "epochs": None,
        "eval_every": 10,
        "seed": seed,
        "weight_decay": 0.0,
        "threads": None,
        "results_dir": str(place),
        "compressor": {"_target_": "algorithms.compressors.ScaledSign", "norm": "l1"},
        "algorithm": {"name": algorithm, "display": {"label": algorithm.title(), "color": color, "marker": marker}},
        "task": {"name": task, "display": {"label": task.upper()}, "dataset": {"seed": seed, "workers": 4}},
    }
    for key, value in settings.items():
        *groups, last = key.split("__")
        node = config
        for group in groups:
            node = node.setdefault(group, {})
        node[last] = value
    workers = config["cluster"]["workers"]
    path = place / task / algorithm / name
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (path / "environment.json").write_text(
        json.dumps({"d": 8, "servers": 4, "exchanges": 3, "ranks": 2, "commit": "abcdef0123456789"})
    )
    (path / "code.json").write_text("{}")
    (path / "summary.json").write_text("{}")
    (path / "status.json").write_text(json.dumps({"status": status, "time": time}))
    rows = [
        {"round": t, "epoch": t / 10, "bits_up": 40 * t, "bits_down": 40 * t, "bits": 80 * t, "payload_bytes": 18 * t,
         "seconds": 0.01 * workers * t * (1 + seed), "trial": trial, "lr": lr, "train_loss": 1 / (1 + t),
         "grad_norm": norm(t, lr, seed), "train_accuracy": 0.5 + 0.4 * t / rounds, **({"extra": 1.0} if t else {})}
        for t in range(0, (rounds if reached is None else reached) + 1, 10) for trial, lr in enumerate(lrs)
    ]  # fmt: skip
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    renew(path)
    return path


def rewrite(path: Path, changed: Callable[[dict], dict]) -> None:
    """Change every row of a run."""
    rows = [changed(json.loads(line)) for line in (path / "metrics.jsonl").read_text().splitlines()]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    renew(path)


def change(path: Path, name: str, changed: Callable[[dict], dict]) -> None:
    (path / name).write_text(json.dumps(changed(json.loads((path / name).read_text()))))
    renew(path)
