"""`tf.flags` and `tf.app`: what a script is told on its command line, and running its `main`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")


class Error(Exception):
    """What is wrong with flags."""


class DuplicateFlagError(Error):
    """A name that is taken."""


class IllegalFlagValueError(Error):
    """A value that a flag can't have."""


class UnrecognizedFlagError(Error):
    """An argument that names no flag."""


class UnparsedFlagAccessError(Error):
    """A flag that is asked for before the command line has been read."""


class ValidationError(Error):
    """A value that a flag's validator refuses."""


class Flag:
    """One flag: how its texts are read, its default, and its value once the command line is read."""

    def __init__(
        self, name: str, default: Any, doc: str | None, parse: Callable[[Any], Any], is_bool: bool, is_multi: bool
    ) -> None:
        self.name, self.help, self.parse, self.is_bool, self.is_multi = name, doc, parse, is_bool, is_multi
        self.default = self.value = None if default is None else self.read(default)
        self.present = 0
        self.validators: list[tuple[Callable[[Any], bool], str]] = []

    def read(self, given: Any) -> Any:
        """The value of a text, or of a value of the flag's type.  Raises IllegalFlagValueError."""
        if self.is_multi:
            return [self._read_one(item) for item in (given if isinstance(given, list | tuple) else [given])]
        return self._read_one(given)

    def _read_one(self, given: Any) -> Any:
        try:
            return self.parse(given)
        except (TypeError, ValueError) as error:
            raise IllegalFlagValueError(f"flag --{self.name}={given}: {error}") from None

    def set(self, text: Any) -> None:
        """Takes a value of the command line."""
        value = self.read(text)
        self.value = [*self.value, *value] if self.is_multi and self.present and self.value else value
        self.present += 1

    def check(self) -> None:
        for holds, message in self.validators:
            if not holds(self.value):
                raise IllegalFlagValueError(f"flag --{self.name}={self.value}: {message}")


