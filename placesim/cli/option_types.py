"""Options in groups, and options that accept one of a few words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click

OWN = "Options"
MACHINE = "Machine"
CLUSTER = "Cluster"
SOURCE = "Source"
SIZES = "Sizes and counts"
PLACEMENT = "Placement"
FILE_ACCESS = "File access"
CHECKPOINTS = "Checkpoints"
REPORT = "Report"
GENERAL = "General"
GROUPS = (OWN, MACHINE, CLUSTER, SOURCE, SIZES, PLACEMENT, FILE_ACCESS, CHECKPOINTS, REPORT, GENERAL)
"""Titles of the groups of options in `--help`, in order."""
FolderValues = Literal["any", "own files", "none"]
"""Values that an option may have from a settings file in the current folder or above it, which may be untrusted.

`any` is for options that only change how a graph is placed, simulated or shown. `own files` is for such options that name a
file to read, which must be in the folder of the settings file. `none` is for options that write, connect, start something, use
more of the machine, or set a limit.
"""


class Option(click.Option):
    """An option with the title of its group, and the values that a settings file found in a folder may give it.

    `files` returns the files that a value names; by default the value is a path. `completes` is the kind of words that a shell
    offers for it, a key of `shell_completion.FINDERS`.
    """

    def __init__(
        self,
        *words: Any,
        folder_values: FolderValues,
        files: Callable[[str], Iterable[str]] = lambda text: (text,),
        group: str = OWN,
        completes: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(*words, **settings)
        self.completes = completes
        self.folder_values = folder_values
        self.files = files
        self.group = group

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the converted value. Raises click.BadParameter; for a number, the message has the expected range."""
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as error:
            got, *rest = _WRONG_NUMBER.split(error.message, maxsplit=1)
            if self.type.name not in _NUMBERS or not rest:
                raise
            raise click.BadParameter(f"got {got}, expected {self._number()}", ctx, self) from None

    def _number(self) -> str:
        """Return the type and the range of the option's numbers."""
        low, high = (getattr(self.type, end, None) for end in ("min", "max"))
        kind = _NUMBERS[self.type.name]
        if getattr(self.type, "min_open", False):
            return f"{kind} above {low}" if high is None else f"{kind} above {low}, at most {high}"
        if high is None:
            return kind if low is None else f"{kind} of at least {low}"
        return f"{kind} of at most {high}" if low is None else f"{kind} from {low} to {high}"


_WRONG_NUMBER = re.compile(" is not a valid | is not in the range ")
"""The middle of click's messages about a wrong number."""
_NUMBERS = {"integer": "a whole number", "integer range": "a whole number", "float": "a number", "float range": "a number"}


WARNINGS = "placesim.warnings"
"""The key of a context's warnings, which `Command` prints once all options are known."""


class Word(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter type for one of a few words. The error for any other word suggests the most similar one.

    `renamed` maps old words to new ones. An old word is replaced, and a warning gives the new one.
    """

    name = "word"

    def __init__(self, words: Sequence[str], renamed: Mapping[str, str] | None = None) -> None:
        self.words = tuple(words)
        self.renamed = renamed or {}

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the words, for the help."""
        return "|".join(self.words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word. Raises click.BadParameter, with the most similar word, for any other word."""
        if value in self.renamed:
            if ctx is not None:
                ctx.meta.setdefault(WARNINGS, []).append(f"'{value}' is now '{self.renamed[value]}'")
            return self.renamed[value]
        if value not in self.words:
            from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

            near = did_you_mean(str(value), self.words, SIMILAR_AMONG_FEW)
            self.fail(f"got '{value}', expected {' or '.join(self.words)}{near}", param, ctx)
        return str(value)


class Words(Word):
    """A parameter type for a list of words, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the words as a tuple. Raises click.BadParameter for an unknown word."""
        if isinstance(value, tuple):
            return value
        word = super().convert
        return tuple(word(part.strip(), param, ctx) for part in str(value).split(","))


class OutputFile(click.Path):
    """A parameter type for the path of an output file, which is checked before the command begins its work.

    `-` is rejected, since the command's report goes to standard output. With `makes_folders`, the command makes folders.
    """

    def __init__(self, *, makes_folders: bool = False) -> None:
        super().__init__(dir_okay=False)
        self._makes_folders = makes_folders

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter for `-`, and UsageError for a file that can't be written."""
        from placesim.core.files.writer import check_writable

        if value == "-":
            self.fail("'-' is no file: expected a path, or ./- for a file of that name.", param, ctx)
        path = super().convert(value, param, ctx)
        check_writable(Path(str(path)), self._makes_folders)
        return path


def option(*words: str, folder_values: FolderValues, group: str = OWN, **settings: Any) -> Callable[[Any], Any]:
    """Return `click.option` with a group, and the values that a settings file found in a folder may give."""
    return click.option(*words, cls=Option, folder_values=folder_values, group=group, **settings)


own_option = partial(option, folder_values="any")
machine_option = partial(option, group=MACHINE, folder_values="any")
source_option = partial(option, group=SOURCE, folder_values="any")
size_option = partial(option, group=SIZES, folder_values="any")
placement_option = partial(option, group=PLACEMENT, folder_values="any")
report_option = partial(option, group=REPORT, folder_values="any")
cluster_option = partial(option, group=CLUSTER, folder_values="none")
file_option = partial(option, group=FILE_ACCESS, folder_values="none")
checkpoint_option = partial(option, group=CHECKPOINTS, folder_values="none")
"""Variants of `option` for one group each, with default `folder_values`."""
