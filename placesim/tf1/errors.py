"""`tf.errors`: exceptions for the statuses of TensorFlow's runtime, and the conversion of placesim's errors to them."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import placesim.core.errors as own
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.node_text import replace_tags
from placesim.tf1.types.read_only import read_only

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """An error status of the runtime: `message`, `error_code`, and `node_def` and `op` of the node if known.

    `original` is placesim's own error, whose hints the command line prints, and `graph` is the graph of the nodes that it
    names.
    """

    __module__ = "tensorflow.python.framework.errors_impl"  # as tracebacks name it
    original: own.PlacesimError | None = None
    graph: Any = None
    classic: str | None = None
    """Text in the style of the first guides, if that style is used and defines one."""
    head: str = ""
    """Text that the release's Python puts before the runtime's message."""

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int, *args: Any) -> None:
        super().__init__()
        self._node_def = node_def
        self._op = op
        self._message = message.decode(errors="replace") if isinstance(message, bytes) else message
        self._error_code = error_code
        self._experimental_payloads: dict[Any, Any] = {} if not args or args[0] is None else dict(args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        init_args = (self._node_def, None, self.message)
        return _revived, (type(self).__name__, *init_args, *((self._error_code,) if type(self) is OpError else ()))

    @property
    def message(self) -> Any:
        """Error message."""
        return self.head + self._message

    op = read_only("_op", "The operation that failed; None if unknown.")
    error_code: int = read_only("_error_code", "The status's number.")
    node_def = read_only("_node_def", "NodeDef of the failed node; None if unknown.")
    experimental_payloads: dict[Any, Any] = read_only("_experimental_payloads", "Payloads of the status.")

    def __str__(self) -> str:
        if self._op is None:
            return str(self.message)
        lines = [f"{self.message}\n\nOriginal stack trace for {self._op.name!r}:\n"]
        lines += [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in self._op.traceback]
        return "".join(lines)


def _revived(name: str, *init_args: object) -> OpError:
    """Recreate an error that was pickled in another process."""
    found: OpError = globals()[name](*init_args)
    return found


def _status(name: str, code: int) -> Any:
    """Subclass of OpError with a fixed error code."""

    def __init__(self: OpError, node_def: Any, op: Any, message: str, *args: object) -> None:  # noqa: N807
        OpError.__init__(self, node_def, op, message, code, *args)

    doc = f"The status {name.removesuffix('Error')}."
    return type(name, (OpError,), {"__init__": __init__, "__doc__": doc, "__module__": OpError.__module__})


CancelledError = _status("CancelledError", CANCELLED)
UnknownError = _status("UnknownError", UNKNOWN)
InvalidArgumentError = _status("InvalidArgumentError", INVALID_ARGUMENT)
DeadlineExceededError = _status("DeadlineExceededError", DEADLINE_EXCEEDED)
NotFoundError = _status("NotFoundError", NOT_FOUND)
AlreadyExistsError = _status("AlreadyExistsError", ALREADY_EXISTS)
PermissionDeniedError = _status("PermissionDeniedError", PERMISSION_DENIED)
ResourceExhaustedError = _status("ResourceExhaustedError", RESOURCE_EXHAUSTED)
FailedPreconditionError = _status("FailedPreconditionError", FAILED_PRECONDITION)
AbortedError = _status("AbortedError", ABORTED)
OutOfRangeError = _status("OutOfRangeError", OUT_OF_RANGE)
UnimplementedError = _status("UnimplementedError", UNIMPLEMENTED)
InternalError = _status("InternalError", INTERNAL)
UnavailableError = _status("UnavailableError", UNAVAILABLE)
DataLossError = _status("DataLossError", DATA_LOSS)
UnauthenticatedError = _status("UnauthenticatedError", UNAUTHENTICATED)

_BY_CODE: dict[int, type[OpError]] = {
    number: globals()["".join(part.capitalize() for part in name.split("_")) + "Error"]
    for name, number in list(globals().items())
    if isinstance(number, int) and name.isupper() and number
}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The exception class of a status.  Raises KeyError for an unknown number."""
    return _BY_CODE[error_code]


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """The status of an exception class; UNKNOWN for other classes."""
    return next((number for number, found in _BY_CODE.items() if found is cls), UNKNOWN)


@contextmanager
def raise_exception_on_not_ok_status() -> Iterator[None]:
    """Context for compatibility: statuses are always exceptions here."""
    yield


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor was used where Python needs a value."""


class InaccessibleTensorError(ValueError):
    """A tensor is used outside the graph or branch that it belongs to."""

    __module__ = OpError.__module__


# --- placesim's own errors ------------------------------------------------------------------------------------------


class FailedGraph(Protocol):
    """The graph that a step ran."""

    builder: ScopedGraphBuilder

    def operation(self, node: int) -> Any:
        """The operation of a node."""


def as_tensorflow(error: own.PlacesimError, graph: FailedGraph | None) -> Exception:
    """Convert an error of placesim to the exception that TensorFlow raises; other errors stay unchanged."""
    if isinstance(error, own.SessionUsageError):
        return RuntimeError(error.message)
    kind = getattr(sys.modules[__name__], type(error).__name__, None)
    if not isinstance(error, own.OpError) or not isinstance(kind, types.FunctionType | type):
        return error
    node = None if error.node is None or graph is None else graph.builder.graph.ids.get(error.node)
    # TensorFlow's error for a graph that can't be placed has no node
    op = None if graph is None or node is None or "Cannot assign a device" in error.message else graph.operation(node)
    node_def = None if op is None else op.node_def
    found: OpError = kind(node_def, op, error.message)
    if graph is not None:
        _show_nodes(found, graph)
    found.original = error
    found.graph = None if graph is None else graph.builder.graph
    return found


def _show_nodes(error: OpError, graph: FailedGraph) -> None:
    """Show the nodes of a message as the release's Python does (0.4)."""
    from placesim.report.text.spelled_nodes import expand_node_tags, head_of_error

    nodes = graph.builder.graph

    def locate(name: str) -> own.Location | None:
        return nodes.location(nodes.node(name)) if name in nodes.ids else None

    if nodes.registry.rules.spells_out_nodes:
        error._message = expand_node_tags(error._message, nodes, locate)
    else:
        error.head = head_of_error(error._message, nodes, locate)
        error._message = replace_tags(error._message, lambda name: "", ("function_node",)).strip()
