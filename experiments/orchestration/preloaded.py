"""Work that the fork server does once for all jobs."""

from experiments.config.values import validate
from experiments.orchestration import job  # noqa: F401 (it imports what jobs need)
from experiments.run_store.code import loaded
from experiments.run_store.environment import environment

CODE = loaded()
"""The code that the fork server imported, by module."""

environment()  # cached: it asks git and reads the versions of packages
validate(0, int, "")  # pydantic looks for plugins at the first use
