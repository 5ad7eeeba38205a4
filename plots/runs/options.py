"""What a file in conf/ or a command line sets, and pydantic checks."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Named values of annotated types, which stay as they are. Other keys, infinities and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def replace(self, **values: object) -> Self:
        """The same with other values, which are checked. Raises pydantic.ValidationError."""
        return self.model_validate({**dict(self), **values})
