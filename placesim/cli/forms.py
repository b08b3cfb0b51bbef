"""The forms of a command's output, as one table that `--format`, the endings of files and the writing read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any, Generic, NamedTuple, TypeVar

from placesim.cli.command import REPORT, Word, option
from placesim.errors import UsageError

Writer = TypeVar("Writer", bound=Callable[..., Any])


class Form(NamedTuple, Generic[Writer]):
    """A form: its word, the function that writes it, and the endings of files that are in it."""

    name: str
    write: Writer
    endings: tuple[str, ...] = ()


def form_option(forms: Sequence[Form[Any]], help: str, default: str | None = None) -> Callable[[Any], Any]:
    """`--format`, one of a command's forms."""
    return option("--format", "form", type=Word([form.name for form in forms]), default=default, help=help, group=REPORT)


def find_form(forms: Iterable[Form[Writer]], name: str) -> Form[Writer]:
    """The form of that name.  Raises KeyError for another."""
    return {form.name: form for form in forms}[name]


def form_of_file(forms: Iterable[Form[Writer]], path: str) -> str | None:
    """The form that a path's ending tells; None where it tells none."""
    ending = PurePath(path).suffix.lower()
    return next((form.name for form in forms if ending in form.endings), None)


def check_page_target(form: str, output: str | None) -> None:
    """Raises UsageError where a page would be written to a terminal."""
    if form == "html" and output is None and sys.stdout.isatty():
        raise UsageError("a page is not for a terminal: got --format html, expected --output FILE with it")
