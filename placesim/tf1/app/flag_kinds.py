"""Further kinds of flags, and what several flags must fulfil together."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placesim.tf1.app.flags import FLAGS, FlagHolder, FlagValues, define


class ArgumentParser:
    """How a text becomes a flag's value; users give their own.  Raises ValueError for what it can't read."""

    syntactic_help = ""

    def parse(self, argument: Any) -> Any:
        """The value of a text, or of a value of the flag's type."""
        return argument

    def flag_type(self) -> str:
        """What a value is called."""
        return "string"


class _Number(ArgumentParser):
    """A number between two bounds."""

    kind: type = float

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def parse(self, argument: Any) -> Any:
        value = int(argument, 0) if self.kind is int and isinstance(argument, str) else self.kind(argument)
        low, high = self.lower_bound, self.upper_bound
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(f"{value} is not in the range [{low}, {high}]")
        return value

    def flag_type(self) -> str:
        return self.kind.__name__


class FloatParser(_Number):
    """A number."""


class IntegerParser(_Number):
    """A whole number."""

    kind = int


class BooleanParser(ArgumentParser):
    """True or false."""

    def parse(self, argument: Any) -> bool:
        words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
        found = words.get(str(argument).lower())
        if found is None:
            raise ValueError("Non-boolean argument to boolean flag", argument)
        return found

    def flag_type(self) -> str:
        return "bool"


class EnumParser(ArgumentParser):
    """One of some texts."""

    def __init__(self, enum_values: Sequence[str], case_sensitive: bool = True) -> None:
        if not enum_values:
            raise ValueError(f"enum_values cannot be empty, found {enum_values!r}")
        self.enum_values, self.case_sensitive = list(enum_values), case_sensitive

    def parse(self, argument: Any) -> str:
        for value in self.enum_values:
            if value == argument or (not self.case_sensitive and value.lower() == str(argument).lower()):
                return value
        raise ValueError(f"value should be one of <{'|'.join(self.enum_values)}>")


class EnumClassParser(ArgumentParser):
    """A member of an enum, by its name."""

    def __init__(self, enum_class: type[enum.Enum], case_sensitive: bool = True) -> None:
        if not (isinstance(enum_class, type) and issubclass(enum_class, enum.Enum)):
            raise TypeError(f"{enum_class} is not a subclass of Enum.")
        self.enum_class, self.case_sensitive = enum_class, case_sensitive

    def parse(self, argument: Any) -> enum.Enum:
        if isinstance(argument, self.enum_class):
            return argument
        for name, member in self.enum_class.__members__.items():
            if name == argument or (not self.case_sensitive and name.lower() == str(argument).lower()):
                return member
        raise ValueError(f"value should be one of <{'|'.join(self.enum_class.__members__)}>")


class _SeparatedListParser(ArgumentParser):
    """Texts in one."""

    separator: str | None = ","

    def parse(self, argument: Any) -> list[str]:
        if isinstance(argument, list):
            return argument
        return [item.strip() for item in argument.split(self.separator)] if argument else []


class ListParser(_SeparatedListParser):
    """Texts between commas."""


class WhitespaceSeparatedListParser(_SeparatedListParser):
    """Texts between spaces."""

    separator = None

    def __init__(self, comma_compat: bool = False) -> None:
        self.comma_compat = comma_compat

    def parse(self, argument: Any) -> list[str]:
        return super().parse(argument.replace(",", " ") if self.comma_compat and isinstance(argument, str) else argument)


# The functions' names are absl's.


def DEFINE(parser: ArgumentParser, name: str, default: Any, help: str | None, *_: Any, **__: Any) -> FlagHolder:  # noqa: N802
    """A flag that a parser reads."""
    return define(name, default, help, parser.parse, is_bool=isinstance(parser, BooleanParser))


def DEFINE_multi(  # noqa: N802
    parser: ArgumentParser, serializer: Any, name: str, default: Any, help: str | None, *_: Any, **__: Any
) -> FlagHolder:
    """A flag that a parser reads, and that may be given several times."""
    return define(name, default, help, parser.parse, is_multi=True)


def DEFINE_enum_class(  # noqa: N802
    name: str,
    default: Any,
    enum_class: type[enum.Enum],
    help: str | None = None,
    *_: Any,
    case_sensitive: bool = False,
    **__: Any,
) -> FlagHolder:
    """A flag that is a member of an enum."""
    return define(name, default, help, EnumClassParser(enum_class, case_sensitive).parse)


def DEFINE_multi_enum(  # noqa: N802
    name: str,
    default: Any,
    enum_values: Sequence[str],
    help: str | None = None,
    *_: Any,
    case_sensitive: bool = True,
    **__: Any,
) -> FlagHolder:
    """A flag that has some of some values."""
    return define(name, default, help, EnumParser(enum_values, case_sensitive).parse, is_multi=True)


