"""Options set by a file in conf/ or a command line, validated by pydantic."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Immutable values of annotated types. Unknown keys, infinities and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def replace(self, **values: object) -> Self:
        """Return a copy with other values, validated. Raises pydantic.ValidationError."""
        return self.model_validate({**dict(self), **values})
