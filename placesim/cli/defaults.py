"""Defaults of options that the command line does not name: environment variables, then settings files.

`PLACESIM_COMMAND_OPTION` applies to one command, `PLACESIM_OPTION` to all commands with the option. A settings file is
`placesim.toml`, or the table `[tool.placesim]` of a `pyproject.toml`, in the current directory or the nearest parent directory.
The user's own file is `~/.config/placesim/config.toml`. The top level of a file applies to all commands that have the option,
and a table named after a command to this command.

A folder, and the settings file in it, may come from an untrusted source. Each option's `folder_values` say which values such a
file may set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click

from placesim.cli.commands import command_named
from placesim.cli.option_types import Option
from placesim.core.errors import UsageError
from placesim.core.files.containment import is_inside
from placesim.core.files.reader import open_file

PREFIX = "PLACESIM_"
CONFIG = "PLACESIM_CONFIG"
"""Environment variable with the path of the only settings file to read; if it is empty, none is read."""
FILE = "placesim.toml"
_PROJECT = "pyproject.toml"
_TABLE = ("tool", "placesim")
OWN_FILE = "placesim/config.toml"
"""Path of the user's own settings file, below `~/.config`."""
MAX_BYTES = 1 << 20
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class SettingsFile(NamedTuple):
    """A settings file: its path, its table, its text, and the keys that lead to the table.

    `is_found` is set if it was found in the current directory or above, and was not named by the user.
    """

    path: Path
    table: Mapping[str, Any]
    text: str
    above: Sequence[str]
    is_found: bool


class DefaultOrigin(NamedTuple):
    """The origin of a default: an environment variable, or a file and the keys in it."""

    name: str
    file: SettingsFile | None = None
    keys: Sequence[str] = ()

    @property
    def place(self) -> str:
        """Return the place of the value, for messages."""
        if self.file is None:
            return self.name
        line = _line_of(self.file.text, (*self.file.above, *self.keys))
        return f"{_shown(self.file.path)}:{line}" if line else _shown(self.file.path)

    def wrong(self, key: str, said: str) -> UsageError:
        """Return the error for an invalid value."""
        return UsageError(
            f"wrong {self.name}: {said}" if self.file is None else f"{self.place}: wrong value of '{key}': {said}"
        )


class Words(NamedTuple):
    """The long words of an option, without dashes.

    `flags` maps each word of a flag to the values for true and false; it is None for other options.
    """

    param: click.Option
    flags: Mapping[str, Any] | None


class Default(NamedTuple):
    """A default value for click, with its key and its origin."""

    value: Any
    key: str
    source: DefaultOrigin

    def misfit(self, error: click.BadParameter) -> UsageError:
        """Return the error for a value that click rejects."""
        said = " ".join(error.message.split())
        return self.source.wrong(self.key, said if said.startswith("got ") else f"got '{self.value}': {said}")


class Defaults(NamedTuple):
    """Default values by parameter, and a message for each ignored key of a settings file that was found in a folder."""

    values: Mapping[str, Default]
    ignored: Sequence[str]


def defaults_of(command: click.Command, name: str, commands: Sequence[str]) -> Defaults:
    """Return the defaults of a command's options.

    Raises UsageError, with the place, for a key that no command has, and for an invalid value.
    """
    options = _options(command)
    found: dict[str, Default] = {}
    ignored: list[str] = []
    of_files = (setting for file in _read() for setting in _of_file(file, name, commands, options))
    for key, value, source in (*of_files, *_of_environment(name, options)):
        param, flags = options[key]
        assert param.name is not None
        breach = "" if source.file is None or not source.file.is_found else _breach(param, value, source.file.path.parent)
        if breach:
            ignored.append(
                f"{source.place}: ignored {key}: {breach}; expected it on the command line, in {PREFIX}{_variable(key)} or in "
                f"{_own_path()}"
            )
        else:
            found[param.name] = Default(_value(param, flags, key, value, source), key, source)
    return Defaults(found, ignored)


@cache
def _options(command: click.Command) -> dict[str, Words]:
    """Return every option that can have a default, by each of its long words."""
    found: dict[str, Words] = {}
    for param in command.params:
        if not isinstance(param, click.Option) or param.name in ("help", "version"):
            continue
        on, off = ([word[2:] for word in words if word.startswith("--")] for words in (param.opts, param.secondary_opts))
        flags: Mapping[str, Any] | None = None
        if param.is_flag:
            is_switch = not isinstance(param.flag_value, str)  # without a default, it may be unset
            values = (True, False) if is_switch else (param.flag_value, None)
            flags = dict.fromkeys(on, values) | dict.fromkeys(off, values[::-1])
        found.update((word, Words(param, flags)) for word in (*on, *off))
    return found


