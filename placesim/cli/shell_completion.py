"""Shell completion of commands, options, files, and names that placesim knows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete, split_arg_string

from placesim.cli.commands import COMMANDS, command_named
from placesim.cli.group import placesim
from placesim.cli.option_types import Option, Word
from placesim.core.escaping import escape_line

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.graph import Node

Finder = Callable[[click.Context, str], Iterable[str]]
"""Function that returns the possible words at the cursor."""
VARIABLE = "_PLACESIM_COMPLETE"
"""Environment variable with the shell's request: `SHELL_source` or `SHELL_complete`."""
MAX_GRAPH_BYTES = 4 << 20
"""Maximum size in bytes of a graph whose names are completed; a person waits for the answer."""
MAX_SECONDS = 5.0
MAX_NAMES = 2000


_BASH = """\
%(complete_func)s() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            file,*) compopt -o default 2>/dev/null ;;
            dir,*) compopt -o dirnames 2>/dev/null ;;
            plain,*) COMPREPLY+=("${line#plain,}") ;;
        esac
    done < <(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$1")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""


_BASH_MEANING = re.compile(r"[^\w@%+=:,./*-]")


class _Bash(BashComplete):
    """Completion for bash, which splits words at `=` and `:`.

    It reads the raw line and answers with the missing rest of the word. Special characters are quoted, because names come from
    graphs, which must not run shell code.
    """

    source_template = _BASH
    _begun = ""

    def source(self) -> str:
        # click would refuse an old bash, which the script itself allows for
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_WORDS", "")
        words = split_arg_string(line)
        self._begun = "" if not words or (line[-1:].isspace() and line[-2:-1] != "\\") else words.pop()
        return words[1:], self._begun

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return `TYPE,VALUE`. VALUE is the part after the last `:` or `=`, where bash has split the word."""
        if item.type != "plain":
            return f"{item.type},{item.value}"
        begun = self._begun.partition("=")[2] if self._begun.startswith("-") and "=" in self._begun else self._begun
        breaks = [sign for sign in "=:" if sign in os.environ.get("COMP_BREAKS", "=:")]
        done = max((begun.rfind(sign) + 1 for sign in breaks), default=0)
        return f"{item.type}," + _BASH_MEANING.sub(r"\\\g<0>", item.value[done:])


