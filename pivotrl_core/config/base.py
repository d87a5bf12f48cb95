"""What all parts of the configuration share: frozen, no unknown keys, and types for common bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the configuration tree. Frozen; an unknown key is an error, and so is infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


Probability = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveInt = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Decay = Annotated[float, Field(ge=0.0, lt=1.0)]
Temperature = Annotated[float, Field(gt=0.0, le=4.0)]
LearningRate = Annotated[float, Field(gt=0.0, le=1.0)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9-]+$", max_length=40)]
