"""The tree of exceptions, each with a message and structured data.

PlacesimError                    any error that a user sees
 ├─ UsageError                   the command line or an option is wrong
 ├─ GraphFileError               every problem of a file, each with its location
 ├─ GraphBuildError              TensorFlow's Python would raise ValueError while the graph is built
 ├─ RequestError                 TensorFlow's Python would raise ValueError for a fetch or a feed
 ├─ Interruption                 Ctrl-C ended a command that had partial results
 ├─ SessionUsageError            TensorFlow's Python would raise RuntimeError for how a session is used
 ├─ DefectError                  a bug in placesim, which the user is asked to report
 └─ OpError                      TensorFlow's own status classes
     ├─ CancelledError           ├─ UnknownError           ├─ InvalidArgumentError
     ├─ DeadlineExceededError    ├─ NotFoundError          ├─ AlreadyExistsError
     ├─ PermissionDeniedError    ├─ ResourceExhaustedError ├─ FailedPreconditionError
     ├─ AbortedError             ├─ OutOfRangeError        ├─ UnimplementedError
     ├─ InternalError            ├─ UnavailableError       └─ DataLossError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from placesim.core.escaping import escape_line


class Location(NamedTuple):
    """A place in a file; lines and columns count from 1 (line 0: the whole file)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        file = escape_line(self.file)
        return f"{file}:{self.line}:{self.column}" if self.line else file


class Problem(NamedTuple):
    """A problem in a file, with its location and a remedy. `error` is the name of TensorFlow's error class, if it has one."""

    location: Location
    message: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class PlacesimError(Exception):
    """Base class of all errors that users see. `outcome` holds the results up to the error, and `report` presents them.

    `remedies` maps options to lines of help that name them; a command shows those of its own options.
    """

    code: ClassVar[str] = ""
    exit_code: ClassVar[int] = 2
    known_as: ClassVar[str] = ""
    """Name of the class for TensorFlow's users, if it differs from the name here."""

    def __init__(
        self, message: str, *, node: str | None = None, location: Location | None = None, device: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.location = location
        self.device = device
        self.help: tuple[str, ...] = ()
        self.remedies: Mapping[str, str] = {}
        self.outcome: Any = None
        self.report: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled with its attributes, since the arguments of a class may differ from its text
        return _revived, (type(self), self.args, self.__dict__)

    @property
    def type_name(self) -> str:
        """Return the name of the class as TensorFlow's users know it."""
        return self.known_as or type(self).__name__

    def __str__(self) -> str:
        return self.message


def _revived(kind: type[PlacesimError], args: tuple[Any, ...], state: dict[str, Any]) -> PlacesimError:
    """Recreate an error that was pickled in another process."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(PlacesimError):
    """An invalid option, feed or fetch."""


class Interruption(PlacesimError):
    """Ctrl-C, reported like an error so that the report keeps the results up to that moment."""

    exit_code = 130
    known_as = "Interrupted"


class GraphFileError(PlacesimError):
    """A file is invalid; `problems` lists all its problems in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)), location=problems[0].location if problems else None)
        self.problems = problems


def shown_type(error: PlacesimError) -> str:
    """Return the class name to show: the common class of all problems of a file, if there is one, else the error's own."""
    if isinstance(error, GraphFileError):
        classes = {problem.error for problem in error.problems}
        if len(classes) == 1 and "" not in classes:
            return classes.pop()
    return error.type_name


class GraphBuildError(PlacesimError, ValueError):
    """ValueError that TensorFlow's Python raises while a graph is built."""

    exit_code = 1
    known_as = "ValueError"


class RequestError(PlacesimError, ValueError):
    """ValueError that TensorFlow's Python raises for an invalid fetch or feed."""

    known_as = "ValueError"


class SessionUsageError(PlacesimError, RuntimeError):
    """RuntimeError that TensorFlow's Python raises for a misused session."""

    exit_code = 1
    known_as = "RuntimeError"


class DefectError(PlacesimError):
    """A bug in placesim, and the place in the code that detected it; no graph should cause it."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h
    known_as = "InternalError"


class OpError(PlacesimError):
    """An error status of TensorFlow's runtime; `code` is the name of the status."""

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
