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


class Target(NamedTuple):
    """Where a result goes and in which form; `output` is None for standard output, `opens` tells that a browser shows it."""

    form: str
    output: str | None
    opens: bool = False


OPENED = ("html", "svg", "png")
"""What a browser shows."""
open_option = option(
    "--open",
    "opens",
    is_flag=True,
    help="Show the page in a browser; without --output in a file that is left in the temporary folder.",
    group=REPORT,
)


def find_target(forms: Sequence[Form[Any]], form: str | None, output: str | None, opens: bool = False) -> Target:
    """What `--format` says, else what the file's ending tells, else text: the one rule of all commands that write pages.

    Raises UsageError for an ending that no form has, for a page on a terminal, and for `--open` of what is no page.
    """
    if opens and output is None and form in (None, *OPENED):
        form = form or "html"
        output = _temporary_file(next(known.endings[0] for known in forms if known.name == form))
    if form is None and output is not None:
        form = form_of_file(forms, output)
        if form is None and PurePath(output).suffix:
            raise _unknown_ending("--output", output, forms)
    form = form or "text"
    if form in OPENED and output is None and sys.stdout.isatty():
        what = "a page" if form == "html" else "a picture"
        raise UsageError(f"{what} is not for a terminal: got --format {form}, expected --output FILE with it")
    if opens and form not in OPENED:
        raise UsageError(f"--open shows a page: got the form {form}, expected --format html, or an --output that ends in .html")
    return Target(form, output, opens)


def check_page_file(option: str, path: str | None) -> None:
    """UsageError for a file that is to hold a page and by its ending holds something else."""
    pages = (Form("html", str, (".html", ".htm")),)
    if path is not None and PurePath(path).suffix and form_of_file(pages, path) is None:
        raise _unknown_ending(option, path, pages)


def _unknown_ending(option: str, path: str, forms: Sequence[Form[Any]]) -> UsageError:
    known = ", ".join(f"{form.endings[0]} ({form.name})" for form in forms if form.endings)
    also = ", or --format with any name" if len(forms) > 1 else ""
    return UsageError(f"{option}'s ending tells no form: got {path}, expected one of {known}{also}")


def _temporary_file(ending: str) -> str:
    import tempfile

    return str(PurePath(tempfile.mkdtemp(prefix="placesim-")) / f"page{ending}")


def show_opened(target: Target) -> None:
    """Shows a file that is written in the browser of this machine; says where it is, if there is none."""
    if not target.opens or target.output is None:
        return
    import webbrowser
    from pathlib import Path

    from placesim.cli.output import complain

    is_shown = webbrowser.open(Path(target.output).resolve().as_uri())
    complain(f"{'Opened' if is_shown else 'No browser found to open'} {target.output}\n")
