"""Conversion between the source of an op table (text in the notation of `notation.py`) and its facts as JSON values.

The first line is `tensorflow 2.21.0`. A paragraph for each op follows, sorted by name. A line that begins with `#` is a
comment. Lines of a paragraph may be in any order, except among attrs and among kernels:

| line | meaning |
|---|---|
| `Name(a: T, b: N * float) -> (c: Ref(T))` | inputs and outputs: an element type, or the attr with the type or types |
| `flags stateful, commutative` | words of `notation.FLAGS` |
| `deprecated 13` | the first version of GraphDef in which no graph may contain the op |
| `attr N: int >= 1 = 2` | type, minimum and default of an attr; `{"a", "b"}` or `{float, half}`: allowed values |
| `kernel GPU: T in {float}; host a; priority 1; label "x"` | a registration, in TensorFlow's order |
| `source "cast_op.cc:110"` | the line that TensorFlow's log names if the kernel cannot allocate its outputs |
| `source temporary "multinomial_op.cc:100"` | the same for a temporary tensor |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from placesim.core.dtypes import DTYPES
from placesim.core.errors import GraphFileError
from placesim.ops.attributes import as_float32
from placesim.ops.notation import FLAGS, SOURCES, format_op
from placesim.ops.registry import Registry
from placesim.ops.source_tokens import SourceLine, SourceProblems, paragraphs

Facts = dict[str, Any]
_ATTR_TYPES = ("string", "int", "float", "bool", "type", "shape", "tensor", "func")
_KEYWORDS = ("flags", "deprecated", "attr", "kernel", "source")


class SourceFacts(NamedTuple):
    """The release, and each op's definition and kernels in the form of the compiled table."""

    release: str
    ops: dict[str, Facts]
    kernels: dict[str, list[Facts]]


def format_source(registry: Registry) -> str:
    """Return a whole registry in the notation."""
    ops = filter(None, map(registry.op, sorted(registry.op_names)))
    return "\n".join((f"tensorflow {registry.release}\n", *(format_op(op, registry.kernels(op.name)) for op in ops)))


def read_source(text: str, file: str) -> SourceFacts:
    """Return the facts of a source. Raises GraphFileError with all problems and their locations."""
    problems = SourceProblems()
    head, *groups = list(paragraphs(text, file)) or [[SourceLine(file, 1, "")]]
    found = SourceFacts(problems.attempt(_read_release, head) or "", {}, {})
    previous = ""
    for lines in groups:
        name = problems.attempt(_read_name, lines[0], previous)
        if name is not None:
            found.ops[name], found.kernels[name] = _read_op(lines, problems)
        previous = name or previous
    if problems:
        raise GraphFileError(tuple(sorted(problems, key=lambda problem: problem.location)))
    return found


def _read_release(lines: list[SourceLine]) -> str:
    found = re.fullmatch(r"tensorflow ([0-9]+(?:\.[0-9]+)+)", lines[0].text)
    if found is None or len(lines) > 1:
        line = lines[0] if found is None else lines[1]
        raise line.wrong(f"got '{line.text.strip()}', expected a first line such as 'tensorflow 2.21.0', and then ops")
    return found[1]


def _read_name(line: SourceLine, previous: str) -> str:
    if line.text[0].isspace():
        raise line.unexpected("an op's name at the beginning of the line")
    token = line.take("name", "an op's name")
    if token.text == previous:
        raise line.wrong(f"the op '{token.text}' is there twice", token)
    if token.text < previous:
        raise line.wrong(f"got '{token.text}' after '{previous}', expected ops sorted by name", token)
    return token.text


def _read_op(lines: list[SourceLine], problems: SourceProblems) -> tuple[Facts, list[Facts]]:
    """Return an op's definition and kernels. Lines that depend on a line with a problem are not read."""
    signature, *rest = lines
    keyed = [(problems.attempt(_read_keyword, line), line) for line in rest]
    attrs: dict[str, Facts] = {}
    flags: Facts = {}
    count = len(problems)
    for keyword, line in keyed:
        if keyword == "attr":
            problems.attempt(_read_attr, line, attrs)
        elif keyword in _FLAG_READERS:
            problems.attempt(_FLAG_READERS[keyword], line, flags)
    if len(problems) > count:
        return {}, []
    found = problems.attempt(_read_signature, signature, attrs)
    if found is None:
        return {}, []
    inputs, outputs = found
    arguments = [arg["name"] for arg in (*inputs, *outputs)]
    kernels = [problems.attempt(_read_kernel, line, arguments) for keyword, line in keyed if keyword == "kernel"]
    definition = {"inputs": inputs, "outputs": outputs, "attrs": list(attrs.values())}
    definition |= _ordered(flags, (*FLAGS.values(), "deprecated_at", *SOURCES.values()))
    return definition, [kernel for kernel in kernels if kernel]


