"""Strings matched against RE2 patterns, and rewritten."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.dimensions import shape_text
from placesim.runtime.kernels.kernel import Kernel, Table, Tensor
from placesim.runtime.kernels.string.regular_expressions import PatternError, compile_pattern
from placesim.runtime.kernels.string_tensors import flat_strings, map_strings, raw
from placesim.runtime.shapes import unchanged, unchanged_with_scalars

Match = re.Match[str]


def _pattern(text: bytes) -> re.Pattern[str]:
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise InvalidArgumentError(f"Invalid pattern: {text.decode(errors='replace')}, error: {error}") from None


def _scalar(name: str, tensor: Any) -> bytes:
    if np.ndim(tensor):
        raise InvalidArgumentError(f"{name} must be scalar, but received {shape_text(tensor)}")
    return flat_strings(tensor)[0]


def _text(data: bytes) -> str:
    # bytes that are no UTF-8 come back as they were
    return data.decode(errors="surrogateescape")


# --- rewriting ------------------------------------------------------------------------------------------------------


def _needed_groups(rewrite: str) -> int:
    """The highest group that a rewrite names."""
    return max((int(digit) for digit in re.findall(r"\\([0-9])", rewrite.replace("\\\\", ""))), default=0)


def _expand(rewrite: str, match: Match) -> tuple[str, bool]:
    r"""The rewrite with `\0` to `\9` and `\\` replaced; False where it ends at another escape."""
    text, at = "", 0
    while at < len(rewrite):
        if rewrite[at] != "\\":
            text += rewrite[at]
            at += 1
            continue
        following = rewrite[at + 1 : at + 2]
        if following.isascii() and following.isdigit():
            text += match[int(following)] or ""
        elif following == "\\":
            text += "\\"
        else:
            return text, False
        at += 2
    return text, True


def replace_first(pattern: re.Pattern[str], rewrite: str, text: str) -> str:
    """The text with its first match rewritten, unchanged where the rewrite is not valid."""
    match = pattern.search(text)
    if match is None or _needed_groups(rewrite) > pattern.groups:
        return text
    replaced, is_valid = _expand(rewrite, match)
    return text[: match.start()] + replaced + text[match.end() :] if is_valid else text


def replace_all(pattern: re.Pattern[str], rewrite: str, text: str) -> str:
    """The text with all matches rewritten, unchanged where the rewrite names a group that is not there."""
    if _needed_groups(rewrite) > pattern.groups:
        return text
    found: list[str] = []
    at, last_end = 0, -1
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            break
        found.append(text[at : match.start()])
        at = match.end()
        # unlike Python, RE2 sees no empty match right behind another match
        if match.start() == match.end() == last_end:
            found.append(text[at : at + 1])
            at += 1
            continue
        found.append(_expand(rewrite, match)[0])
        last_end = at
    return "".join(found) + text[at:]


def _replace(value: Any, pattern: re.Pattern[str], rewrite: bytes, attrs: Attrs) -> Sequence[Tensor]:
    template = _text(rewrite)
    replace = replace_all if attrs["replace_global"] else replace_first
    return (map_strings(lambda data: replace(pattern, template, _text(data)).encode(errors="surrogateescape"), value),)


def regex_replace(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Matches of a pattern in strings, any shape, rewritten; pattern and rewrite are scalar inputs.

    InvalidArgumentError for inputs that are no scalars, and a pattern that RE2 does not know.
    """
    pattern = _pattern(_scalar("Pattern", inputs[1]))
    return _replace(inputs[0], pattern, _scalar("Rewrite", inputs[2]), attrs)


def static_regex_replace(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Matches of a pattern in strings, any shape, rewritten; pattern and rewrite are attrs.

    InvalidArgumentError for a pattern that RE2 does not know.
    """
    return _replace(inputs[0], _pattern(raw(attrs["pattern"])), raw(attrs["rewrite"]), attrs)


# --- matching -------------------------------------------------------------------------------------------------------


def _full_match(value: Any, pattern: bytes) -> Sequence[Tensor]:
    compiled = _pattern(pattern)
    found = [compiled.fullmatch(_text(data)) is not None for data in flat_strings(value)]
    return (np.array(found, bool).reshape(np.shape(value)),)


def regex_full_match(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Whether a pattern, a scalar input, matches the whole of each string, any shape.

    InvalidArgumentError for a pattern that is no scalar, or that RE2 does not know.
    """
    return _full_match(inputs[0], _scalar("Pattern", inputs[1]))


def static_regex_full_match(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Whether a pattern, an attr, matches the whole of each string, any shape.

    InvalidArgumentError for a pattern that RE2 does not know.
    """
    return _full_match(inputs[0], raw(attrs["pattern"]))


TABLE: Table = {
    "RegexReplace": Kernel(regex_replace, unchanged_with_scalars),
    "StaticRegexReplace": Kernel(static_regex_replace, unchanged),
    "RegexFullMatch": Kernel(regex_full_match, unchanged_with_scalars),
    "StaticRegexFullMatch": Kernel(static_regex_full_match, unchanged),
}
