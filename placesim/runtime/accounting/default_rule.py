"""The memory rule of most kernels: one output. It is allocated, or overwrites an input, or shares an input's memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from placesim.core.dtypes import RESOURCE, DataType
from placesim.graph.graph import Signature
from placesim.machine.memory.buffers import BufferSource
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.memory_rules import (
    AliasRule,
    BroadcastForwardingRule,
    ForwardingRule,
    MemoryRule,
    TensorMemory,
    item_size,
)


class PlainKernel:
    """Faster form of `KernelMemory` for a kernel with one output, which may only reuse or alias the memory of an input."""

    __slots__ = ("_aliased", "_candidates", "_dtype", "_item_size", "_on_host", "_owner", "_source")

    def __init__(self, owner: str, dtype: DataType, rule: MemoryRule | None, source: BufferSource, *, on_host: bool) -> None:
        self._owner = owner
        self._dtype = dtype
        self._item_size = item_size(dtype)
        self._on_host = on_host
        self._source = source
        self._candidates = rule.candidates if isinstance(rule, ForwardingRule | BroadcastForwardingRule) else _none
        self._aliased = rule.source if isinstance(rule, AliasRule) else None

    def run(self, memories: Sequence[TensorMemory], value: Any) -> TensorMemory:
        """Release the inputs and return the memory of the output, with one holder.

        Raises OutOfMemory, and then does not release the inputs.
        """
        dims, dtype = value_dims(value), self._dtype
        output = TensorMemory(dims, dtype, None, value, False, self._on_host)
        if self._aliased is not None:
            output.buffer = memories[self._aliased].buffer
            if output.buffer is not None:
                output.buffer.holders += 1
        elif size := prod(dims) * self._item_size:
            for index in self._candidates(memories):
                given = memories[index]
                buffer = given.buffer
                if (
                    buffer is not None
                    and buffer.holders == 1
                    and given.dtype is dtype
                    and given.on_host == self._on_host
                    and (given.dims == dims or prod(given.dims) == prod(dims))
                    and buffer.is_sole
                ):
                    output.buffer, given.buffer = buffer, None
                    break
            else:
                output.buffer = self._source.allocate(size, self._owner)
        for memory in memories:
            dropped = memory.buffer
            if dropped is not None:
                if dropped.holders > 1:
                    dropped.holders -= 1
                else:
                    dropped.release()
        return output


def _none(memories: Sequence[TensorMemory]) -> tuple[int, ...]:
    return ()


def is_plain(rule: MemoryRule | None, signature: Signature) -> bool:
    """Whether `PlainKernel` can account for a kernel: it has one output, and neither resource handles nor references."""
    return (
        (rule is None or isinstance(rule, ForwardingRule | BroadcastForwardingRule | AliasRule))
        and len(signature.output_dtypes) == 1
        and RESOURCE not in (*signature.input_dtypes, *signature.output_dtypes)
        and not any((*signature.input_is_ref, *signature.output_is_ref))
    )
