"""The files of a run's checkpoints: which there are, and whether they are as they were written."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any


def rounds(folder: Path) -> tuple[list[int], list[str]]:
    """The rounds of the complete checkpoints in a folder, in the order in which they are tried, and what is wrong
    with `latest`."""
    numbers = (_number(file.parent.name) for file in folder.glob("*/shared.pt"))
    complete = sorted((t for t in numbers if t is not None), reverse=True)
    newest = latest(folder)
    if newest in complete:
        return [t for t in complete if t <= newest], []
    if not complete and not (folder / "latest").exists():
        return [], []
    named = "no round" if newest is None else f"round {newest}, which is not there"
    return complete, [f"{folder / 'latest'}: names {named}"]


def latest(folder: Path) -> int | None:
    """The round of the newest, as `latest` names it; None where it does not."""
    try:
        return _number((folder / "latest").read_bytes().strip().decode("ascii", "replace"))
    except FileNotFoundError:
        return None


def about(folder: Path, t: int, part: str, servers: int = 0) -> dict[str, Any]:
    """What a file says that it is; servers: of `shared`, in how many parts the server is beside it."""
    return {"run": folder.parent.name, "round": t, "part": part} | ({"servers": servers} if servers else {})


def server(number: int, count: int) -> str:
    """The name of a part of a server of so many."""
    return f"server-{number}-of-{count}"


def write(file: Path, about: dict[str, Any], tensors: memoryview) -> None:
    """Write a line with the SHA-256 of all that follows, a line that says what it is, and the tensors."""
    line = json.dumps(about).encode() + b"\n"
    with file.open("wb") as stream:
        stream.write(_digest(line, tensors))
        stream.write(line)
        stream.write(tensors)


def read(folder: Path, t: int, part: str) -> bytes:
    """The tensors that `write` wrote. Raises ValueError where the file is not that any more."""
    file = folder / str(t) / f"{part}.pt"
    with file.open("rb") as stream:
        digest, line, tensors = stream.readline(), stream.readline(), stream.read()
    if digest != _digest(line, tensors):
        raise ValueError(f"{file.name}: damaged: the checksum does not match")
    found, wanted = json.loads(line), about(folder, t, part)
    found.pop("servers", None)
    if found["run"] != wanted["run"]:
        raise ValueError(f"{file.name}: of another configuration, run {found['run']}")
    if found != wanted:
        raise ValueError(f"{file.name}: holds {found['part']} of round {found['round']}")
    return tensors


def verify(folder: Path, workers: int) -> None:
    """Raise ValueError unless every complete checkpoint in a folder is as it was written, with all of n workers."""
    found, damage = rounds(folder)
    if damage:
        raise ValueError(damage[0])
    for t in found:
        for part in ("shared", *(f"worker-{worker}" for worker in range(workers))):
            try:
                read(folder, t, part)
                if part == "shared":
                    count = servers(folder, t)
                    for number in range(count):
                        read(folder, t, server(number, count))
            except FileNotFoundError as error:
                raise ValueError(f"{error.filename}: missing") from error
            except ValueError as error:
                raise ValueError(f"{folder / str(t)}: {error}") from error


def servers(folder: Path, t: int) -> int:
    """In how many parts the server of a checkpoint is; 0 where it has none of its own."""
    with (folder / str(t) / "shared.pt").open("rb") as stream:
        stream.readline()
        return json.loads(stream.readline()).get("servers", 0)


def _number(name: str) -> int | None:
    """The round that a folder's name is; None where it is none."""
    return int(name) if re.fullmatch("0|[1-9][0-9]{,17}", name) else None


def _digest(*parts: bytes | memoryview) -> bytes:
    """A file's first line."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"sha256 {digest.hexdigest()}\n".encode()