class FlagValues:
    """The flags by name; reading one reads the command line first."""

    def __init__(self) -> None:
        self.__dict__["_flags"] = {}
        self.__dict__["_parsed"] = False
        self.__dict__["_validators"] = []

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Reads a command line; the program's name and what is left.  Raises Error."""
        left = self._read(list(argv)[1:], known_only)
        self.__dict__["_parsed"] = True
        self._check()
        return [argv[0], *left]

    def _check(self) -> None:
        for flag in self._flags.values():
            flag.check()
        for names, holds, message in self._validators:
            values = {name: self._flags[name].value for name in names}
            if not holds(values):
                told = ", ".join(f"{name}={value}" for name, value in values.items())
                raise IllegalFlagValueError(f"flags {told}: {message}")

    def _read(self, args: list[str], known_only: bool) -> list[str]:
        left: list[str] = []
        at = 0
        while at < len(args):
            arg = args[at]
            at += 1
            if arg == "--":
                return [*left, *args[at:]]
            if not arg.startswith("-") or arg == "-":
                return [*left, arg, *args[at:]]
            name, equals, text = arg.lstrip("-").partition("=")
            flag = self._flags.get(name)
            if flag is None and name.startswith("no") and name[2:] in self._flags and self._flags[name[2:]].is_bool:
                if equals:
                    raise IllegalFlagValueError(f"{arg} does not take an argument")
                self._flags[name[2:]].set(False)
            elif flag is None:
                if name in ("help", "h", "helpshort", "helpfull"):
                    print(self.get_help())
                    raise SystemExit(1)
                if not known_only:
                    raise UnrecognizedFlagError(f"Unknown command line flag '{name}'")
                left.append(arg)
            elif equals:
                flag.set(text)
            elif flag.is_bool:
                flag.set(True)
            elif at == len(args):
                raise Error(f"Missing value for flag {arg}")
            else:
                flag.set(args[at])
                at += 1
        return left

    def get_help(self) -> str:
        """What each flag is for."""
        lines = []
        for name in sorted(self._flags):
            flag = self._flags[name]
            lines.append(f"  --{'[no]' if flag.is_bool else ''}{name}: {flag.help or ''}")
            lines.append(f"    (default: {flag.default!r})")
        return "\n".join(lines)

    def __getattr__(self, name: str) -> Any:
        flags = self.__dict__.get("_flags", {})
        if name not in flags:
            raise AttributeError(name)
        if not self._parsed:
            self(sys.argv, known_only=True)
        return flags[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._flags:
            raise AttributeError(name)
        self._flags[name].value = value
        self._check()

    def __delattr__(self, name: str) -> None:
        if name not in self._flags:
            raise AttributeError(name)
        del self._flags[name]

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __iter__(self) -> Any:
        return iter(sorted(self._flags))

    def __len__(self) -> int:
        return len(self._flags)

    def __getitem__(self, name: str) -> Flag:
        return self._flags[name]  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        return sorted(self._flags)

    def is_parsed(self) -> bool:
        """Whether a command line has been read."""
        return bool(self._parsed)

    def mark_as_parsed(self) -> None:
        """As if a command line had been read."""
        self.__dict__["_parsed"] = True

    def unparse_flags(self) -> None:
        """As if none had been read."""
        self.__dict__["_parsed"] = False

    def flag_values_dict(self) -> dict[str, Any]:
        """Each flag's value."""
        return {name: flag.value for name, flag in self._flags.items()}

    def _parse_flags(self, args: Sequence[str] | None = None) -> None:
        self([sys.argv[0], *args] if args is not None else sys.argv, known_only=True)


FLAGS = FlagValues()


class FlagHolder:
    """What defines a flag gives it: its name, and its value once the command line has been read."""

    def __init__(self, name: str) -> None:
        self.name = name

    value = property(lambda self: getattr(FLAGS, self.name))
    default = property(lambda self: FLAGS[self.name].default)
    present = property(lambda self: bool(FLAGS[self.name].present))


def define(
    name: str, default: Any, doc: str | None, parse: Callable[[Any], Any], is_bool: bool = False, is_multi: bool = False
) -> FlagHolder:
    """A flag of any kind.  Raises DuplicateFlagError for a name that is taken."""
    if name in FLAGS._flags:
        raise DuplicateFlagError(f"The flag '{name}' is defined twice.  Description from first occurrence: {FLAGS[name].help}")
    FLAGS._flags[name] = Flag(name, default, doc, parse, is_bool, is_multi)
    return FlagHolder(name)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise ValueError(("Non-boolean argument to boolean flag", value))
    if isinstance(value, int) and int(value) in (0, 1):
        return bool(value)
    raise TypeError(("Non-boolean argument to boolean flag", value))


def _number(kind: Any) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if isinstance(value, bool):
            raise TypeError(f"Expect argument to be a string or {kind.__name__}, found {type(value)}")
        if isinstance(value, str) and kind is int and value.lower().startswith("0x"):
            return int(value, 16)
        return kind(value)

    return parse


def _list(separator: str | None) -> Callable[[Any], list[str]]:
    def parse(value: Any) -> list[str]:
        if isinstance(value, list):
            return value
        return [item.strip() for item in value.split(separator)] if value else []

    return parse


_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def _with_old_names(define_flag: Callable[..., FlagHolder]) -> Callable[..., FlagHolder]:
    """Takes what TensorFlow called a flag's parameters before it took them from absl, and warns of them."""

    @wraps(define_flag)
    def call(*args: Any, **kwargs: Any) -> FlagHolder:
        if _OLD_NAMES.keys() & kwargs.keys():
            logging.warning(
                "Use of the keyword argument names (flag_name, default_value, docstring) is deprecated, "
                "please use (name, default, help) instead."
            )
        return define_flag(*args, **{_OLD_NAMES.get(key, key): value for key, value in kwargs.items()})

    return call


@_with_old_names
def DEFINE_string(name: str, default: Any, help: str | None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of text."""
    return define(name, default, help, str)


@_with_old_names
def DEFINE_integer(name: str, default: Any, help: str | None, *args: Any, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag that is a whole number."""
    return define(name, default, help, _bounded(_number(int), *args, **_bounds(kwargs)))


@_with_old_names
def DEFINE_float(name: str, default: Any, help: str | None, *args: Any, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag that is a number."""
    return define(name, default, help, _bounded(_number(float), *args, **_bounds(kwargs)))


@_with_old_names
def DEFINE_boolean(name: str, default: Any, help: str | None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag that is set, or with `no` before its name, not."""
    return define(name, default, help, _boolean, is_bool=True)


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(name: str, default: Any, enum_values: Sequence[str], help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag that has one of some values."""

    def parse(value: Any) -> str:
        if value not in enum_values:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")
        return str(value)

    return define(name, default, help, parse)


def DEFINE_list(name: str, default: Any, help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of texts between commas."""
    return define(name, default, help, _list(","))


def DEFINE_spaceseplist(name: str, default: Any, help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of texts between spaces."""
    return define(name, default, help, _list(None))


def DEFINE_multi_string(name: str, default: Any, help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of text that may be given several times."""
    return define(name, default, help, str, is_multi=True)


def DEFINE_multi_integer(name: str, default: Any, help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of whole numbers that may be given several times."""
    return define(name, default, help, _number(int), is_multi=True)


def DEFINE_multi_float(name: str, default: Any, help: str | None = None, **kwargs: Any) -> FlagHolder:  # noqa: N802
    """A flag of numbers that may be given several times."""
    return define(name, default, help, _number(float), is_multi=True)


def _bounds(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: kwargs[name] for name in ("lower_bound", "upper_bound") if name in kwargs}


def _bounded(parse: Callable[[Any], Any], lower_bound: Any = None, upper_bound: Any = None) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        found = parse(value)
        if (lower_bound is not None and found < lower_bound) or (upper_bound is not None and found > upper_bound):
            raise ValueError(f"{found} is not in the range [{lower_bound}, {upper_bound}]")
        return found

    return read


def mark_flag_as_required(flag_name: str, flag_values: Any = None) -> None:
    """A flag that must be given."""
    FLAGS[flag_name].validators.append(
        (lambda value: value is not None, f"Flag --{flag_name} must have a value other than None.")
    )


def mark_flags_as_required(flag_names: Sequence[str], flag_values: Any = None) -> None:
    """Flags that must be given."""
    for name in flag_names:
        mark_flag_as_required(name)


def register_validator(
    flag_name: str, checker: Callable[[Any], bool], message: str = "Flag validation failed", flag_values: Any = None
) -> None:
    """What a flag's value must fulfil."""
    FLAGS[flag_name].validators.append((checker, message))


def run(main: Any = None, argv: Sequence[str] | None = None) -> None:
    """`tf.app.run`: reads the command line, of which unknown flags are left to `main`, and ends with what that gives."""
    main = main or sys.modules["__main__"].main
    try:
        left = FLAGS(sys.argv if argv is None else argv, known_only=True)
    except Error as error:
        sys.stderr.write(f"FATAL Flags parsing error: {error}\nPass --helpshort or --helpfull to see help on flags.\n")
        raise SystemExit(1) from None
    sys.exit(main(left))
