"""Constants of the cost formulas, one record for each shape of work; `fitted_constants` has their values."""

from __future__ import annotations

from typing import NamedTuple


class TiledConstants(NamedTuple):
    """Constants for products in tiles.

    - `efficiency`: share of the peak rate with infinitely large tiles; it is halved for tiles of `half_intensity` (rows x
      columns / their sum).
    - `prologue_depth`: cost of starting a tile, in elements of depth.
    - `wave_share`: share of the time that grows with the number of waves of blocks, rounded up, since units idle at the end of
      the last wave; the rest grows with the number of blocks.
    - `resident_blocks`: number of blocks that a unit needs for its full rate.
    - `loaded_bytes_per_clock`: bytes loaded from the cache into a unit per clock.
    - `epilogue_share`: share of the time for writing the result that does not overlap with computing.
    - `winograd_gain`, `winograd_traffic`: a Winograd convolution computes `winograd_gain` times less, and moves
      `winograd_traffic` times as many bytes.
    - `direct_efficiency`: share of the peak rate of a kernel without tiles; 0 if the library has no such kernel.
    - `far_cost`: share of the loading time that is added for each page between two rows of an operand, on chips of short reach.
    - `sharpness`: the p of the p-norm that combines computing and moving.
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
    """Constants for streaming ops.

    - `passes`: number of passes over the bytes, at the rate of copying.
    - `element_operations`: operations to find the place of an element, at the float32 rate; 0 if elements are read in memory
      order.
    """

    start_seconds: float
    passes: float
    element_operations: float


class RowsConstants(NamedTuple):
    """Constants for row-wise ops.

    - `passes`: number of passes over the bytes; `further_passes` are added if the cache can't hold the rows in progress.
    - `rows_per_unit`: number of rows in progress on a multiprocessor.
    - `row_clocks`, `element_clocks`: clocks per row, and additional clocks per element.
    """

    start_seconds: float
    passes: float
    further_passes: float
    rows_per_unit: float
    row_clocks: float
    element_clocks: float


class StepsConstants(NamedTuple):
    """Constants for recurrent cells.

    - `step_seconds`: overhead of a time step.
    - `efficiency`: share of the peak rate that a step's product reaches with a large batch; with a batch of `half_batch`, it
      reaches half of this share.
    - `loaded_bytes_per_clock`: bytes of weights that each multiprocessor loads per clock.
    - `product_share`: time of the one product for the inputs of all time steps, divided by its time at the peak rate.
    """

    start_seconds: float
    step_seconds: float
    efficiency: float
    half_batch: float
    loaded_bytes_per_clock: float
    product_share: float
    sharpness: float


Constants = TiledConstants | StreamConstants | RowsConstants | StepsConstants


class Spread(NamedTuple):
    """10th and 90th percentile of the ratio of measured to predicted time, for measurements that the fit did not use."""

    low: float
    high: float
