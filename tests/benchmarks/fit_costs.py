"""The constants of placesim's cost formulas from published measurements: `python -m tests.benchmarks.fit_costs [--write]`.

Prints errors where each fifth of the sizes, and then each device, was no part of the fit; `--write` writes the constants of all
rows to `placesim/prediction/fitted-constants.txt`.  Least squares of the logarithms, with a loss that lets outliers be, on at
most some thousand rows a family.  Convolutions that libraries may compute by Fourier transforms count as products here; without
them, the ends of convolutions' intervals move by at most 4 %.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction import cost_formulas
from placesim.prediction.cost_constants import RowsConstants, Spread, StepsConstants, StreamConstants, TiledConstants
from tests.benchmarks import step_intervals
from tests.benchmarks.network_rows import NetworkRow, read_networks
from tests.benchmarks.recorded_networks import recorded_networks
from tests.benchmarks.recorded_rows import read_fit_rows, read_published
from tests.benchmarks.timing_rows import DATA, SAME_BOARD, Measurement, read_measurements, read_processors

FOLDS = 5
MOST_ROWS = 1500
STRAY = 0.1
"""From where on a row counts by its distance, not its square: a tenth, as a logarithm."""
PULL = 0.02
"""How strongly constants that the rows say nothing of stay where they start."""
FEWEST_ROWS = 5
FULL_ROWS = 150
"""With fewer, a device counts less: the weights of devices bound outliers of the few rows that some have."""
UNSEEN = 1.3
"""How much wider, as logarithms, intervals are than those of the five folds.

Sizes of a fold are like those that the fit has seen.  Of another day's 910 products on the tensor cores of an H100, whose sizes
were drawn at random, the folds' interval held 62 %, and this one holds 74 %.
"""
TARGET = Path(cost_formulas.__file__).with_name("fitted-constants.txt")
_HEADER = """Fitted constants, written by `python -m tests.benchmarks.fit_costs --write`; do not edit.

Sources: kernels of NeuSight (PyTorch 2.1 on seven GPUs), DeepBench (ten GPUs, a Xeon Phi, three ARM), convnet-benchmarks (Caffe
on a Titan X) and layer profiles of PipeDream; for wide tensor cores our recording of an H100 and an H200, DeepGEMM (an H800)
and published products (`tests/data`).  DEVICES has the GPUs of the catalogue of which enough kernels, or steps of networks,
were measured.
"""
LEAST = {"sharpness": 1.0}
MOST = {"wave_share": 1.0, "efficiency": 1.25, "winograd_gain": 4.0}
MOST_START_SECONDS = 1.2e-5
"""Bounds of what means anything: boards run a little above their sheet's clock, F(4x4, 3x3) saves a factor of 4."""
Column = NDArray[np.float64]


class Shape(NamedTuple):
    """A formula, its record of constants, where the search starts, and which of them stay."""

    formula: Callable[..., Any]
    record: Any
    start: tuple[float, ...]
    fixed: frozenset[str]


_TILED = TiledConstants(5e-6, 0.95, 10, 16, 0.4, 1.5, 20, 0.1, 1.8, 1.5, 0.1, 0, 2.5)
_PLAIN = frozenset(("winograd_gain", "winograd_traffic", "direct_efficiency"))


_BY_ROWS = frozenset(
    ("softmax", "layer normalization", "reduction of rows", "batch normalization of planes",
     "batch normalization gradient of planes")
)  # fmt: skip


