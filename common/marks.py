"""What an annotation says of an option besides its type."""

from typing import Annotated, TypeVar

T = TypeVar("T")

Place = Annotated[T, "place"]
"""Of an option on which no number depends, such as `data_dir: Place[str]`: it is left out of a run's identity."""