def DEFINE_multi_enum_class(  # noqa: N802
    name: str,
    default: Any,
    enum_class: type[enum.Enum],
    help: str | None = None,
    *_: Any,
    case_sensitive: bool = False,
    **__: Any,
) -> FlagHolder:
    """A flag that is some members of an enum."""
    return define(name, default, help, EnumClassParser(enum_class, case_sensitive).parse, is_multi=True)


def DEFINE_alias(name: str, original_name: str, *_: Any, **__: Any) -> FlagHolder:  # noqa: N802
    """A further name of a flag."""
    FLAGS._flags[name] = FLAGS[original_name]
    return FlagHolder(name)


# --- what several flags must fulfil, and their values ---


def register_multi_flags_validator(
    flag_names: Sequence[str],
    multi_flags_checker: Callable[[Mapping[str, Any]], bool],
    message: str = "Flags validation failed",
    flag_values: FlagValues = FLAGS,
) -> None:
    """What the values of several flags, by name, must fulfil.  Raises AttributeError for a flag that is not there."""
    for name in flag_names:
        if name not in flag_values:
            raise AttributeError(name)
    flag_values._validators.append((tuple(flag_names), multi_flags_checker, message))


def multi_flags_validator(
    flag_names: Sequence[str], message: str = "Flag validation failed", flag_values: FlagValues = FLAGS
) -> Callable[..., Any]:
    """For a decorator: the function says whether the values of several flags are right."""

    def decorate(function: Callable[[Mapping[str, Any]], bool]) -> Callable[[Mapping[str, Any]], bool]:
        register_multi_flags_validator(flag_names, function, message, flag_values)
        return function

    return decorate


def validator(flag_name: str, message: str = "Flag validation failed", flag_values: FlagValues = FLAGS) -> Callable[..., Any]:
    """For a decorator: the function says whether a flag's value is right."""

    def decorate(function: Callable[[Any], bool]) -> Callable[[Any], bool]:
        flag_values[flag_name].validators.append((function, message))
        return function

    return decorate


def mark_flags_as_mutual_exclusive(flag_names: Sequence[str], required: bool = False, flag_values: FlagValues = FLAGS) -> None:
    """Flags of which at most one may have a value, or with `required` exactly one must."""
    _exclude(flag_names, required, flag_values, lambda value: value is not None, "have a value other than None")


def mark_bool_flags_as_mutual_exclusive(
    flag_names: Sequence[str], required: bool = False, flag_values: FlagValues = FLAGS
) -> None:
    """Flags of which at most one may be true, or with `required` exactly one must."""
    _exclude(flag_names, required, flag_values, bool, "be True")


def _exclude(names: Sequence[str], required: bool, flags: FlagValues, counts: Callable[[Any], bool], what: str) -> None:
    def holds(values: Mapping[str, Any]) -> bool:
        found = sum(counts(value) for value in values.values())
        return found == 1 if required else found <= 1

    wanted = "Exactly" if required else "At most"
    register_multi_flags_validator(names, holds, f"{wanted} one of ({', '.join(names)}) must {what}.", flags)


def set_default(flag_holder: FlagHolder, value: Any) -> None:
    """Another default of a flag."""
    flag = FLAGS[flag_holder.name]
    flag.default = flag.read(value)
    if not flag.present:
        flag.value = flag.default


def override_value(flag_holder: FlagHolder, value: Any) -> None:
    """Another value of a flag."""
    FLAGS[flag_holder.name].value = FLAGS[flag_holder.name].read(value)


def adopt_module_key_flags(module: Any, flag_values: FlagValues = FLAGS) -> None:
    """The help is of all modules' flags anyway."""


def declare_key_flag(flag_name: str, flag_values: FlagValues = FLAGS) -> None:
    """The help is of all modules' flags anyway."""


def disclaim_key_flags() -> None:
    """The help is of all modules' flags anyway."""


def flag_dict_to_args(flag_map: Mapping[str, Any], multi_flags: Any = None) -> Any:
    """A command line's words for flags and their values."""
    for key, value in flag_map.items():
        if value is None:
            yield f"--{key}"
        elif isinstance(value, bool):
            yield f"--{key}" if value else f"--no{key}"
        elif isinstance(value, (str, bytes)):
            yield f"--{key}={value!s}"
        else:
            try:
                items = [str(item) for item in value]
            except TypeError:
                items = [str(value)]
            yield from [f"--{key}={item}" for item in items] if key in (multi_flags or ()) else [f"--{key}={','.join(items)}"]


def get_help_width() -> int:
    """How wide a help text is."""
    return 80


def text_wrap(text: str, length: int | None = None, indent: str = "", firstline_indent: str | None = None) -> str:
    """A text in lines that are not too long."""
    first = indent if firstline_indent is None else firstline_indent
    width = length or get_help_width()
    return "\n".join(textwrap.fill(line, width, initial_indent=first, subsequent_indent=indent) for line in text.splitlines())


def doc_to_help(doc: str) -> str:
    """A docstring as a help text."""
    return textwrap.dedent(doc.strip())