def shape_of(family: str) -> Shape:
    """The formula of a family, by its name."""
    if family == "indexed":
        return Shape(cost_formulas.stream_seconds, StreamConstants, (2e-6, 1.0, 100), frozenset(("passes",)))
    # depthwise convolutions: too few sizes to tell the start of a kernel
    if family == "depthwise filter gradient of planes":
        fixed = frozenset(("start_seconds", "passes", "further_passes", "row_clocks"))
        return Shape(cost_formulas.rows_seconds, RowsConstants, (3e-6, 0.5, 0, 16, 2000, 5), fixed)
    if family.startswith("depthwise convolution"):
        return Shape(cost_formulas.stream_seconds, StreamConstants, (3e-6, 1.0, 50), frozenset(("start_seconds", "passes")))
    if "convolution" in family:
        no_winograd = family.startswith(("tensor", "wide", "cpu", "int8"))
        fixed = frozenset(("far_cost", "winograd_gain", "winograd_traffic") if no_winograd else ("far_cost",))
        plain = _TILED._replace(winograd_gain=1, winograd_traffic=1) if no_winograd else _TILED
        return Shape(cost_formulas.tiled_seconds, TiledConstants, plain, fixed)
    if "product" in family:
        far = 1.0 if family == "product" else 0.0
        plain = _TILED._replace(winograd_gain=1, winograd_traffic=1, direct_efficiency=0, far_cost=far)
        fixed = _PLAIN if far else _PLAIN | {"far_cost"}
        return Shape(cost_formulas.tiled_seconds, TiledConstants, plain, fixed)
    if family.startswith("recurrent"):
        return Shape(cost_formulas.steps_seconds, StepsConstants, (1e-5, 1e-5, 0.6, 16, 30, 1.2, 2), frozenset())
    if family in _BY_ROWS:
        return Shape(cost_formulas.rows_seconds, RowsConstants, (5e-6, 1.1, 0.7, 8, 2000, 2), frozenset())
    fixed = frozenset(("element_operations", "passes") if family == "elementwise" else ("element_operations",))
    return Shape(cost_formulas.stream_seconds, StreamConstants, (1e-5, 1.0, 0.0), fixed)


class Columns(NamedTuple):
    """The rows of one family: the processor's figures and what the formula takes, as columns."""

    rate: Column
    float32: Column
    watts: Column
    process_nm: Column
    bandwidth: Column
    units: Column
    clock_hz: Column
    cache_bytes: Column
    has_short_reach: Column
    launch_seconds: Column
    seconds: Column
    fold: Column
    memory: NDArray[Any]
    device: NDArray[Any]
    loads: tuple[Column, ...]

    def where(self, chosen: NDArray[Any]) -> Columns:
        """Only the chosen rows."""
        plain: list[Any] = [column[chosen] for column in self[:-1]]
        return Columns._make([*plain, tuple(load[chosen] for load in self.loads)])


class SharedConstants(NamedTuple):
    """What all families share: operations per joule and nanometre, and the share of the bandwidth that copying reaches."""

    sustained: float
    stacked: float
    planar: float
    gddr6x: float
    checked: float
    early: float
    processor: float


_MEMORIES = ("stacked", "planar", "gddr6x", "checked", "early")
_START = SharedConstants(0.75e12, 0.85, 0.85, 0.9, 0.75, 0.75, 0.8)
"""No stream was published on GDDR without ECC: its share is what Habitat (geoffxy/habitat) measured on an RTX 2080 Ti, 524 of
616 GB/s.  GDDR6X has more: NVIDIA's `p2pBandwidthLatencyTest` copies 838 of 936 GB/s on each of eight RTX 3090 (NVIDIA/nccl
issue 1127) and 918 to 924 of 1,008 on three RTX 4090 (tinygrad/open-gpu-kernel-modules issue 6).  An RTX 5090 has 0.86."""
_SHARED_BY = {"elementwise": ("stacked", "checked", "early"), "product": ("sustained",)}
"""The families that what is shared is fitted with, and what with which."""


def fold_of(sizes: str) -> int:
    """The same sizes are in the same fold on every device."""
    return hashlib.sha256(sizes.encode()).digest()[0] % FOLDS


