"""Reader of policies: YAML with the rules that a placement must satisfy.

    rules:
      - no-soft-fallback
      - max-transfers: 10
      - max-transfer-bytes: {bytes: 4MiB, from: GPU:0, to: CPU:0}
      - on-device: {ops: [MatMul, Conv2D], device: /gpu:*}
      - balance: {of: operations, within: 20%}

A rule without parameters is written as its name. A single value after the name is the first parameter of the rule. A mapping
after the name has parameters by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placesim.core.errors import GraphBuildError, GraphFileError, UsageError
from placesim.core.files.containment import is_inside
from placesim.core.files.reader import read_file
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.parsing.yaml_tree import FIRST_POSITION, decode_utf8, read_tree
from placesim.formats.graph_file.plain_values import int_value, number_value, seconds_value, size_value, text_value
from placesim.formats.json_schema import (
    DIALECT,
    TEXT,
    Schema,
    accepted_schema,
    closed_schema,
    list_schema,
    mapping_schema,
    one_of_words,
    union_schema,
)
from placesim.formats.problems import FileProblems, InvalidValue, key_position, own_position, spell, value_position
from placesim.inspection.checking.rule import PolicyRule, RuleParameter
from placesim.inspection.checking.rules import RULES, RuleUse
from placesim.inspection.written_placement import read_baseline
from placesim.machine.device_names import parse_python_spec, parse_runtime_name

if TYPE_CHECKING:
    from placesim.inspection.snapshot import Snapshot

POLICY_KEYS = ("description", "rules")
_MAX = 1 << 62
_RULE_NAME = re.compile(r"[a-z][a-z-]*")
MEASURES = ("nodes", "bytes", "operations")
ENDS = ("middle", "high")


def read_policy(data: bytes, name: str) -> tuple[RuleUse, ...]:
    """Read the rules of a policy file. Raises GraphFileError with all its problems."""
    directory = Path(name).parent
    return policy_from_tree(read_tree(decode_utf8(data, name), name), name, partial(_read_own_report, directory=directory))


def policy_from_tree(tree: Any, name: str = "<policy>", read_report: Callable[[str], Any] | None = None) -> tuple[RuleUse, ...]:
    """Return the rules of a policy given as a tree, which may be a Python mapping. Raises the errors of `read_policy`."""
    problems = FileProblems(name)
    root = problems.mapping({} if tree is None else tree, own_position(tree) or FIRST_POSITION, "a policy")
    problems.unknown_keys(root, POLICY_KEYS, "a policy")
    if not problems and "rules" not in root:
        problems.add(own_position(root) or FIRST_POSITION, "no rules: got no key 'rules', expected a list of rules")
    if not isinstance(root.get("description", ""), str):
        problems.add(value_position(root, "description"), f"wrong type of 'description': got {spell(root['description'])}")
    entries = problems.sequence_at(root, "rules") if "rules" in root else []
    reader = _RuleReader(problems, read_report or _read_report)
    uses = [reader.read(entry, value_position(entries, index)) for index, entry in enumerate(entries)]
    problems.raise_if_any()
    return tuple(use for use in uses if use is not None)


def read_rule(text: str) -> RuleUse:
    """Parse a rule of the command line: an entry of `rules`, or `NAME=VALUE`.  Raises UsageError."""
    problems = FileProblems("--rule")
    try:
        use = _RuleReader(problems, _read_report).read(_rule_tree(text), FIRST_POSITION)
        problems.raise_if_any()
    except GraphFileError as error:
        raise UsageError("; ".join(problem.message for problem in error.problems) + f" (in --rule '{text}')") from None
    assert use is not None, "a parsed rule has no problems"
    return use._replace(location=None)


def reports_of_rule(text: str) -> list[str]:
    """Return the paths of the reports that a rule of the command line names. Raises UsageError for an invalid rule."""
    found: list[str] = []
    try:
        _RuleReader(FileProblems("--rule"), found.append).read(_rule_tree(text), FIRST_POSITION)
    except GraphFileError as error:
        raise UsageError(error.message) from None
    return found


def _rule_tree(text: str) -> Any:
    name, equals, value = text.partition("=")
    return read_tree(f"{name}: {value}" if equals and _RULE_NAME.fullmatch(name) else text, "--rule")


def _read_own_report(path: str, directory: Path) -> Snapshot:
    """Read a report that a policy names.

    The policy may be untrusted, so the report must be below its folder or the current folder.
    """
    found = directory / path
    if not any(is_inside(found, folder) for folder in (directory, Path())):
        expected = "expected a report in the folder of the policy, or in the current one; `--rule baseline=FILE` names any"
        raise InvalidValue(f"not allowed to read the report: got {found}, {expected}")
    return _read_report(found)


def _read_report(path: str | Path) -> Snapshot:
    try:
        found = read_baseline(read_file(path), str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidValue(f"cannot read the report: got '{reason}' for {path}, expected a readable file") from None
    except GraphFileError as error:
        raise InvalidValue(error.message) from None
    if found is None:
        raise InvalidValue(f"not a report: got {path}, expected a report from `placesim place --format json`")
    return found


class _RuleReader:
    """A reader of the entries of `rules`, which reports problems. `read_report` reads the report at a path."""

    def __init__(self, problems: FileProblems, read_report: Callable[[str], Any]) -> None:
        self._problems = problems
        self._read_report = read_report

    def read(self, entry: Any, position: int) -> RuleUse | None:
        """Parse one entry; None if it is invalid."""
        if isinstance(entry, dict) and len(entry) == 1:
            ((name, told),) = entry.items()
            place = value_position(entry, name) or position
            position = key_position(entry, name) or position
        elif isinstance(entry, str):
            name, told, place = entry, None, position
        else:
            self._problems.add(
                position, f"wrong rule: got {spell(entry)}, expected a rule name, or a mapping with the name as its only key"
            )
            return None
        rule = RULES.get(name) if isinstance(name, str) else None
        if rule is None:
            near = did_you_mean(name, RULES) or "; `placesim check --rules` lists them"
            self._problems.add(position, f"unknown rule: got {spell(name)}, expected one of the rules{near}")
            return None
        values = self._values(rule, told, place)
        return RuleUse(rule, values, self._problems.location(position))

    def _values(self, rule: PolicyRule, told: Any, position: int) -> dict[str, Any]:
        values = {parameter.name: parameter.default for parameter in rule.parameters}
        given = self._given(rule, told)
        self._problems.unknown_keys(given, list(values), f"rule '{rule.name}'")
        for parameter in rule.parameters:
            if parameter.name in given:
                place = value_position(given, parameter.name) or position
                self._read(rule, parameter, given[parameter.name], place, values)
            elif parameter.required:
                message = f"rule '{rule.name}' needs the parameter '{parameter.name}': {parameter.help}"
                self._problems.add(position, message)
        return values

    @staticmethod
    def _given(rule: PolicyRule, told: Any) -> dict[str, Any]:
        """Return the parameters of a rule by name; a value that is not a mapping is the first parameter."""
        if told is None or told is True:
            return {}
        if isinstance(told, dict):
            return told
        return {rule.parameters[0].name: told}

    def _read(self, rule: PolicyRule, parameter: RuleParameter, value: Any, position: int, values: dict[str, Any]) -> None:
        try:
            if parameter.kind == "report":
                values[parameter.name] = self._read_report(text_value(value, "a report's path"))
            else:
                values[parameter.name] = READERS[parameter.kind](value, f"'{parameter.name}' of rule '{rule.name}'")
        except InvalidValue as wrong:
            self._problems.add(position, str(wrong))


# --- what rules are told --------------------------------------------------------------------------------------------


def _bytes(value: Any, what: str) -> int:
    return 0 if type(value) is int and value == 0 else size_value(value)


def _device(value: Any, what: str) -> Any:
    text = text_value(value, what)
    spec = parse_runtime_name(text)
    try:
        spec = parse_python_spec(text) if spec is None else spec
    except GraphBuildError:
        raise InvalidValue(
            f"wrong device in {what}: got '{text}', expected one such as GPU:0, /gpu:* or /job:ps/task:0"
        ) from None
    if not spec.has_details:
        raise InvalidValue(f"no device in {what}: got '{text}', expected one such as GPU:0, /gpu:* or /job:ps/task:0")
    return spec


def _words(value: Any, what: str) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(text_value(word, f"an entry of {what}") for word in listed)


def _fraction(value: Any, what: str) -> float:
    text = value.strip() if isinstance(value, str) else ""
    percent = text[:-1].strip() if text.endswith("%") else ""
    if percent.replace(".", "", 1).isdecimal():
        return float(percent) / 100
    number = number_value(value, what)
    if not 0 <= number < float("inf"):
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected a share such as 0.1 or 10%")
    return number


def _one_of(value: Any, what: str, noun: str, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidValue(
            f"unknown {noun} in {what}: got {spell(value)}, expected {', '.join(words)}{did_you_mean(value, words)}"
        )
    return str(value)


READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "count": lambda value, what: int_value(value, 0, _MAX, what),
    "bytes": _bytes,
    "device": _device,
    "patterns": _words,
    "words": _words,
    "device type": text_value,
    "measure": partial(_one_of, noun="measure", words=MEASURES),
    "seconds": lambda value, what: seconds_value(value),
    "end": partial(_one_of, noun="end of the interval", words=ENDS),
    "fraction": _fraction,
}


def describe_rules() -> str:
    """Describe every rule and its parameters, for `check --rules`."""
    return "\n".join(map(_described, RULES.values()))


def _described(rule: PolicyRule) -> str:
    lines = [rule.name, f"    {rule.help}" + (" Needs the graph." if rule.needs_graph else "")]
    for parameter in rule.parameters:
        default = _default(parameter)
        need = "; required" if parameter.required else f"; default {default}" if default else ""
        lines.append(f"    {parameter.name:<9}{parameter.help}{need}")
    return "\n".join(lines) + "\n"


def _default(parameter: RuleParameter) -> str:
    """Return a parameter's default as text; empty for a parameter without a default."""
    value = parameter.default
    return "" if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)


