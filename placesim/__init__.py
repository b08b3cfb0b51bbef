"""placesim: where would TensorFlow place every op of a graph on a machine, and what happens next?

    report = placesim.run("graph.yaml", gpu=2)
    print(report.text(), report.results["MatMul:0"])

`placesim.machine(gpu=2)` is a function.  The package `placesim.machine` is loaded first, and the function then replaces that
name.
"""

from placesim.core.process.interrupts import end_on_interrupt, is_own_process

if is_own_process():  # from the first import on
    end_on_interrupt()
    from placesim.core.process.gc_pause import delay_first_collection

    delay_first_collection()

import typing as _typing

from placesim.core.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    GraphBuildError,
    GraphFileError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    PlacesimError,
    RequestError,
    ResourceExhaustedError,
    SessionUsageError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    UsageError,
)
from placesim.core.version import __version__ as __version__
from placesim.formats.graph_file.entries.node_makers import hand_over_makers as _hand_over_makers
from placesim.formats.sources.graph_builder import GraphBuilder
from placesim.machine.gpu_memory import GpuProcess
from placesim.machine.program_machine import machine

if _typing.TYPE_CHECKING:
    from placesim.api.forecasts import plan, simulate, sweep
    from placesim.api.inspections import check, convert, diff, explain, show
    from placesim.api.runs import devices, load, memory, place, run
    from placesim.api.strategies import compare_strategies, parallelize
else:

    def __getattr__(name: str) -> object:
        """Import the functions on first use: the command line imports this package too, but calls none of them."""
        if name not in __all__:
            raise AttributeError(f"module 'placesim' has no attribute {name!r}")
        from placesim.api import forecasts, inspections, runs, strategies

        for module in (forecasts, inspections, runs, strategies):
            found = vars(module).get(name)
            if found is not None and found.__module__ == module.__name__:
                return globals().setdefault(name, found)
        raise AttributeError(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def _make_functions(builder: _typing.Any) -> object:
    from placesim.tf1.graph_file.control_flow import FileFunctions  # few files have such entries

    return FileFunctions(builder)


def _make_training(builder: _typing.Any) -> object:
    from placesim.tf1.graph_file.training import FileTraining

    return FileTraining(builder)


_hand_over_makers(_make_functions, _make_training)

__path__.append(f"{__path__[0]}/api")  # users import `placesim.testing`

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "GpuProcess",
    "GraphBuildError",
    "GraphBuilder",
    "GraphFileError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "PlacesimError",
    "RequestError",
    "ResourceExhaustedError",
    "SessionUsageError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "UsageError",
    "check",
    "compare_strategies",
    "convert",
    "devices",
    "diff",
    "explain",
    "load",
    "machine",
    "memory",
    "parallelize",
    "place",
    "plan",
    "run",
    "show",
    "simulate",
    "sweep",
]