def _ordered(facts: Facts, order: Iterable[str]) -> Facts:
    """Return the facts in the table's order."""
    return {key: facts[key] for key in order if key in facts}


def _read_keyword(line: SourceLine) -> str:
    if line.token.text not in _KEYWORDS:
        raise line.unexpected(f"one of {', '.join(_KEYWORDS)}")
    return line.advance().text


# --- the signature --------------------------------------------------------------------------------------------------


def _read_signature(line: SourceLine, attrs: Mapping[str, Facts]) -> tuple[list[Facts], list[Facts]]:
    inputs = line.listed("(", ")", lambda: _read_arg(line, attrs))
    line.expect("->")
    outputs = line.listed("(", ")", lambda: _read_arg(line, attrs))
    line.take_end()
    return inputs, outputs


def _read_arg(line: SourceLine, attrs: Mapping[str, Facts]) -> Facts:
    name = line.take("name", "an argument's name").text
    line.expect(":")
    is_ref = line.skip("Ref")
    if is_ref:
        line.expect("(")
    found = {"name": name} | _read_arg_type(line, attrs)
    if is_ref:
        line.expect(")")
    return found | ({"is_ref": True} if is_ref else {})


def _read_arg_type(line: SourceLine, attrs: Mapping[str, Facts]) -> Facts:
    token = line.take("name", "a type")
    if line.skip("*"):
        if attrs.get(token.text, {}).get("type") != "int":
            raise line.wrong(f"got '{token.text} *', expected an attr of type int before the '*'", token)
        return _read_arg_type(line, attrs) | {"number_attr": token.text}
    if token.text in DTYPES:
        return {"type": token.text}
    attr_type = attrs.get(token.text, {}).get("type")
    if attr_type not in ("type", "list(type)"):
        raise line.wrong(f"got '{token.text}', expected an element type, or an attr of type type or list(type)", token)
    return {"type_attr" if attr_type == "type" else "type_list_attr": token.text}


# --- flags and attrs ------------------------------------------------------------------------------------------------


def _read_flags(line: SourceLine, flags: Facts) -> None:
    for token in line.separated(",", lambda: line.take("name", "a flag")):
        if token.text not in FLAGS:
            raise line.wrong(f"got '{token.text}', expected one of {', '.join(FLAGS)}", token)
        flags[FLAGS[token.text]] = True
    line.take_end()


def _read_deprecated(line: SourceLine, flags: Facts) -> None:
    flags["deprecated_at"] = _read_int(line)
    line.take_end()


def _read_source_line(line: SourceLine, flags: Facts) -> None:
    field = SOURCES["temporary" if line.skip("temporary") else ""]
    flags[field] = _read_string(line)
    line.take_end()


_FLAG_READERS = {"flags": _read_flags, "deprecated": _read_deprecated, "source": _read_source_line}


def _read_attr(line: SourceLine, attrs: dict[str, Facts]) -> None:
    token = line.take("name", "an attr's name")
    line.expect(":")
    attr_type, allowed = _read_attr_type(line)
    minimum = {"minimum": _read_int(line)} if line.skip(">=") else {}
    default = {"default": _read_value(line, attr_type)} if line.skip("=") else {}
    line.take_end()
    if token.text in attrs:
        raise line.wrong(f"the attr '{token.text}' is there twice", token)
    attrs[token.text] = {"name": token.text, "type": attr_type} | default | allowed | minimum


def _read_attr_type(line: SourceLine) -> tuple[str, Facts]:
    """Return the type of an attr, and its `allowed` values if the line has a set of values in place of a type."""
    if line.skip("list"):
        line.expect("(")
        element, allowed = _read_attr_type(line)
        line.expect(")")
        return f"list({element})", allowed
    if line.token.text == "{":
        allowed_values = _read_set(line)
        return ("string" if "s" in allowed_values[0] else "type"), {"allowed": allowed_values}
    if line.token.text not in _ATTR_TYPES:
        raise line.unexpected(f"a set of values, or one of {', '.join(_ATTR_TYPES)}")
    return line.advance().text, {}


def _read_set(line: SourceLine) -> list[Facts]:
    """Return a set of values, which must be all types or all strings, as in TensorFlow."""
    token = line.token
    values = line.listed("{", "}", lambda: _read_value(line, "string" if line.token.kind == "string" else "type"))
    if len({value.keys() == {"s"} for value in values}) != 1:
        raise line.wrong("expected types, or strings, in '{}'", token)
    return values