def _breach(param: click.Option, value: Any, folder: Path) -> str:
    """Return the reason why a file found in a folder may not set this value; empty if the value is allowed."""
    if not isinstance(param, Option) or param.folder_values == "none":
        return "a file found in a folder may not set it"
    if param.folder_values == "own files":
        for text in map(str, value if isinstance(value, list) else (value,)):
            if not _stays_inside(param, text, folder):
                return f"got '{text}', and a file found in a folder may name only files of that folder"
    return ""


def _stays_inside(param: Option, text: str, folder: Path) -> bool:
    """Whether all files named by a value lie in a folder."""
    try:
        return all(is_inside(Path(path), folder) for path in param.files(text))
    except UsageError:  # the command reports the error
        return True


def _variable(key: str) -> str:
    return key.replace("-", "_").upper()


def _of_environment(name: str, options: Mapping[str, Words]) -> Iterator[tuple[str, Any, DefaultOrigin]]:
    """Yield the values of environment variables. A variable for the command comes after
    the variable for all commands, and overrides it.
    """
    if not any(variable.startswith(PREFIX) for variable in os.environ):
        return
    for key in options:
        for variable in (f"{PREFIX}{_variable(key)}", f"{PREFIX}{_variable(name)}_{_variable(key)}"):
            text = os.environ.get(variable)
            if text:
                yield key, text, DefaultOrigin(variable)


def _of_file(
    from_file: SettingsFile, name: str, commands: Sequence[str], options: Mapping[str, Words]
) -> Iterator[tuple[str, Any, DefaultOrigin]]:
    """Yield the values of a settings file. The command's own table comes last, and overrides the top of the file."""
    for key, value in from_file.table.items():
        plain = key.replace("_", "-")
        if isinstance(value, dict):
            if key not in commands:
                raise _unknown(from_file, (key,), [*commands], "a command's table")
        elif plain in options:
            yield plain, value, DefaultOrigin(FILE, from_file, (key,))
        elif plain not in _words_of_all(commands):
            raise _unknown(from_file, (key,), _words_of_all(commands), "an option")
    own = from_file.table.get(name, {})
    if not isinstance(own, dict):
        return
    for key, value in own.items():
        plain = key.replace("_", "-")
        if plain not in options:
            raise _unknown(from_file, (name, key), list(options), f"an option of `placesim {name}`")
        yield plain, value, DefaultOrigin(FILE, from_file, (name, key))


def _words_of_all(commands: Sequence[str]) -> list[str]:
    return sorted({word for name in commands for word in _options(command_named(name))})


def _read() -> Iterator[SettingsFile]:
    """Yield the settings files: the user's own, then the nearest one; or only the file that the environment names."""
    named = os.environ.get(CONFIG)
    if named is not None:
        one = _parsed(Path(named), Path(named).name == _PROJECT, is_found=False) if named else None
    else:
        own = _own_path()
        if os.path.exists(own):
            yield from filter(None, [_parsed(own, is_project=False, is_found=False)])
        one = _nearest()
    yield from filter(None, [one])


def _own_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(folder if os.path.isabs(folder) else os.path.expanduser("~/.config")) / OWN_FILE


def _nearest() -> SettingsFile | None:
    """Return the settings file in the current directory, or in the nearest parent directory; None if there is none."""
    try:
        here = Path.cwd()
    except OSError:
        return None
    for folder in (here, *here.parents):
        for file in (FILE, _PROJECT):
            path = folder / file
            if os.path.isfile(path):
                found = _parsed(path, file == _PROJECT, is_found=True)
                if found is not None:
                    return found
    return None


