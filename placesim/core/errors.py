"""The exception tree: what can go wrong, as data with a sentence.

PlacesimError                    anything a user is told in one line
 ├─ UsageError                   the command line or an option is wrong
 ├─ GraphFileError               every problem of a file, each with its location
 ├─ GraphBuildError              TensorFlow's Python would raise ValueError while the graph is built
 ├─ RequestError                 TensorFlow's Python would raise ValueError for a fetch or a feed
 ├─ Interruption                 Ctrl-C ended a command that had established something
 ├─ SessionUsageError            TensorFlow's Python would raise RuntimeError for how a session is used
 ├─ DefectError                  placesim itself is wrong: whoever meets it is asked to report it
 └─ OpError                      TensorFlow's own status classes
     ├─ CancelledError           ├─ UnknownError           ├─ InvalidArgumentError
     ├─ DeadlineExceededError    ├─ NotFoundError          ├─ AlreadyExistsError
     ├─ PermissionDeniedError    ├─ ResourceExhaustedError ├─ FailedPreconditionError
     ├─ AbortedError             ├─ OutOfRangeError        ├─ UnimplementedError
     ├─ InternalError            ├─ UnavailableError       └─ DataLossError
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from placesim.core.escaping import escape_line


class Location(NamedTuple):
    """A place in a file; lines and columns count from 1 (line 0: the whole of it)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        file = escape_line(self.file)
        return f"{file}:{self.line}:{self.column}" if self.line else file


class Problem(NamedTuple):
    """One thing that is wrong with a file, where it is and what to try; `error` is TensorFlow's class where it has one."""

    location: Location
    message: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class PlacesimError(Exception):
    """Root of every error that a user may see; `outcome` is what was established before it, `report` its readings."""

    code: ClassVar[str] = ""
    exit_code: ClassVar[int] = 2

    def __init__(
        self, message: str, *, node: str | None = None, location: Location | None = None, device: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.location = location
        self.device = device
        self.help: tuple[str, ...] = ()
        self.outcome: Any = None
        self.report: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # as it is, since a class may be made of something else than its text
        return _revived, (type(self), self.args, self.__dict__)

    @property
    def type_name(self) -> str:
        """The class as TensorFlow's users know it."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.message


def _revived(kind: type[PlacesimError], args: tuple[Any, ...], state: dict[str, Any]) -> PlacesimError:
    """An error that comes from another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(PlacesimError):
    """An option, a feed or a fetch that means nothing."""


class Interruption(PlacesimError):
    """Ctrl-C: no error of anybody's, but what a report says in the place of one, so that it keeps what was done."""

    exit_code = 130

    @property
    def type_name(self) -> str:
        """The name that reports have."""
        return "Interrupted"


class GraphFileError(PlacesimError):
    """A file is wrong; `problems` lists everything that is wrong with it, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)), location=problems[0].location if problems else None)
        self.problems = problems


def shown_type(error: PlacesimError) -> str:
    """The class that a user is told: TensorFlow's own, where all that is wrong with a file is of one."""
    if isinstance(error, GraphFileError):
        classes = {problem.error for problem in error.problems}
        if len(classes) == 1 and "" not in classes:
            return classes.pop()
    return error.type_name


class GraphBuildError(PlacesimError, ValueError):
    """ValueError of TensorFlow's Python while a graph is built."""

    exit_code = 1

    @property
    def type_name(self) -> str:
        return "ValueError"


class RequestError(PlacesimError, ValueError):
    """A fetch or a feed that TensorFlow's Python refuses with a ValueError."""

    @property
    def type_name(self) -> str:
        return "ValueError"


class SessionUsageError(PlacesimError, RuntimeError):
    """RuntimeError of TensorFlow's Python for a misused session."""

    exit_code = 1

    @property
    def type_name(self) -> str:
        return "RuntimeError"


class DefectError(PlacesimError):
    """A defect of placesim, with the place of its discovery; no graph should cause it."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h

    @property
    def type_name(self) -> str:
        return "InternalError"


class OpError(PlacesimError):
    """A status of TensorFlow's runtime; `code` is its name there."""

    exit_code = 1


class CancelledError(OpError):
    code = "CANCELLED"


class UnknownError(OpError):
    code = "UNKNOWN"


class InvalidArgumentError(OpError):
    code = "INVALID_ARGUMENT"


class DeadlineExceededError(OpError):
    code = "DEADLINE_EXCEEDED"


class NotFoundError(OpError):
    code = "NOT_FOUND"


class AlreadyExistsError(OpError):
    code = "ALREADY_EXISTS"


class PermissionDeniedError(OpError):
    code = "PERMISSION_DENIED"


class ResourceExhaustedError(OpError):
    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(OpError):
    code = "FAILED_PRECONDITION"


class AbortedError(OpError):
    code = "ABORTED"


class OutOfRangeError(OpError):
    code = "OUT_OF_RANGE"


class UnimplementedError(OpError):
    code = "UNIMPLEMENTED"


class InternalError(OpError):
    code = "INTERNAL"


class UnavailableError(OpError):
    code = "UNAVAILABLE"


class DataLossError(OpError):
    code = "DATA_LOSS"
