"""Strategies to compare: their names and settings, and the comparison of their predicted steps with one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from placesim.graph.session_steps import GraphFile
from placesim.planning.graphs.plan_comparison import SimulatedPlacement
from placesim.planning.strategies.recomputation import AUTO, SQRT
from placesim.planning.strategies.rewriting import Strategy

ONE_DEVICE, MODEL_PARALLEL = "one device", "model parallel"
"""Names of the strategies without a rewrite: all nodes on one GPU, and the devices of a plan."""


class StrategyKind(NamedTuple):
    """A strategy for any number of devices: its name, and its settings by the names of `Strategy`'s fields.

    `counts` has the settings that are multiplied by the number of devices, with their values for one device. The number of
    micro-batches is reduced until it divides the batch.
    """

    name: str
    counts: Mapping[str, int]
    settings: Mapping[str, Any]


KINDS = (
    StrategyKind("data parallel, cpu", {"replicas": 1}, {}),
    StrategyKind("data parallel, ring", {"replicas": 1}, {"variables": "mirrored", "reduce": "ring"}),
    StrategyKind("data parallel, nccl", {"replicas": 1}, {"variables": "mirrored", "reduce": "nccl"}),
    StrategyKind("pipeline, 1f1b", {"stages": 1, "micro_batches": 4}, {}),
)
"""The compared rewrites for several devices."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "recomputation": {"recompute": (SQRT,)},
    "half precision": {"precision": "float16"},
}
"""Further settings, by name. One device and each of `KINDS` are also compared with these settings."""
AUTO_RECOMPUTATION = "auto recomputation"
"""Name of the variant with the number of segments that `AUTO` finds for one device."""
MIN_SEGMENTS = 2


class StrategyCase(NamedTuple):
    """A strategy on a number of devices. `strategy` is None if the graph is not rewritten."""

    name: str
    devices: int
    strategy: Strategy | None = None

    @property
    def label(self) -> str:
        return self.name if self.devices == 1 else f"{self.name}, {self.devices} GPUs"

    @property
    def options(self) -> str:
        """The options of `placesim parallelize` for this strategy; empty without a rewrite."""
        return "" if self.strategy is None else " ".join(_options(self.strategy))


def _options(strategy: Strategy) -> Iterator[str]:
    for field in fields(strategy):
        value = getattr(strategy, field.name)
        if value != field.default:
            option = f"--{field.name.replace('_', '-')}"
            yield from (f"{option} {part}" for part in (value if isinstance(value, tuple) else (value,)))


def device_counts(devices: int) -> tuple[int, ...]:
    """Return the powers of two up to a number of devices, and this number."""
    return tuple(sorted({*(1 << i for i in range(devices.bit_length())), devices}))


def one_device_cases() -> Iterator[StrategyCase]:
    """Yield the strategies for one device, first without a rewrite and last with `AUTO` recomputation."""
    yield StrategyCase(ONE_DEVICE, 1)
    for name, variant in {**VARIANTS, AUTO_RECOMPUTATION: {"recompute": (AUTO,)}}.items():
        yield StrategyCase(f"{ONE_DEVICE}, {name}", 1, Strategy(**variant))


def strategy_cases(
    counts: Sequence[int],
    split: tuple[str, ...] = (),
    batch_on: Callable[[int], int | None] = lambda devices: None,
    segments: int | None = None,
) -> Iterator[StrategyCase]:
    """Yield the strategies for each number of devices above one.

    `split` names the tensors that hold the batch. `batch_on` returns the size of the batch on a number of devices, if it is
    known. `segments` is the number that `AUTO` finds for one device, or None if it finds none. A replica gets the same number,
    since it computes the same network, and a pipeline divides it among its stages. A search for each case would take several
    times as long as the whole comparison.
    """
    for devices in counts:
        if devices == 1:
            continue
        yield StrategyCase(MODEL_PARALLEL, devices)
        for kind in KINDS:
            grown = {setting: number * devices for setting, number in kind.counts.items()}
            batch = batch_on(devices)
            if batch is not None and "micro_batches" in grown:
                grown["micro_batches"] = next(count for count in range(grown["micro_batches"], 0, -1) if not batch % count)
            settings: dict[str, Any] = {**grown, **kind.settings, "split": split}
            yield StrategyCase(kind.name, devices, Strategy(**settings))
            variants = dict(VARIANTS)
            if segments is not None:
                own = max(MIN_SEGMENTS, math.ceil(segments / settings.get("stages", 1)))
                variants[AUTO_RECOMPUTATION] = {"recompute": (str(own),)}
            for name, variant in variants.items():
                yield StrategyCase(f"{kind.name}, {name}", devices, Strategy(**settings, **variant))


class StrategyResult(NamedTuple):
    """A simulated strategy: its graph (None if it was refused), and the number of examples in a step, if known."""

    case: StrategyCase
    placed: SimulatedPlacement
    file: GraphFile | None = None
    examples: int | None = None

    @property
    def examples_per_second(self) -> float | None:
        seconds = self.placed.seconds
        return self.examples / seconds if self.examples is not None and 0 < seconds < math.inf else None

    @property
    def speed(self) -> float:
        """Examples per second, or steps per second if the number of examples is not known; 0 if nothing was simulated."""
        return (self.examples or 1) / self.placed.seconds if self.placed.seconds else math.inf


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """Strategies for a graph: first those that fit in memory, fastest first, then those that do not fit, then unsupported ones.

    `price` is in dollars for an hour of one device, or None.
    """

    name: str
    results: tuple[StrategyResult, ...]
    price: float | None = None

    @property
    def best(self) -> StrategyResult | None:
        """The fastest strategy that fits; None if none does."""
        first = self.results[0]
        return first if first.placed.fits else None

    @property
    def one_device(self) -> StrategyResult:
        """The graph on one device."""
        return next(result for result in self.results if result.case.name == ONE_DEVICE)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Sentences about values that are unknown before the step runs."""
        study = self.one_device.placed.study
        return () if study is None else study.value_assumptions

    def efficiency(self, result: StrategyResult) -> float | None:
        """Return the speed divided by the speed of one device times the number of devices; None without a simulation."""
        return result.speed / self.one_device.speed / result.case.devices if result.placed.study is not None else None

    def dollars_per_million(self, result: StrategyResult) -> float | None:
        """Return the price of a million examples; None without a price or a number of examples."""
        speed = result.examples_per_second
        return None if self.price is None or speed is None else self.price / 3600 * result.case.devices * 1e6 / speed


def sort_results(results: Sequence[StrategyResult]) -> tuple[StrategyResult, ...]:
    """Return the results in the order of `StrategyComparison`.

    Of equally fast results, the one with fewer devices comes first.
    """
    return tuple(sorted(results, key=lambda row: (row.placed.study is None, not row.placed.fits, -row.speed, row.case.devices)))
