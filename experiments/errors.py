"""Errors meant for the person at the terminal: one message, no traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from data.errors import DataError


class UsageError(Exception):
    """The configuration is wrong; nothing was started. Exit status 2."""


class RunError(Exception):
    """A run could not go on; what it had is kept. Exit status 1."""


class Interrupted(Exception):
    """The user or the system asked a run to stop; it can be resumed. Exit status 130."""


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Turn the errors above, those of the data loaders and the system's into a message and an exit status."""
    try:
        yield
    except (UsageError, RunError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:
        print(
            f"error: {error.filename or ''}: {error.strerror or error}".replace("error: :", "error:"), file=sys.stderr
        )
        sys.exit(1)
    except (Interrupted, KeyboardInterrupt) as error:
        print(str(error) or "stopped", file=sys.stderr)
        sys.exit(130)
