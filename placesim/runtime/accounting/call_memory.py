"""The memory of a kernel that calls functions: of its inputs, and of what each function gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from placesim.ops.kernels.memory_rules import TensorMemory


class Call:
    """A kernel that calls functions: the memory of its inputs, and of what each function gave last, by the values."""

    def __init__(self, values: Sequence[Any], memories: Sequence[TensorMemory]) -> None:
        self.inputs = {id(value): memory for value, memory in zip(values, memories, strict=True)}
        self.results: dict[int, list[tuple[Any, TensorMemory]]] = {}

    def find(self, value: Any) -> TensorMemory | None:
        """The memory of a value that the kernel was given, or got from a function."""
        for results in self.results.values():
            for given, memory in results:
                if given is value:
                    return memory
        return self.inputs.get(id(value))

    def replace(self, caller: int, results: list[tuple[Any, TensorMemory]]) -> None:
        """A function gave new results: those of its last run are dropped."""
        old, self.results[caller] = self.results.get(caller, []), results
        release_all(memory for _, memory in old)

    def close(self) -> None:
        for results in self.results.values():
            release_all(memory for _, memory in results)
        self.results.clear()


def release_all(memories: Iterable[TensorMemory]) -> None:
    """Let go of tensors."""
    for memory in memories:
        memory.release()
