"""The values that steps gave, in order and by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.dtypes import DataType

if TYPE_CHECKING:
    import numpy as np


class Result(NamedTuple):
    """One fetched tensor with the name of the fetch; steps count from 0, including repetitions."""

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
    """All fetched tensors in order; by name (`loss`, `loss:0`) the array that the last step to fetch it gave."""

    def __init__(self, rows: Sequence[Result] = ()) -> None:
        self._rows = tuple(rows)
        self._latest = {full_name(row.name): row for row in self._rows}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._rows)

    def __getitem__(self, key: Any) -> Any:
        """A row, or some, by position; an array by name.  Raises KeyError for a name that was not fetched."""
        if isinstance(key, str):
            return self._latest[full_name(key)].array
        return self._rows[key]

    def names(self) -> tuple[str, ...]:
        """The names of the tensors, as TensorFlow has them (`loss:0`)."""
        return tuple(self._latest)

    def __repr__(self) -> str:
        return f"Results({', '.join(self._latest)})"


def full_name(name: str) -> str:
    """`x` -> `x:0`; a name with an output stays."""
    return name if name.rpartition(":")[2].isdigit() and ":" in name else f"{name}:0"