def by_family(rows: Sequence[Measurement]) -> dict[str, Columns]:
    """The rows that hold one piece of work, by its family."""
    found: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        if len(row.work) == 1:
            found[cost_formulas.work_family(row.work[0], row.processor)].append(row)
    return {family: _columns(rows) for family, rows in sorted(found.items())}


def _columns(rows: Sequence[Measurement]) -> Columns:
    figures = [
        (
            cost_formulas.peak_rate(row.work[0], row.processor),
            row.processor.rate("float32"),
            row.processor.watts,
            row.processor.process_nm,
            row.processor.bandwidth,
            row.processor.units,
            cost_formulas.loading_hz(row.work[0], row.processor),
            row.processor.cache_bytes,
            row.processor.has_short_reach,
            row.launch_seconds + cost_formulas.later_start(row.work[0], row.processor),
            row.seconds,
            fold_of(row.sizes),
        )
        for row in rows
    ]
    memory = np.array([row.processor.memory for row in rows])
    device = np.array([row.device for row in rows])
    loads = tuple(np.array([row.work[0].load() for row in rows], float).T)
    return Columns._make([*np.array(figures, float).T, memory, device, loads])


def predicted(formula: Callable[..., Any], constants: Any, columns: Columns, shared: SharedConstants) -> Column:
    """Seconds of each row."""
    board: tuple[Any, Any, Any] = columns.float32, columns.watts, columns.process_nm
    slowdown = cost_formulas.power_slowdown(*board, shared.sustained)
    share = np.select([columns.memory == kind for kind in _MEMORIES], shared[1:-1], shared.processor)
    rate, clock = columns.rate / slowdown, columns.clock_hz / slowdown
    figures: list[Any] = [rate, columns.bandwidth * share, columns.units, clock, columns.cache_bytes, columns.has_short_reach]
    machine = cost_formulas.ProcessorFigures._make(figures)
    found: Column = columns.launch_seconds + formula(constants, machine, *columns.loads)
    return found


def device_weights(devices: Sequence[str] | NDArray[Any], power: float) -> Column:
    """The weight of each row, of mean 1; with a power of 1, all devices of at least `FULL_ROWS` rows weigh the same."""
    _, number, counts = np.unique(devices, return_inverse=True, return_counts=True)
    weights = 1.0 / np.maximum(counts[number], FULL_ROWS) ** power
    found: Column = weights / weights.mean()
    return found


def fitted(shape: Shape, columns: Columns, shared: SharedConstants, free: Sequence[str] = ()) -> tuple[Any, SharedConstants]:
    """The family's constants, and those of `shared` that `free` names, fitted with them.

    All rows of a device together count as the root of their number.
    """
    weights = device_weights(columns.device, 0.5)
    if len(columns.seconds) > MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(weights), MOST_ROWS, replace=False, p=weights / weights.sum())
        columns, weights = columns.where(chosen), np.ones(MOST_ROWS)
    own = [name for name in shape.record._fields if name not in shape.fixed]
    record = shape.record(*shape.start)
    start = np.log([getattr(record, name) for name in own] + [getattr(shared, name) for name in free])
    measured = np.log(columns.seconds)

    def values(logarithms: Column) -> tuple[Any, SharedConstants]:
        found = [float(value) for value in np.exp(logarithms)]
        constants = record._replace(**dict(zip(own, found, strict=False)))
        return constants, shared._replace(**dict(zip(free, found[len(own) :], strict=True)))

    def misses(logarithms: Column) -> Column:
        constants, common = values(logarithms)
        far = (np.log(predicted(shape.formula, constants, columns, common)) - measured) * weights**0.5
        return np.concatenate([far, (logarithms - start) * PULL * len(measured) ** 0.5])

    bounds = start - 3.0, start + 3.0
    for side, limits in ((0, LEAST), (1, MOST)):
        for name in set(limits) & set(own):
            bounds[side][own.index(name)] = np.log(limits[name])
    if shape.record is TiledConstants:
        bounds[1][own.index("start_seconds")] = np.log(MOST_START_SECONDS)
    from scipy.optimize import least_squares

    found = least_squares(misses, start, loss="soft_l1", f_scale=STRAY, max_nfev=25, bounds=bounds)
    return values(found.x)


