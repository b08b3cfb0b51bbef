"""The fetched values of all steps, in order and by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.dtypes import DataType

if TYPE_CHECKING:
    import numpy as np


class Result(NamedTuple):
    """One fetched tensor: its name in the fetch, and the step's number, which counts repetitions too and begins at 0."""

    step: int
    name: str
    dtype: DataType
    value: Any

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The value as an array of its type."""
        from placesim.runtime.sessions.printed_values import as_array

        return as_array(self.value, self.dtype)


class Results(Sequence[Result]):
    """All fetched tensors in order; a name as an index (`loss` or `loss:0`) selects the last array fetched with this name."""

    def __init__(self, rows: Sequence[Result] = ()) -> None:
        self._rows = tuple(rows)
        self._latest = {full_name(row.name): row for row in self._rows}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._rows)

    def __getitem__(self, key: Any) -> Any:
        """Return results by position or slice, or an array by name. Raises KeyError for a name that was not fetched."""
        if isinstance(key, str):
            return self._latest[full_name(key)].array
        return self._rows[key]

    def names(self) -> tuple[str, ...]:
        """Return the full names of the tensors, such as `loss:0`."""
        return tuple(self._latest)

    def __repr__(self) -> str:
        return f"Results({', '.join(self._latest)})"


def full_name(name: str) -> str:
    """Return a tensor's name with its output number: `x:0` for `x`, and `x:1` for `x:1`."""
    return name if name.rpartition(":")[2].isdigit() and ":" in name else f"{name}:0"
