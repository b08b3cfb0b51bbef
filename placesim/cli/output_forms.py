"""Formats of a command's output in one table, which `--format`, file extensions and writing use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from placesim.cli.option_types import Word, report_option
from placesim.core.errors import UsageError

if TYPE_CHECKING:
    from placesim.report.text.tables import Tables

Writer = TypeVar("Writer", bound=Callable[..., Any])


class Form(NamedTuple, Generic[Writer]):
    """An output format: its name, the function that writes it, and its file extensions."""

    name: str
    write: Writer
    endings: tuple[str, ...] = ()


def form_option(forms: Sequence[Form[Any]], help: str) -> Callable[[Any], Any]:
    """Return the option `--format`, whose values are a command's formats."""
    return report_option("--format", "form", type=Word([form.name for form in forms]), help=help)


TABLE_FORMS = ("csv", "markdown")
"""Formats of tables for other programs; their writers return `Tables`."""
ROW_FORMS = ("text", "json", *TABLE_FORMS)
"""Formats of a plain list of rows."""


def table_forms(tables: Callable[..., Tables]) -> tuple[Form[Any], ...]:
    """Return the formats CSV and Markdown of a report's tables."""
    return Form("csv", tables, (".csv",)), Form("markdown", tables, (".md",))


def document_forms(tables: Callable[..., Tables]) -> tuple[Form[Any], ...]:
    """Return the formats JSON, CSV and Markdown of a report whose tables contain everything that its JSON object has."""
    return Form("json", tables, (".json",)), *table_forms(tables)


def table_option(*names: str, renamed: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """Return the option `--table`, which selects one of a report's tables; CSV writes the first by default.

    `renamed` maps old names to new ones.
    """
    text = f"Write only this table as csv or markdown (default: {names[0]} for csv, all for markdown)."
    return report_option("--table", type=Word(names, renamed), help=text)


def find_form(forms: Iterable[Form[Writer]], name: str) -> Form[Writer]:
    """Return the format with this name. Raises KeyError for an unknown name."""
    return {form.name: form for form in forms}[name]


def form_of_file(forms: Iterable[Form[Writer]], path: str) -> str | None:
    """Return the format that a path's extension names; None if it names no format."""
    ending = PurePath(path).suffix.lower()
    return next((form.name for form in forms if ending in form.endings), None)


class Target(NamedTuple):
    """The destination and format of a result.

    `output` is None for standard output. `opens` is whether to show the result in a browser. `table` selects one of several
    tables.
    """

    form: str
    output: str | None
    opens: bool = False
    table: str | None = None

    @property
    def is_for_reader(self) -> bool:
        """Whether the output is text on a terminal."""
        from placesim.cli.output import is_terminal

        return self.form == "text" and self.output is None and is_terminal(sys.stdout)


OPENED = ("html", "svg", "png")
"""Formats that a browser shows."""
open_option = report_option(
    "--open",
    "opens",
    is_flag=True,
    help="Open the page in a browser; without --output it is written to a temporary file.",
    folder_values="none",
)


def find_target(
    forms: Sequence[Form[Any]], form: str | None, output: str | None, opens: bool = False, table: str | None = None
) -> Target:
    """Return the format and destination. The format is that of `--format`, else that of the file's extension, else text.

    All commands that write reports use this rule. Raises UsageError for an unknown extension, a page on a terminal, `--open`
    without a page, and `--table` without a table.
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
        raise UsageError(f"cannot print {what} to a terminal: got --format {form}, expected --output FILE as well")
    if opens and form not in OPENED:
        raise UsageError(f"--open needs a page: got format {form}, expected --format html, or an --output that ends in .html")
    if table is not None and form not in TABLE_FORMS:
        raise UsageError(f"--table needs tables: got format {form}, expected --format csv or markdown")
    return Target(form, output, opens, table)


def take_target(forms: Sequence[Form[Any]], values: dict[str, Any]) -> Target:
    """Remove the options of `find_target` from `values`, and return the target that they describe."""
    return find_target(
        forms, values.pop("form"), values.pop("output", None), values.pop("opens", False), values.pop("table", None)
    )


def write_target(forms: Iterable[Form[Any]], target: Target, *subject: Any) -> None:
    """Write the subject in the format and to the destination of `target`."""
    from placesim.cli.output import tab_text, write_content, write_styled
    from placesim.cli.progress import show_stages
    from placesim.report.text.tables import Tables, TabLines

    made = find_form(forms, target.form).write(*subject)
    content = made.text(target.form, target.table) if isinstance(made, Tables) else made
    if isinstance(made, TabLines):
        content = tab_text(made)
    if isinstance(content, str) and target.form == "text" and target.output is None:
        write_styled(content)
    elif target.output is None:
        write_content((content,) if isinstance(content, str) else content, None)
    else:
        with show_stages("writing"):
            write_content((content,) if isinstance(content, str) else content, target.output)
    show_opened(target)


def check_page_file(path: str | None) -> None:
    """Raise UsageError if the file of `--html` has an extension of another format."""
    pages = (Form("html", str, (".html", ".htm")),)
    if path is not None and PurePath(path).suffix and form_of_file(pages, path) is None:
        raise _unknown_ending("--html", path, pages)


def _ending_and_name(form: Form[Any]) -> str:
    ending: str = form.endings[0]
    return ending if ending == f".{form.name}" else f"{ending} ({form.name})"


def _unknown_ending(option: str, path: str, forms: Sequence[Form[Any]]) -> UsageError:
    known = ", ".join(_ending_and_name(form) for form in forms if form.endings)
    also = "; any other extension needs --format" if len(forms) > 1 else ""
    return UsageError(f"cannot infer a format from {path} in {option}: got no known extension, expected one of {known}{also}")


def _temporary_file(ending: str) -> str:
    import tempfile

    return str(PurePath(tempfile.mkdtemp(prefix="placesim-")) / f"page{ending}")


def show_opened(target: Target) -> None:
    """Open a written file in this machine's browser. Without a browser, print its path."""
    if not target.opens or target.output is None:
        return
    import webbrowser

    from placesim.cli.output import complain

    is_shown = webbrowser.open(Path(target.output).resolve().as_uri())
    complain(f"{'Opened' if is_shown else 'No browser found to open'} {target.output}\n")
