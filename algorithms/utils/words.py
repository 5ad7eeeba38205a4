"""Check options with a few allowed words."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check_words(owner: Callable, values: Mapping[str, object]) -> None:
    """Raise ValueError if a value is not one of the words of its Literal.

    owner: the class or function with the annotations. values: the options by name; other names are ignored.
    """
    for name, words in _words(owner).items():
        if name in values and values[name] not in words:
            raise ValueError(f"{name}={values[name]!r}: must be {' or '.join(map(repr, words))}")


@cache
def _words(owner: Callable) -> dict[str, tuple[Any, ...]]:
    return {name: get_args(kind) for name, kind in get_type_hints(owner).items() if get_origin(kind) is Literal}
