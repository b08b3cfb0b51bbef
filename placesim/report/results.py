"""Text of fetched values, as TensorFlow's users print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.core.escaping import escape_line
from placesim.core.grouped import grouped
from placesim.runtime.sessions.results import Result, Results


def format_results(results: Results, classic: bool = False) -> str:
    """Return the values as Python's `print` shows them, step by step.

    If a step fetched one tensor, only its value is printed; several tensors have their names above them. `classic` uses numpy
    1.13's format.
    """
    by_step = grouped((row.step, row) for row in results)
    return "".join(text for rows in by_step.values() for text in format_step(rows, classic))


def format_step(rows: Sequence[Result], classic: bool = False) -> Iterator[str]:
    """Yield the text of one step's values."""
    from placesim.runtime.sessions.printed_values import format_array

    for row in rows:
        if len(rows) > 1:
            yield f"{escape_line(row.name)}:\n"
        yield f"{format_array(row.array, classic)}\n"