def _read_value(line: SourceLine, attr_type: str) -> Any:
    """Return a value in the table's JSON."""
    if attr_type.startswith("list("):
        return {"list": line.listed("[", "]", lambda: _read_value(line, attr_type[len("list(") : -1]))}
    return _READERS[attr_type](line)


def _read_int(line: SourceLine) -> int:
    token = line.take("number", "an integer")
    if not token.text.lstrip("-").isdigit():
        raise line.wrong(f"got {token.text}, expected an integer", token)
    return int(token.text)


def _read_float(line: SourceLine) -> float:
    return as_float32(float(line.take("number", "a number").text))


def _read_bool(line: SourceLine) -> bool:
    if line.token.text not in ("true", "false"):
        raise line.unexpected("true or false")
    return line.advance().text == "true"


def _read_string(line: SourceLine) -> str:
    token = line.take("string", "a string in quotes")
    try:
        return str(json.loads(token.text))
    except ValueError:
        raise line.wrong(f"got {token.text}, expected a string with JSON's escapes", token) from None


def _read_type(line: SourceLine) -> str:
    if line.token.text not in DTYPES:
        raise line.unexpected("an element type")
    return line.advance().text


def _read_dims(line: SourceLine) -> list[int] | None:
    return None if line.skip("?") else line.listed("[", "]", lambda: -1 if line.skip("?") else _read_int(line))


def _read_tensor(line: SourceLine) -> Any:
    """Return a tensor: `tensor(int32, [4])` is zero, `tensor(uint8, [2], [255, 0])` has these values.

    A tensor in a list is a string, as TensorFlow prints it.
    """
    if line.token.kind == "string":
        return _read_string(line)
    line.expect("tensor")
    line.expect("(")
    dtype = _read_type(line)
    line.expect(",")
    dims = _read_dims(line)
    values = line.listed("[", "]", lambda: _read_int(line)) if line.skip(",") else []
    line.expect(")")
    return {"tensor": dtype, "shape": dims} | ({"values": values} if values else {})


def _read_function(line: SourceLine) -> Facts:
    line.expect("func")
    line.expect("(")
    name = _read_string(line)
    line.expect(")")
    return {"func": name}


_READERS = {
    "string": lambda line: {"s": _read_string(line)},
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "type": lambda line: {"type": _read_type(line)},
    "shape": lambda line: {"shape": _read_dims(line)},
    "tensor": _read_tensor,
    "func": _read_function,
}


# --- kernels --------------------------------------------------------------------------------------------------------


def _read_kernel(line: SourceLine, arguments: list[str]) -> Facts:
    """Return a registration. It may constrain attrs that the op lacks, as TensorFlow's registrations of `TopK` do."""
    device_type = line.take("name", "a device type").text
    parts: Facts = {}
    if line.skip(":"):
        for _ in line.separated(";", lambda: _read_kernel_part(line, arguments, parts)):
            pass
    line.take_end()
    return {"device": device_type} | _ordered(parts, ("constraint", "host_memory", "priority", "label"))


def _read_kernel_part(line: SourceLine, arguments: list[str], parts: Facts) -> None:
    token = line.take("name", "ATTR in {...}, host, priority or label")
    if line.skip("in"):
        parts.setdefault("constraint", {})[token.text] = _read_allowed(line)
    elif token.text == "host":
        parts["host_memory"] = list(line.separated(",", lambda: _read_host_arg(line, arguments)))
    elif token.text == "priority":
        parts["priority"] = _read_int(line)
    elif token.text == "label":
        parts["label"] = _read_string(line)
    else:
        raise line.wrong(f"got '{token.text}', expected ATTR in {{...}}, host, priority or label", token)


def _read_host_arg(line: SourceLine, arguments: list[str]) -> str:
    token = line.take("name", "an argument's name")
    if token.text not in arguments:
        raise line.wrong(f"got '{token.text}', expected an argument of the op", token)
    return token.text


def _read_allowed(line: SourceLine) -> Any:
    """Return the names of types as a list, or other values as `{"list": values}`."""
    start = line.token
    values = line.listed("{", "}", lambda: _read_allowed_value(line))
    if not values:
        raise line.wrong("got '{}', expected at least one value", start)
    names = [value["type"] for value in values if isinstance(value, dict) and "type" in value]
    return names if len(names) == len(values) else {"list": values}


def _read_allowed_value(line: SourceLine) -> Any:
    kinds = {"string": "string", "number": "int"}
    is_bool = line.token.text in ("true", "false")
    return _read_value(line, "bool" if is_bool else kinds.get(line.token.kind, "type"))