# --- for editors ----------------------------------------------------------------------------------------------------

_WORDS: Mapping[str, Sequence[str]] = {"measure": MEASURES, "end": ENDS}


def policy_schema() -> Schema:
    """Return the JSON Schema of a policy, generated from the rules and their readers."""
    alone = [rule.name for rule in RULES.values() if not any(parameter.required for parameter in rule.parameters)]
    told = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False}
    entry = union_schema({"enum": alone}, {**told, "properties": {rule.name: _rule_schema(rule) for rule in RULES.values()}})
    known = {"description": TEXT, "rules": list_schema(entry)}
    return {"$schema": DIALECT, "title": "A policy of placesim", **mapping_schema(POLICY_KEYS, known, ["rules"])}


def _rule_schema(rule: PolicyRule) -> Schema:
    """Return the schema of a rule's parameters: a mapping, the first parameter alone, or nothing if none is required."""
    parameters = {parameter.name: _parameter_schema(parameter) for parameter in rule.parameters}
    required = [parameter.name for parameter in rule.parameters if parameter.required]
    forms = [closed_schema(parameters, required)]
    if rule.parameters and required in ([], [rule.parameters[0].name]):
        forms.append(parameters[rule.parameters[0].name])
    if not required:
        forms.append({"enum": [None, True]})
    return union_schema(*forms) | {"description": rule.help}


def _parameter_schema(parameter: RuleParameter) -> Schema:
    kind = parameter.kind
    if kind == "report":
        found = dict(TEXT)
    elif kind in _WORDS:
        found = one_of_words(_WORDS[kind])
    else:
        found = accepted_schema(lambda value: READERS[kind](value, kind))
    return found | {"description": parameter.help}