def _parsed(path: Path, is_project: bool, is_found: bool) -> SettingsFile | None:
    """Parse a settings file. Returns None for a project file without a placesim table."""
    try:
        with open_file(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: got '{error.strerror}', expected a settings file") from error
    if is_project and b"tool.placesim" not in data:
        return None
    if len(data) > MAX_BYTES:
        raise UsageError(f"cannot read {path}: got more than {MAX_BYTES} bytes, expected a settings file")
    import tomllib

    try:
        text = data.decode().replace("\r\n", "\n")
        table: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_toml(path, data, error) from error
    above = _TABLE if is_project else ()
    for part in above:
        table = table.get(part) if isinstance(table, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{_shown(path)}: wrong type of tool.placesim: got {table!r}, expected a table")
    return SettingsFile(path, table, text, above, is_found)


_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def _no_toml(path: Path, data: bytes, error: Exception) -> UsageError:
    """Return the error for a file that is not TOML, with the place from the error of tomllib or of the decoder."""
    said = str(error)
    lines = data.splitlines() or [b""]
    line, column = len(lines), len(lines[-1]) + 1
    found = _PLACE.search(said)
    if isinstance(error, UnicodeDecodeError):
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        said = f"{error.object[error.start : error.start + 1]!r}, which is not UTF-8"
    elif found is not None:
        said = said[: found.start()]
        line, column = int(found[1] or line), int(found[2] or column)
    return UsageError(f"{_shown(path)}:{line}:{column}: invalid TOML: got '{said}', expected keys and values")


def unknown_variables(command: click.Command, name: str, commands: Sequence[str]) -> Iterator[str]:
    """Yield a message for each environment variable that is named like an option but sets no option of any command."""
    own = _variables(command, name)
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or variable in own or variable == CONFIG:
            continue
        known = _variables_of_all(variable, commands)
        if variable not in known:
            from placesim.core.suggestions import did_you_mean

            near = did_you_mean(variable, sorted(known))
            yield f"unknown variable: got {variable}, expected {PREFIX}OPTION{near}"


def _variables(command: click.Command, name: str) -> set[str]:
    """Return the environment variables that set the command's options."""
    return {f"{PREFIX}{which}{_variable(word)}" for word in _options(command) for which in ("", f"{_variable(name)}_")}


def _variables_of_all(variable: str, commands: Sequence[str]) -> set[str]:
    """Return the environment variables of all commands.

    Commands are imported one by one until `variable` is found; later commands are missing.
    """
    known = {CONFIG}
    # the command that the variable names comes first
    for name in sorted(commands, key=lambda name: not variable.startswith(f"{PREFIX}{_variable(name)}_")):
        known |= _variables(command_named(name), name)
        if variable in known:
            break
    return known


def _shown(path: Path) -> str:
    """Return a path relative to the current directory if possible."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _line_of(text: str, keys: Sequence[str]) -> int | None:
    """Return the number of the line that sets a key, from 1; None if unknown.

    tomllib keeps no line numbers, so shorter and shorter prefixes are parsed until the key is missing.
    """
    import tomllib

    wanted = len(keys)
    lines = text.split("\n")
    for number in range(1, len(lines) + 1):
        try:
            table: Any = tomllib.loads("\n".join(lines[:number]))
        except ValueError:
            continue  # the lines end within a value
        for depth, key in enumerate(keys, 1):
            if not isinstance(table, dict) or key not in table:
                break
            table = table[key]
            if depth == wanted:
                return number
    return None


def _unknown(file: SettingsFile, keys: Sequence[str], known: Sequence[str], what: str) -> UsageError:
    from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean

    *tables, key = keys
    near = did_you_mean(key.replace("_", "-"), known, SIMILAR_AMONG_FEW)
    error = UsageError(f"{DefaultOrigin(FILE, file, keys).place}: no such key: got '{key}', expected {what}{near}")
    error.help = (f"`placesim help {tables[0]}` lists them" if tables else "`placesim help COMMAND` lists a command's options",)
    return error


def _value(param: click.Option, flags: Mapping[str, Any] | None, key: str, value: Any, source: DefaultOrigin) -> Any:
    """Convert a default to click's form: a flag's value, a text, or a list of texts for a repeatable option."""
    if flags is not None:
        return flags[key][0 if _truth(key, value, source) else 1]
    if param.multiple:
        return [_text(key, item, source) for item in _items(value, source)]
    return _text(key, value, source)


def _truth(key: str, value: Any, source: DefaultOrigin) -> bool:
    if source.file is None and str(value).lower() in (*_TRUE, *_FALSE):
        return str(value).lower() in _TRUE
    if isinstance(value, bool):
        return value
    raise source.wrong(key, f"got {_as_toml(value)}, expected true or false")


def _items(value: Any, source: DefaultOrigin) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    if source.file is not None:
        return [value]
    import shlex

    try:
        return shlex.split(value)
    except ValueError as error:
        raise source.wrong("", f"got '{value}', expected words, with balanced quotes") from error


def _text(key: str, value: Any, source: DefaultOrigin) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise source.wrong(key, f"got {_as_toml(value)}, expected a string or a number")
    return str(value)


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"'{value}'"
