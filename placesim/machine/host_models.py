"""Host models: a processor by the figures of its data sheet, or as measured by `placesim calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PROFILE_VERSION = 1
"""Version of the measured figures and their meaning; profiles of other versions are refused."""
RATES = ("float64", "tf32", "float16", "bfloat16", "int8")
"""Types whose operations per second can be given besides float32's (`flops`)."""
COUNTED = (
    "call", "run", "plain", "divided", "exponential", "chosen", "special", "reduced", "row", "copied", "piece", "added",
    "added_piece", "gathered", "random", "new", "multiplied", "packed", "aliased", "accumulated", "checked",
)  # fmt: skip
"""Kinds of elementary work of kernels, counted by `prediction.host_loads`."""
SECONDS = (
    *COUNTED,
    "far",
    "distant",
    "dispatch",
    "dataflow",
    "handed",
    "beside",
    "shared",
    "contended_call",
)
"""Entries of a profile's seconds: each count; a byte from beyond the first cache, and the extra time from beyond the last; a
node in a fixed order, one that runs as its inputs arrive, and one passed to a pool; the overhead of a node with a kernel; an
op's shared work, and each of its numpy calls
"""
BASIC = ("dispatch", "plain", "multiplied")
"""Those that no machine does in no time."""
SHARES = ("slowed_products", "slowed_passes")
"""Relative slow-down of a part for each further core busy with the same op."""
FAMILIES = (
    "elementwise", "copy", "reduction", "gather", "random", "softmax", "batch normalization", "local normalization",
    "optimizer", "product", "convolution", "convolution filter gradient", "convolution input gradient", "depthwise", "pooling",
    "pooling gradient",
)  # fmt: skip
"""Kernel families, each with its own factor."""


class MeasuredFigure(NamedTuple):
    """A figure, with the factors to its low and high measurements."""

    value: float
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True, eq=False, slots=True)
class HostProfile:
    """Measured times of numpy and of placesim's executors on a host.

    `seconds` are the entries of `SECONDS` and `SHARES`, and `spreads` their relative variation between runs.  `caches` are data
    sizes in bytes from which accesses reach the next cache level.  `families` are the factors of kernel families to the sum of
    these figures, with spreads.  `about` describes the measurement.
    """

    seconds: Mapping[str, float]
    caches: tuple[float, float]
    families: Mapping[str, MeasuredFigure]
    spreads: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class HostModel:
    """A host's cores, float32 operations and bytes of memory per second of all of them; 0 is unknown.

    `rates` are operations per second by other types, `dispatch` and `launch` the seconds of a node and of a GPU's kernel;
    `inter_op_threads` is how many nodes run at once where a config leaves it open, 0 as many as there are cores.
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
