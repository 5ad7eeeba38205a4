"""The configuration reference says everything that the configuration holds, as it is there."""

import re
from functools import cache

import pytest

from docs.extensions.pages import pages
from docs.extensions.reference import BUILT, KEYS, composed, names, of_choice, of_schema

written = cache(pages)


def _leaves(node: object, prefix: str = "") -> list[str]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in _leaves(value, f"{prefix}{key}.")]
    return [prefix.removesuffix(".")]


@cache
def _shown() -> set[str]:
    """The keys that the reference has an entry for."""
    lines = [line for name in ("keys", *BUILT) for line in written()[f"configuration/{name}.rst"]]
    return {key for line in lines for key in re.findall(r"^``([\w.]+)`` = ", line)}


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BUILT for name in names(group)])
def test_every_key_and_option_of_a_choice_is_in_the_reference_and_says_what_it_is(group, name):
    leaves = _leaves(composed(f"{group}={name}"))
    labels = re.compile(r".*\._target_|(algorithm|task)\.(name|display\..*)|logger\.targets\..*|sweep")
    assert {leaf for leaf in leaves if not labels.fullmatch(leaf)} <= _shown()
    assert f"``{name}``" in written()[f"configuration/{group}.rst"]
    assert [setting.key for setting in of_choice(group, name) if not setting.meaning] == []


def test_every_key_says_what_it_is():
    assert [setting.key for kind in KEYS.values() for setting in of_schema(kind) if not setting.meaning] == []


def test_a_key_that_a_choice_sets_stands_with_it():
    settings = {setting.key: setting.value for setting in of_choice("task", "digits")}
    assert settings["epochs"] == 10
    assert settings["task.batch_size"] == 32
    assert settings["task.model.width"] == 16
