"""Data sets that are known by their content: looked for in files, else fetched, and believed once it is checked."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from common.errors import DataError, Unavailable
from data.cache import Arrays, cached
from data.dataset import digest

Source = tuple[Callable[..., Arrays], str, str]
"""`download` or `pack`, what to fetch, and what the file is called."""


def pinned(
    name: str,
    sha256: str,
    data_dir: str | Path,
    folder: str,
    forms: Sequence[str],
    read: Callable[[Path], Arrays],
    sources: Sequence[Source],
) -> Arrays:
    """The arrays of a set, whose content hash (see `digest`) is `sha256`.

    In `data_dir` they are looked for decoded (`cache/`), then, in it or in its `folder`, as one of the files and
    folders called `forms`, which `read` reads; else fetched into `folder`, from the first source that has them. A
    read-only `data_dir` will do.
    Raises DataError where files are damaged or of other content, Unavailable where no source gives them.
    """
    base = Path(data_dir).expanduser()
    check = partial(_checked, name, sha256, read)
    build = partial(_obtained, base, folder, forms, check, sources)
    return cached(base / "cache" / f"{name}-{sha256[:12]}", build, sha256)


def _obtained(
    base: Path, folder: str, forms: Sequence[str], check: Callable[..., Arrays], sources: Sequence[Source]
) -> Arrays:
    _, address, file = sources[0]
    for place in (base, base / folder):
        for form in forms:
            if (place / form).exists():
                return check(place / form, source=place / form, remedy=f"put {file} from {address} there instead")
    failures = []
    for fetch, address, file in sources:
        remedy = f"it was not kept; fetch the set elsewhere and put it at {base / folder / file}"
        try:
            return fetch(address, base / folder / file, partial(check, source=address, remedy=remedy))
        except DataError as error:
            failures.append(error)
    raise failures[0] if len(failures) == 1 else Unavailable("; ".join(map(str, failures)))


def _checked(
    name: str, sha256: str, read: Callable[[Path], Arrays], place: Path, source: object, remedy: str
) -> Arrays:
    try:
        arrays = read(place)
    except Exception as error:  # damaged archives and pictures can raise nearly anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{source} cannot be read as {name} ({reason}): {remedy}") from error
    found = digest(arrays.values())
    if found != sha256:
        raise DataError(f"{source} is not {name}: expected content of SHA-256 {sha256}, found {found}: {remedy}")
    return arrays
