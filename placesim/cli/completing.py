"""What a shell offers where a word is begun: commands, options, files, and the words that stand for something of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete, split_arg_string

from placesim.cli.command import Word
from placesim.cli.group import COMMANDS, command_named, placesim

VARIABLE = "_PLACESIM_COMPLETE"
"""Holds what a shell asks for: `SHELL_source` or `SHELL_complete`."""
MAX_GRAPH_BYTES = 4 << 20
"""A person waits for the names of a graph: of a larger one none are offered."""
MAX_NAMES = 2000


class _Bash(BashComplete):
    """Quotes what has blanks, as bash has to have it."""

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.type != "plain" or " " not in item.value:
            return super().format_completion(item)
        return f"{item.type},{item.value}".replace(" ", "\\\\ ")


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}


def script_of(shell: str) -> str:
    """What the shell has to read, once."""
    return SHELLS[shell](placesim, {}, "placesim", VARIABLE).source()


def answer(instruction: str) -> int:
    """Answer the shell that asks; the exit code."""
    shell, _, wanted = instruction.partition("_")
    if shell not in SHELLS or wanted not in ("source", "complete"):
        return 1
    if wanted == "source":
        sys.stdout.write(script_of(shell))
        return 0
    for name in COMMANDS:
        if name in _words():
            _teach(command_named(name))
    sys.stdout.write(SHELLS[shell](placesim, {}, "placesim", VARIABLE).complete() + "\n")
    return 0


class _Known(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter's type that also knows what may stand there."""

    def __init__(self, kind: click.ParamType, find: Callable[[click.Context], Iterable[str]]) -> None:  # type: ignore[type-arg]
        self.name = kind.name
        self._kind = kind
        self._find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._kind.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        found = [word for word in self._find(ctx) if word.startswith(incomplete)]
        return [CompletionItem(word) for word in found[:MAX_NAMES]]


class _File(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter's type, where a file stands."""

    def __init__(self, kind: click.ParamType) -> None:  # type: ignore[type-arg]
        self.name = kind.name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._kind.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        return [CompletionItem(incomplete, type="file")]


def _teach(command: click.Command) -> None:
    """Give the command's parameters what they know."""
    for param in command.params:
        kind = param.type
        find = _FINDERS.get(f"{command.name} {param.name}") or _FINDERS.get(str(param.name))
        if isinstance(kind, Word):
            param.type = _Known(kind, lambda ctx, words=kind.words: words)  # type: ignore[misc]
        elif find is not None:
            param.type = _Known(kind, find)
        elif param.name in _FILES:
            param.type = _File(kind)


_FILES = ("graph", "graphs", "a", "b", "out", "policy", "inventory", "a_inventory", "b_inventory", "profile", "checkpoint")


def _words() -> list[str]:
    """Those of the line, as all three shells tell them."""
    return split_arg_string(os.environ.get("COMP_WORDS", ""))


def _gpu_models(ctx: click.Context) -> Iterable[str]:
    from placesim.devices.catalogue import GPU_MODELS

    return GPU_MODELS


def _rules(ctx: click.Context) -> Iterable[str]:
    from placesim.inspection.checking.rules import RULES

    return RULES


def _topics(ctx: click.Context) -> Iterable[str]:
    from placesim.manual.pages import topics

    return topics()


def _ops(ctx: click.Context) -> Iterable[str]:
    from placesim.inspection.op_facts import load_registry

    return load_registry().op_names


def _dtypes(ctx: click.Context) -> Iterable[str]:
    from placesim.inspection.op_facts import DTYPE_NAMES

    return DTYPE_NAMES


def _commands(ctx: click.Context) -> Iterable[str]:
    return COMMANDS


def _nodes(ctx: click.Context) -> Iterable[str]:
    """Of the graph that the line names; a script is not run, and standard input not read, only for their names."""
    from placesim.cli.graph_arguments import load_graph
    from placesim.errors import PlacesimError
    from placesim.formats.recognition import is_script
    from placesim.options import make_options

    # click keeps no arguments of a line that ends in an option without its value
    graph = next(filter(os.path.isfile, _words()), None)
    if graph is None or is_script(graph) or os.path.getsize(graph) > MAX_GRAPH_BYTES:
        return ()
    try:
        loaded = load_graph(graph, make_options({}))
    except PlacesimError:
        return ()
    return () if loaded.file is None else [node.name for node in loaded.file.graph.nodes]


_FINDERS: Mapping[str, Callable[[click.Context], Iterable[str]]] = {
    "gpu_model": _gpu_models,
    "a_gpu_model": _gpu_models,
    "b_gpu_model": _gpu_models,
    "check rules": _rules,
    "manual topic": _topics,
    "ops name": _ops,
    "ops dtype": _dtypes,
    "help name": _commands,
    "explain nodes": _nodes,
    "fetch": _nodes,
    "log_filters": _nodes,
    "free": _nodes,
    "apart": _nodes,
}
"""What may stand for a parameter: of one command, or of any."""