_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a answers whole open
    local kind value text
    local -a described
    answers=("${(@f)$(
        COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete ${words[1]} 2>/dev/null
    )}")
    for kind value text in $answers; do
        case $kind in
            file) _path_files -f ;;
            dir) _path_files -/ ;;
            plain)
                if [[ $text != _ ]]; then described+=("$value:$text")
                elif [[ $value == *[=/:] ]]; then open+=("$value")
                else whole+=("$value"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#whole )) && compadd -U -V unsorted -a whole
    (( $#open )) && compadd -U -S '' -V unsorted -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
    compdef %(complete_func)s %(prog_name)s
fi
"""


class _Zsh(ZshComplete):
    """Completion for zsh, which adds no space after an incomplete word."""

    source_template = _ZSH


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": FishComplete}


def completion_script(shell: str) -> str:
    """Return the script with which a shell sets up completion."""
    return SHELLS[shell](placesim, {}, "placesim", VARIABLE).source()


def answer_completion(instruction: str) -> int:
    """Answer the shell's request, and return the exit code."""
    shell, _, wanted = instruction.partition("_")
    if shell not in SHELLS or wanted not in ("source", "complete"):
        return 1
    if wanted == "source":
        sys.stdout.write(completion_script(shell))
        return 0
    for name in COMMANDS:
        if name in _words():
            _teach(command_named(name))
    sys.stdout.write(SHELLS[shell](placesim, {}, "placesim", VARIABLE).complete() + "\n")
    return 0


class _CompletableType(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.2 on
    """A parameter type with completions: the words that `find` returns; without `find`, files."""

    def __init__(self, kind: click.ParamType, find: Finder | None) -> None:  # type: ignore[type-arg]
        self.name = kind.name
        self._kind = kind
        self._find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._kind.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        if self._find is None:
            return [CompletionItem(incomplete, type="file")]
        words = self._find(ctx, incomplete)
        # a line end would begin another answer, and a shell would show control characters unescaped
        found = [word for word in words if word.startswith(incomplete) and escape_line(word) == word]
        return [CompletionItem(word) for word in found[:MAX_NAMES]]


def _teach(command: click.Command) -> None:
    """Add completions to the command's parameters."""
    for param in command.params:
        kind, words = param.type, _completed_words(command, param)
        if isinstance(kind, Word):
            param.type = _CompletableType(kind, lambda ctx, begun, words=kind.words: words)  # type: ignore[misc]
        elif words:
            param.type = _CompletableType(kind, FINDERS[words])
        elif param.metavar in _FILES or (isinstance(param, click.Argument) and param.name in _FILE_ARGUMENTS):
            param.type = _CompletableType(kind, None)


def _completed_words(command: click.Command, param: click.Parameter) -> str:
    return param.completes if isinstance(param, Option) else _ARGUMENTS.get(f"{command.name} {param.name}", "")


_FILES = ("FILE", "DIR", "PREFIX")
"""Metavars of options whose value is a path."""
_FILE_ARGUMENTS = ("graph", "graphs", "a", "b", "out")
_ARGUMENTS = {
    "explain nodes": "nodes",
    "help name": "commands",
    "manual topic": "topics",
    "new name": "examples",
    "ops name": "ops",
}
"""The kind of words of each argument, a key of `FINDERS`."""


def _words() -> list[str]:
    """Return the words of the command line, which all three shells report in the same way."""
    return split_arg_string(os.environ.get("COMP_WORDS", ""))


def _gpu_models(ctx: click.Context, begun: str) -> Iterable[str]:
    """Return GPU models; if several are allowed, also after a comma."""
    from placesim.machine.gpu_models import GPU_MODELS

    before = begun[: begun.rfind(",") + 1]
    return (f"{before}{name}" for name in GPU_MODELS)


def _rules(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.inspection.checking.rules import RULES

    return RULES


def _topics(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.cli.manual_pages import topics

    return topics()


def _examples(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.formats.sources.examples import titles

    return titles()


def _ops(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.inspection.op_facts import load_registry

    return load_registry().op_names


def _dtypes(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.inspection.op_facts import DTYPE_NAMES

    return DTYPE_NAMES


def _methods(ctx: click.Context, begun: str) -> Iterable[str]:
    from itertools import chain

    from placesim.planning.portfolio import AUTO, GRAPH_METHODS

    return (AUTO, *dict.fromkeys(chain.from_iterable(GRAPH_METHODS.values())))


def _axes(ctx: click.Context, begun: str) -> Iterable[str]:
    from placesim.studies.sweeping.axes import KEYS, PREFIXES

    return (*(f"{key}=" for key in KEYS), *(f"{key}:" for key in PREFIXES))


def _graph() -> LoadedGraph | None:
    """Return the graph that the command line names; None if it names none.

    For a completion, scripts are not run, and standard input is not read.
    """
    from placesim.cli.graph_arguments import load_graph
    from placesim.core.errors import PlacesimError
    from placesim.formats.recognition import is_script
    from placesim.machine.options import make_options

    # if the line ends in an option without a value, click keeps none of its arguments
    for word in _words()[1:]:
        data = os.path.join(word, "saved_model.pb") if os.path.isdir(word) else word
        if os.path.isfile(data):
            if is_script(word) or os.path.getsize(data) > MAX_GRAPH_BYTES:
                return None
            try:
                return load_graph(word, make_options({"timeout": MAX_SECONDS}))
            except PlacesimError:
                return None
    return None


def _names(keeps: Callable[[Node], bool] = lambda node: True) -> Iterable[str]:
    graph = _graph()
    return () if graph is None or graph.file is None else (node.name for node in graph.file.graph.nodes if keeps(node))


def _nodes(ctx: click.Context, begun: str) -> Iterable[str]:
    """Return matching node names. If several names share the next scope, the scope is returned instead."""
    found: dict[str, list[str]] = {}
    for name in _names():
        if name.startswith(begun):
            end = name.find("/", len(begun)) + 1
            found.setdefault(name[:end] if end else name, []).append(name)
    return (names[0] if len(names) == 1 else scope for scope, names in found.items())


def _fed(ctx: click.Context, begun: str) -> Iterable[str]:
    """Return matching placeholders; if there are none, other nodes, which may be fed too."""
    names = [name for name in _names(_is_placeholder) if name.startswith(begun)]
    return (f"{name}=" for name in names or _names())


def _is_placeholder(node: Node) -> bool:
    return node.op.startswith("Placeholder")


def _placed(ctx: click.Context, begun: str) -> Iterable[str]:
    """Return matching nodes or scopes, and after `=` the devices of the machine."""
    pattern, equals, _ = begun.partition("=")
    if equals:
        return (f"{pattern}={device}" for device in _devices(ctx))
    return (f"{name}*=" if name.endswith("/") else f"{name}=" for name in _nodes(ctx, begun))


def _devices(ctx: click.Context) -> Iterable[str]:
    """Return devices as nodes request them, in short form if there is only one task."""
    from placesim.api.runs import devices
    from placesim.core.errors import PlacesimError
    from placesim.machine.options import MACHINE

    machine: dict[str, Any] = {name: ctx.params.get(name) for name in MACHINE}
    graph = _graph()
    file = None if graph is None or graph.file is None else next(word for word in _words()[1:] if os.path.exists(word))
    try:
        names = [device.name for device in devices(**machine, graph=file)]
    except (PlacesimError, TypeError, ValueError):
        return ()
    tasks = {name.partition("/device:")[0] for name in names}
    return [f"/{name.partition('/device:')[2].lower()}" if len(tasks) == 1 else name for name in names]


def _signatures(ctx: click.Context, begun: str) -> Iterable[str]:
    graph = _graph()
    return () if graph is None else graph.signatures


FINDERS: Mapping[str, Finder] = {
    "commands": lambda ctx, begun: COMMANDS,
    "devices": lambda ctx, begun: ("CPU", "GPU"),
    "dtypes": _dtypes,
    "examples": _examples,
    "fed nodes": _fed,
    "gpu models": _gpu_models,
    "methods": _methods,
    "nodes": _nodes,
    "ops": _ops,
    "placed nodes": _placed,
    "placeholders": lambda ctx, begun: (f"{name}=" for name in _names(_is_placeholder)),
    "rules": _rules,
    "signatures": _signatures,
    "sweep keys": _axes,
    "topics": _topics,
}
"""The finder for each kind of words in options and arguments."""
