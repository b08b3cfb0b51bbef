"""Constants of the cost formulas, one record for each shape of work; `fitted` holds their values."""

from __future__ import annotations

from typing import NamedTuple


class TiledConstants(NamedTuple):
    """Products in tiles.

    `efficiency` of the peak that endless tiles would reach, halved at tiles of `half_intensity` (rows x columns / their sum);
    `prologue_depth`: what starting a tile costs, in elements of depth; `wave_share`: how much of the last wave's idle units
    counts; `resident_blocks`: blocks a unit needs for its full rate; `loaded_bytes_per_clock`: from the cache into a unit;
    `epilogue_share`: of writing the result after the computing; `winograd_gain` and `winograd_traffic`: how many times less
    computing and more bytes; `direct_efficiency`: of the peak, without tiles (0: not offered); `far_cost`: how much slower a
    page between the rows of an operand makes loading on chips of short reach; `sharpness`: the p of the p-norm
    that joins computing and moving.
    """

    start_seconds: float
    efficiency: float
    half_intensity: float
    prologue_depth: float
    wave_share: float
    resident_blocks: float
    loaded_bytes_per_clock: float
    epilogue_share: float
    winograd_gain: float
    winograd_traffic: float
    direct_efficiency: float
    far_cost: float
    sharpness: float


class StreamConstants(NamedTuple):
    """Streaming ops: number of passes over the bytes, at the rate of copying."""

    start_seconds: float
    passes: float


class RowsConstants(NamedTuple):
    """Constants for row-wise ops: passes if the cache holds `rows_per_unit` rows per multiprocessor, and further passes
    otherwise.
    """

    start_seconds: float
    passes: float
    further_passes: float
    rows_per_unit: float


class StepsConstants(NamedTuple):
    """Recurrent cells.

    `step_seconds` is the overhead of a time step; `efficiency` that of its product, halved at a batch of `half_batch`, with the
    weights loaded per unit and clock; `product_share` is the share of its peak time that the product of all inputs takes.
    """

    start_seconds: float
    step_seconds: float
    efficiency: float
    half_batch: float
    loaded_bytes_per_clock: float
    product_share: float
    sharpness: float


class Spread(NamedTuple):
    """The 10th and the 90th percentile of measured / predicted, where the measurement was no part of the fit."""

    low: float
    high: float
