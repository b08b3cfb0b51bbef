"""Data of a program's nodes for memory accounting."""

from __future__ import annotations

from dataclasses import dataclass

from placesim.core.dtypes import DataType
from placesim.machine.memory.buffer_sources import DeviceSource
from placesim.ops.attributes import Attrs
from placesim.ops.categories import FUNCTION_ENDS, OWNED_OUTPUTS, RECEIVES, SENDS
from placesim.ops.kernels.memory_rules import MemoryRule
from placesim.runtime.accounting.default_rule import PlainKernel
from placesim.runtime.executors.program import Instruction, Program

ENDS = frozenset({*SENDS, *RECEIVES, *FUNCTION_ENDS, *OWNED_OUTPUTS})
"""Ops without a memory rule."""


@dataclass(frozen=True, slots=True)
class Site:
    """Data of one node for memory accounting: its memory rule, and the sources of its buffers.

    `plain` accounts for the kernel if the kernel is simple enough, else it is None. `calls` is set if the kernel calls
    functions. `is_read` says for each output whether a node reads it.
    """

    program: Program
    instruction: Instruction
    name: str
    rule: MemoryRule | None
    plain: PlainKernel | None
    attrs: Attrs
    output_dtypes: tuple[DataType, ...]
    output_is_ref: tuple[bool, ...]
    output_on_host: tuple[bool, ...]
    source: DeviceSource
    host_source: DeviceSource
    is_cpu: bool
    calls: bool
    is_read: tuple[bool, ...]
