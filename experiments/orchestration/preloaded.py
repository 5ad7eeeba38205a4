"""What the fork server finds out once for all jobs."""

from experiments.config.values import validate
from experiments.orchestration import job  # noqa: F401 (which imports what jobs compute with)
from experiments.run_store.code import loaded
from experiments.run_store.environment import environment

CODE = loaded()
"""The code of this process."""

environment()  # asks git, and reads the versions of packages
validate(0, int, "")  # pydantic looks for plugins
