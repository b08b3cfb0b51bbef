"""Host models: processors described by their data sheets, or by measurements of `placesim calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PROFILE_VERSION = 3
"""Version of the format and meaning of measured figures; profiles of other versions are rejected."""
RATES = ("float64", "tf32", "float16", "bfloat16", "int8")
"""Types that may have a rate of operations per second besides float32 (`flops`)."""
COUNTED = (
    "call", "run", "plain", "compared", "divided", "rooted", "exponential", "chosen", "special", "reduced", "row", "copied",
    "piece", "added", "added_piece", "gathered", "random", "new", "multiplied", "packed", "aliased", "accumulated", "checked",
)  # fmt: skip
"""Kinds of elementary work in kernels, which `prediction.host_loads` counts."""
SECONDS = (
    *COUNTED,
    "far",
    "distant",
    "awaited",
    "dispatch",
    "dataflow",
    "handed",
    "beside",
    "beside_direct",
    "variable",
    "step",
    "fed",
    "fetched",
    "shared",
    "contended_call",
    "cold_call",
)
"""Names of a profile's measured seconds.

- The entries of `COUNTED`: seconds for one unit of this kind of work.
- `far`, `distant`: seconds for a byte that is not in the first cache, and extra seconds for a byte that is in no cache.
- `awaited`: seconds for a byte that is in no cache and that the processor cannot fetch ahead.
- `dispatch`, `dataflow`: seconds to start a node in a fixed order, or when its inputs arrive; `handed`: extra if the node
  runs in a pool.
- `beside`, `beside_direct`: the overhead of a node with a kernel, and of one whose kernel is a function of its inputs.
- `variable`: the overhead of a node that gives a variable or its value.
- `step`, `fed`, `fetched`: the overhead of a step, of each tensor that it is fed, and of each that it fetches.
- `shared`, `contended_call`: the overhead of an op that shares work among threads, and of each numpy call in this work.
- `cold_call`: the overhead of a numpy call in a step whose data displaces code from the caches.
"""
BASIC = ("dispatch", "plain", "multiplied")
"""Entries that must be above 0, since every machine needs time for them."""
SHARES = ("slowed_products", "slowed_passes")
"""Relative slow-down of an op's part for each additional core that works on the same op."""
DEVIATIONS = ("deviation", "pool_deviation")
"""Deviation of a step from its prediction, relative to that of its kernels together, with one and with several threads."""
FAMILIES = (
    "elementwise", "copy", "reduction", "gather", "random", "softmax", "batch normalization", "local normalization",
    "optimizer", "product", "convolution", "convolution filter gradient", "convolution input gradient", "depthwise", "pooling",
    "pooling gradient",
)  # fmt: skip
"""Kernel families; a profile has a factor for each."""


class MeasuredFigure(NamedTuple):
    """A measured figure, with the factors from it to the lowest and the highest measurement."""

    value: float
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True, eq=False, slots=True)
class HostProfile:
    """Measured times of numpy and of placesim's executors on a host.

    `seconds` are the entries of `SECONDS`, `SHARES` and `DEVIATIONS`, and `spreads` their relative variation between runs.
    `caches` are data sizes in bytes from which accesses reach the next cache level.  `families` has a factor for each kernel
    family: the measured time divided by the time from these figures, with its spread.  `about` describes the measurement.
    """

    seconds: Mapping[str, float]
    caches: tuple[float, float]
    families: Mapping[str, MeasuredFigure]
    spreads: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class HostModel:
    """A host: its number of cores, and the float32 operations and memory bytes per second that all cores together reach.

    A value of 0 means unknown. `rates` are operations per second by other types.  `dispatch` and `launch` are the seconds to
    start a node and a GPU kernel. `inter_op_threads` is the number of nodes that run at once unless a config sets it; 0 means
    one per core.  `ops` has factors of the kernels of ops that take longer, or less, than these figures say.
    """

    name: str = ""
    cores: int = 0
    flops: float = 0.0
    bandwidth: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    dispatch: float = 0.0
    launch: float = 0.0
    inter_op_threads: int = 0
    profile: HostProfile | None = None
    ops: Mapping[str, float] = field(default_factory=dict)
