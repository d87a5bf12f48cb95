"""Verdicts from elsewhere: services started with `pivotrl serve-verifier`, on machines whose processors are free."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from pivotrl_core.config.base import Count, PositiveInt, Section
from pivotrl_core.config.engine import VARIABLE, Seconds, check_endpoint


class ServiceConfig(Section):
    """Services that all have this configuration's verifier. A single address may stand in place of the section."""

    endpoints: tuple[str, ...] = Field(min_length=1, description="addresses such as http://127.0.0.1:8901")
    token_variable: str = Field(
        "PIVOTRL_SERVICE_TOKEN", pattern=VARIABLE, description="environment variable with the bearer token, if any"
    )
    connections: PositiveInt = Field(16, le=1024, description="that are open at once")
    request_seconds: Seconds = Field(600.0, description="how long one request may take before it is tried again")
    retries: Count = Field(5, le=100, description="more tries of a request that failed in a way that may pass")

    @model_validator(mode="before")
    @classmethod
    def _one_address(cls, value: Any) -> Any:
        return {"endpoints": [value]} if isinstance(value, str) else value

    @field_validator("endpoints")
    @classmethod
    def _are_addresses(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_endpoint(endpoint) for endpoint in endpoints)
