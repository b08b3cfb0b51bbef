"""Decorator that attaches a `report` to an error, with the results up to the error."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from placesim.core.errors import PlacesimError

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")


def with_error_reports(function: Callable[Parameters, Found]) -> Callable[Parameters, Found]:
    """Decorate a function so that its errors have a `report`, with the results up to the error."""

    @wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Found:
        __tracebackhide__ = True
        try:
            return function(*args, **options)
        except PlacesimError as error:
            if error.report is None and error.outcome is not None:
                from placesim.report.report import Report

                error.report = Report.of(error.outcome)
            raise

    return called
