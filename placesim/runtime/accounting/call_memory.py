"""Memory of the inputs of kernels that call functions, and of the functions' results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from placesim.ops.kernels.memory_rules import TensorMemory


class Call:
    """Memory of the inputs of a kernel that calls functions, and of the last results of each function."""

    def __init__(self, values: Sequence[Any], memories: Sequence[TensorMemory]) -> None:
        self.inputs = {id(value): memory for value, memory in zip(values, memories, strict=True)}
        self.results: dict[int, list[tuple[Any, TensorMemory]]] = {}

    def find(self, value: Any) -> TensorMemory | None:
        """Return the memory of a value; None if the value is neither an input of the kernel nor a function's result."""
        for results in self.results.values():
            for given, memory in results:
                if given is value:
                    return memory
        return self.inputs.get(id(value))

    def replace(self, caller: int, results: list[tuple[Any, TensorMemory]]) -> None:
        """Record the results of a function's run, and release the results of its previous run."""
        old, self.results[caller] = self.results.get(caller, []), results
        release_all(memory for _, memory in old)

    def close(self) -> None:
        for results in self.results.values():
            release_all(memory for _, memory in results)
        self.results.clear()


def release_all(memories: Iterable[TensorMemory]) -> None:
    """Release the tensors' memory."""
    for memory in memories:
        memory.release()
