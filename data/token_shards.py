"""Texts as shards of GPT-2 tokens, in the .bin format of FineWeb's shards."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import PositiveInt

from common.errors import DataError
from data.dataset import Place, Tokens

MAGIC, VERSION, HEADER = 20240520, 1, 256
VOCABULARY = 50257


def read_shards(
    data_dir: Place[str | Path],  # the folder of the shards, or the folder above it
    name: str = "fineweb",  # of the shards and of their folder in `data_dir`
    shards: PositiveInt = 1,  # to train on, the first ones
    held_out: PositiveInt = 10_485_760,  # tokens of the held-out part, the first ones
) -> Tokens:
    """Read the tokens of <name>_train_000001.bin, 000002, … and the held-out ones of <name>_val_000000.bin.

    A shard has a header of 256 int32 numbers: 20240520, the version 1 and the number of tokens. The tokens follow as
    uint16. All numbers are little-endian.
    Raises DataError if a file is missing, has another format, or has tokens that GPT-2 lacks.
    Source: the files of Karpathy's llm.c (dev/data/data_common.py).
    """
    base = Path(data_dir).expanduser()
    folder = next((place for place in (base / name, base) if any(place.glob(f"{name}_train_*.bin"))), base / name)
    files = [folder / f"{name}_train_{number:06}.bin" for number in range(1, shards + 1)]
    return Tokens(name, join_shards(files), read_shard(folder / f"{name}_val_000000.bin", held_out), VOCABULARY)


def join_shards(files: Sequence[Path]) -> np.ndarray:
    """Join the tokens of several shards, uint16 [N]. A single shard stays mapped from its file."""
    parts = [read_shard(file) for file in files]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_shard(file: Path, count: int | None = None) -> np.ndarray:
    """Map the first `count` tokens of a shard (None: all), uint16 [N], after one pass that checks them.

    Raises DataError.
    """
    try:
        header, size = np.fromfile(file, "<i4", HEADER), file.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}; llm.c's dev/data/fineweb.py makes it") from error
    if header[:3].tolist() != [MAGIC, VERSION, (size - 4 * HEADER) / 2]:
        raise DataError(
            f"{file}: has {size} bytes and begins with {header[:3].tolist()}: truncated, or of another form; a shard "
            f"begins with {MAGIC}, {VERSION} and the number of its tokens; they follow at byte {4 * HEADER}, 2 each"
        )
    tokens = np.memmap(file, "<u2", "c", 4 * HEADER)[:count]
    if (largest := int(tokens.max(initial=0))) >= VOCABULARY:
        raise DataError(f"{file}: has the token {largest}, but GPT-2's {VOCABULARY} tokens end at {VOCABULARY - 1}")
    return tokens
