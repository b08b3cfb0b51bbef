"""Options in groups, and options that accept one of a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
"""The titles over options in `--help`, in their order."""
FolderValues = Literal["any", "own files", "none"]
"""Values that an option may have from a settings file found in the current folder or above it: somebody else's, maybe.

`any` is for options that only change how a graph is placed, simulated or shown.  `own files` is for such options that name a
file to read: one in the folder of the settings file.  `none` is for options that write, connect, start something, use more of
the machine, or set a limit.
"""


class Option(click.Option):
    """An option with its heading in the help, and the values that a settings file found in a folder may give it.

    `files` are the files that one value names: itself, unless it is more than a path.  `completes` is the kind of words that a
    shell offers for it, as `shell_completion.FINDERS` has them.
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


class Word(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """One of a few words; for any other the error names the nearest."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The words, for the help."""
        return "|".join(self.words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word.  Raises click.BadParameter, with the nearest, for any other."""
        if value not in self.words:
            from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

            near = did_you_mean(str(value), self.words, SIMILAR_AMONG_FEW)
            self.fail(f"got '{value}', expected {' or '.join(self.words)}{near}", param, ctx)
        return str(value)


class OutputFile(click.Path):
    """Path of an output file; `-` is refused, since standard output has the command's report."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.  Fails for `-`."""
        if value == "-":
            self.fail("'-' is no file: expected a path, or ./- for a file of that name.", param, ctx)
        return super().convert(value, param, ctx)


def option(*words: str, folder_values: FolderValues, group: str = OWN, **settings: Any) -> Callable[[Any], Any]:
    """`click.option` with a heading in the help, and the values that a settings file found in a folder may give."""
    return click.option(*words, cls=Option, folder_values=folder_values, group=group, **settings)