class Model(NamedTuple):
    """All that is fitted."""

    shared: SharedConstants
    constants: Mapping[str, Any]

    def held(self, columns: Mapping[str, Columns]) -> list[FitRow]:
        """Each row that there are constants for, by family."""
        found = []
        for family, rows in columns.items():
            if family in self.constants:
                times = predicted(shape_of(family).formula, self.constants[family], rows, self.shared)
                for device, launch, measured, time in zip(rows.device, rows.launch_seconds, rows.seconds, times, strict=True):
                    kernel = (measured - launch) / (time - launch) if measured > 2 * launch else None
                    found.append(FitRow(family, str(device), measured / time, kernel))
        return found


class FitRow(NamedTuple):
    """A row beside what a model says of it: measured / predicted, and of the kernel alone where that is most of the time."""

    family: str
    device: str
    ratio: float
    kernel_ratio: float | None


def fit(columns: Mapping[str, Columns], before: Model | None = None) -> Model:
    """What copying reaches from elementwise ops, what boards sustain from products, then each family.

    A family that `columns` lacks keeps its constants of `before`, and so does what is shared.
    """
    shared = before.shared if before else _START
    constants: dict[str, Any] = dict(before.constants) if before else {}
    for family in sorted(columns, key=lambda family: (family != "elementwise", family != "product", family)):
        rows = columns[family]
        if len(rows.seconds) < FEWEST_ROWS:
            continue
        constants[family], shared = fitted(shape_of(family), rows, shared, _SHARED_BY.get(family, ()))
    return Model(shared, constants)


def held_out(
    columns: Mapping[str, Columns], whole: Model, side: Callable[[Columns], NDArray[Any]], labels: Sequence[Any]
) -> list[FitRow]:
    """Each label's rows by a model that saw none of them."""
    found: list[FitRow] = []
    for label in labels:
        own = {family: chosen for family, rows in columns.items() if len((chosen := rows.where(side(rows) == label)).seconds)}
        others = {family: columns[family].where(side(columns[family]) != label) for family in own}
        unseen = [name for family, names in _SHARED_BY.items() if family in own for name in names]
        shared = whole.shared._replace(**{name: getattr(_START, name) for name in unseen})
        found.extend(fit(others, Model(shared, {})).held(own))
    return found


def table(title: str, held: Sequence[FitRow], column: int) -> None:
    """Median and 90th percentile of the relative error, in percent, for each entry of a column."""
    print(f"{title:<40}   rows  median     p90   bias  (percent)")
    for label in [None, *sorted({str(row[column]) for row in held})]:
        ratios = np.array([row.ratio for row in held if label in (None, row[column])])
        errors = 100 * np.abs(1 / ratios - 1)
        bias = 100 * (np.median(1 / ratios) - 1)
        print(
            f"  {label or 'all'!s:<38} {len(ratios):6} {np.median(errors):7.1f} {np.percentile(errors, 90):7.1f} {bias:+6.0f}"
        )


def spreads(held: Sequence[FitRow]) -> dict[str, tuple[float, float]]:
    """The 10th and 90th percentile of measured / predicted, by family, of kernels that are most of their row's time.

    All devices weigh the same, so that the interval is not that of the device with the most rows.  `UNSEEN` widens it.
    """
    found = {}
    for family in sorted({row.family for row in held}):
        rows = sorted((row.kernel_ratio, row.device) for row in held if row.family == family and row.kernel_ratio is not None)
        ratios, devices = zip(*rows, strict=True)
        weights = device_weights(devices, 1.0)
        middles = (np.cumsum(weights) - weights / 2) / weights.sum()
        low, high = np.interp([0.1, 0.9], middles, ratios) ** UNSEEN
        found[family] = (float(low), float(high))
    return found


