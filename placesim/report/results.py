"""Text of the values that steps gave, as TensorFlow's users print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.core.escaping import escape_line
from placesim.runtime.sessions.results import Result, Results


def format_results(results: Results, classic: bool = False) -> str:
    """The values as a Python program that prints them shows them, each step by itself.

    A step's only tensor is printed bare, several each under its name.  `classic`: in numpy 1.13's format.
    """
    by_step: dict[int, list[Result]] = {}
    for row in results:
        by_step.setdefault(row.step, []).append(row)
    return "".join(text for rows in by_step.values() for text in format_step(rows, classic))


def format_step(rows: Sequence[Result], classic: bool = False) -> Iterator[str]:
    """The values of one step, one after another."""
    from placesim.runtime.sessions.printed_values import format_array

    for row in rows:
        if len(rows) > 1:
            yield f"{escape_line(row.name)}:\n"
        yield f"{format_array(row.array, classic)}\n"
