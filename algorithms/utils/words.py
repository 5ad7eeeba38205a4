"""Options that are one of a few words."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check_words(owner: Callable, values: Mapping[str, object]) -> None:
    """Raise ValueError where one of these values is none of the words that its Literal names.

    owner: the class or function in which the options are annotated; values: the options, and whatever else, by name.
    """
    for name, words in _words(owner).items():
        if name in values and values[name] not in words:
            raise ValueError(f"{name}={values[name]!r}: must be {' or '.join(map(repr, words))}")


@cache
def _words(owner: Callable) -> dict[str, tuple[Any, ...]]:
    return {name: get_args(kind) for name, kind in get_type_hints(owner).items() if get_origin(kind) is Literal}
