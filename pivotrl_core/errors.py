"""The error tree. An error names what is wrong, where, and the remedy; its exit code says whether a retry makes sense.

Exit codes follow sysexits.h: 65 the data is wrong, 78 the configuration is wrong (neither is worth a retry), 75 a
temporary failure (worth one), 70 anything else.
"""

from __future__ import annotations

EXIT_SOFTWARE = 70
EXIT_DATA = 65
EXIT_TEMPORARY = 75
EXIT_CONFIG = 78


class PivotRLError(Exception):
    """Root of all errors that this project raises on purpose."""

    exit_code = EXIT_SOFTWARE


class ConfigError(PivotRLError):
    """A key or value in the configuration is wrong."""

    exit_code = EXIT_CONFIG


class DataError(PivotRLError):
    """An input file is wrong. The message names file, row, field and what to do."""

    exit_code = EXIT_DATA


class NoPivotsError(DataError):
    """Selection left nothing to train on. The message says which rule removed what."""


class TooManyDropsError(DataError):
    """The share of dropped rows is above the limit that the configuration sets."""


class TemporaryError(PivotRLError):
    """The outside failed in a way that may pass: a time-out, a throttled or unreachable server."""

    exit_code = EXIT_TEMPORARY


class SandboxUnavailableError(PivotRLError):
    """Model-written code cannot be run because the sandbox is missing; it is never run without one."""


class TrainingError(PivotRLError):
    """Training cannot go on: a non-finite loss, or every group of every batch has zero variance."""


class EngineError(PivotRLError):
    """An engine outside of this process refuses, answers nonsense, or cannot be started. The message says which."""


class MeasurementError(PivotRLError):
    """A benchmark cannot be told: a side failed, or the sides did not do the same work."""


class SideKilledError(MeasurementError):
    """The process of one side of a benchmark was ended for want of memory, of the machine's or of the GPU's."""


class OutOfTimeError(MeasurementError):
    """A benchmark, or one side of it, was ended because its time was over."""
