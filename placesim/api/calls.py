"""Common parts of the functions for Python callers: their decorator, and the check of a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import ParamSpec, TypeVar

from placesim.core.errors import PlacesimError, UsageError
from placesim.report.notebook_progress import show_in_notebook

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")
Number = TypeVar("Number", int, float)


def api_call(function: Callable[Parameters, Found]) -> Callable[Parameters, Found]:
    """Decorate a function so that its errors have a `report`, with the results up to the error, and a notebook its progress."""

    @wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Found:
        __tracebackhide__ = True
        try:
            with show_in_notebook(function.__name__):
                return function(*args, **options)
        except PlacesimError as error:
            if error.report is None and error.outcome is not None:
                from placesim.report.report import Report

                error.report = Report.of(error.outcome)
            raise

    return called


def texts(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several texts as a tuple. Raises UsageError for anything else."""
    if not isinstance(given, str | Sequence):
        raise UsageError(f"wrong {name}: got {given!r}, expected a text or a list of texts")
    return (given,) if isinstance(given, str) else tuple(given)


def check_whole_numbers(low: int = 1, **given: int | None) -> None:
    """Raise UsageError for a number that is not whole, or below `low`. It may be numpy's; None stands for no number."""
    for name, number in given.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, Integral) or number < low):
            raise UsageError(f"wrong {name}: got {number!r}, expected a whole number of at least {low}")


def above_zero(name: str, given: Number) -> Number:
    """Return a number above 0. Raises UsageError for anything else."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < given < float("inf"):
        raise UsageError(f"wrong {name}: got {given!r}, expected a number above 0")
    return given
