"""Work that the fork server does once for all jobs."""

from experiments.config.values import validate
from experiments.orchestration import job  # noqa: F401 (it imports what jobs need)
from experiments.run_store.code import digests, revision
from experiments.run_store.environment import versions

CODE = digests()
"""The code that the fork server imported, by module."""

revision()  # cached: it asks git
versions()  # cached. Not `environment()`: it starts CUDA, and such a process cannot be forked
validate(0, int, "")  # pydantic looks for plugins at the first use
