"""placesim: where TensorFlow would put every op of a graph on a machine, and what happens then.

    report = placesim.run("graph.yaml", gpu=2)
    print(report.text(), report.results["MatMul:0"])

`placesim.devices(cpu=3, gpu=2)` and `placesim.memory("graph.yaml")` are functions, although packages of these names hold the
rules for devices and for their memory: `placesim.simulation.calls` loads those packages first, so that the functions are what
stays bound here.
"""

from placesim.interrupts import end_on_interrupt, is_own_process

if is_own_process():  # from the first import on
    end_on_interrupt()

from placesim.building import GraphBuilder
from placesim.devices.gpu_memory import GpuProcess
from placesim.errors import (
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
from placesim.forecasts import plan, simulate, sweep
from placesim.inspections import check, convert, diff, explain, show
from placesim.machines import machine
from placesim.simulation.calls import devices, memory, place, run

__version__ = "1.0.0"
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
    "convert",
    "devices",
    "diff",
    "explain",
    "machine",
    "memory",
    "place",
    "plan",
    "run",
    "show",
    "simulate",
    "sweep",
]