def measured_devices(kernels: Sequence[str], steps: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The numbers of kernels and of networks' steps, of each GPU of the catalogue of which one of the two is large."""
    counts = [Counter(SAME_BOARD.get(device, device) for device in devices) for devices in (kernels, steps)]
    found = {name: (counts[0][name], counts[1][name]) for name in GPU_MODELS}
    return {name: (ops, runs) for name, (ops, runs) in found.items() if ops >= FULL_ROWS or runs >= step_intervals.FULL_ROWS}


def table_text(
    model: Model,
    spread: Mapping[str, tuple[float, float]],
    counts: Mapping[str, int],
    devices: Mapping[str, tuple[int, int]],
) -> str:
    """The file of the fitted values: a table for each shape, with aligned columns at least two spaces apart."""
    shared = [("sustained", f"{model.shared.sustained:.4g}".replace("e+", "e"))]
    shared += [(kind, f"{getattr(model.shared, kind):.4g}") for kind in (*_MEMORIES, "processor")]
    tables: list[list[tuple[str, ...]]] = [[("SHARED", "value"), *shared]]
    records: dict[str, Any] = {
        "TILED": TiledConstants,
        "STREAMS": StreamConstants,
        "ROWS": RowsConstants,
        "STEPS": StepsConstants,
    }
    for name, record in records.items():
        found = [(family, constants) for family, constants in model.constants.items() if isinstance(constants, record)]
        rows = [(family, *(f"{value:.4g}" for value in constants)) for family, constants in found]
        tables.append([(name, *record._fields), *rows])
    spreads = [(family, f"{low:.3f}", f"{high:.3f}", str(counts[family])) for family, (low, high) in spread.items()]
    tables.append([("SPREAD", *Spread._fields, "measurements"), *spreads])
    tables.append([("DEVICES", "kernels", "steps"), *((name, *map(str, numbers)) for name, numbers in devices.items())])
    return "\n".join([_HEADER, *map(_aligned, tables)])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def main() -> None:
    """Fits, prints errors, and writes the file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=Path, default=DATA / "ops.csv.gz")
    parser.add_argument("--models", type=Path, default=DATA / "models.csv.gz")
    parser.add_argument("--devices", type=Path, default=DATA / "devices.csv")
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name}")
    parser.add_argument("--quick", action="store_true", help="errors of the fit itself, nothing held out")
    args = parser.parse_args()
    found = [row for row in read_measurements(args.ops, read_processors(args.devices)) if isinstance(row, Measurement)]
    columns = by_family([*found, *read_fit_rows(), *read_published()])
    model = fit(columns)
    for family, constants in model.constants.items():
        print(family, " ".join(f"{name}={value:.3g}" for name, value in constants._asdict().items()))
    print(model.shared)
    if args.quick:
        held = model.held(columns)
        table("the fit itself, by family", held, 0)
        table("the fit itself, by device", held, 1)
        return
    devices = sorted({str(device) for rows in columns.values() for device in rows.device})
    folds = held_out(columns, model, lambda rows: rows.fold, range(FOLDS))
    alone = held_out(columns, model, lambda rows: rows.device, devices)
    for name, held in (("five folds", folds), ("a device left out", alone)):
        table(f"{name}, by family", held, 0)
        table(f"{name}, by device", held, 1)
    if args.write:
        counts = {family: len(rows.seconds) for family, rows in columns.items()}
        published = [row for row in read_networks(args.models, args.devices) if isinstance(row, NetworkRow)]
        steps = [row.device for row in (*published, *recorded_networks())]
        kernels = [str(device) for rows in columns.values() for device in rows.device]
        TARGET.write_text(table_text(model, spreads(folds), counts, measured_devices(kernels, steps)))


if __name__ == "__main__":
    main()
