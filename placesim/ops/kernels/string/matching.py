"""Strings matched against regular expressions, and rewritten.

RE2 itself matches, as in TensorFlow: in linear time, with its own errors, and on bytes that need not be UTF-8. Its Python
package replaces as Python does. So RE2's `Replace` and `GlobalReplace`, which differ in empty matches and invalid rewrites, are
written here. TensorFlow's RE2 is older than the package's, and has no groups that begin with `(?<`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import re2

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import infer_by, unchanged
from placesim.ops.kernels.string_tensors import flat_strings, map_strings, raw
from placesim.ops.process.memory_limit import GrowingText

Pattern = Any
"""A pattern of RE2, whose package has no types."""

OPTIONS = re2.Options()
OPTIONS.log_errors = False
ESCAPE = re.compile(rb"\\(.?)", re.DOTALL)
"""A backslash in a rewrite, and the character after it."""
NEW_GROUP = re.compile(rb"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:[^]]*:\]|[^]\\])*\]|\(\?=.*|(\(\?<)", re.DOTALL)
"""Finds `(?<` in a pattern, as group 1. Its other matches pass over quoted text, escapes, classes, and all from `(?=` on."""
CHARACTER = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|[\x80-\xff]",
    re.DOTALL,
)
"""A character in UTF-8, or a byte that begins no character."""


def compile_pattern(text: bytes) -> Pattern:
    """Compile a pattern. Raises InvalidArgumentError with RE2's reason."""
    known = NEW_GROUP.sub(lambda token: b"(?=" if token[1] else token[0], text)
    try:
        return re2.compile(known, OPTIONS)
    except re2.error as error:
        (reason,) = error.args
        if known != text:
            reason = reason.replace(b"(?=", b"(?<")
        shown = (part.decode(errors="replace") for part in (text, reason))
        raise InvalidArgumentError("Invalid pattern: {}, error: {}".format(*shown)) from None


def _scalar(name: str, tensor: Any) -> bytes:
    if np.ndim(tensor):
        raise InvalidArgumentError(f"{name} must be scalar, but received {shape_text(tensor)}")
    return flat_strings(tensor)[0]


# --- rewriting ------------------------------------------------------------------------------------------------------


def _needed_groups(rewrite: bytes) -> int:
    """Return the highest group number in a rewrite."""
    return max((int(escaped) for escaped in ESCAPE.findall(rewrite) if escaped.isdigit()), default=0)


def _expand(rewrite: bytes, match: Any, growing: GrowingText) -> tuple[bytes, bool]:
    r"""Replace `\0` to `\9` and `\\` in a rewrite; return (the text up to the first invalid escape, whether there is none)."""
    found: list[bytes] = []
    at = 0
    groups: dict[bytes, bytes] = {b"\\": b"\\"}
    for escape in ESCAPE.finditer(rewrite):
        found.append(rewrite[at : escape.start()])
        if not escape[1].isdigit() and escape[1] != b"\\":
            return b"".join(found), False
        if escape[1] not in groups:
            groups[escape[1]] = match.group(int(escape[1])) or b""
        found.append(groups[escape[1]])
        growing.add(len(found[-1]))
        at = escape.end()
    return b"".join((*found, rewrite[at:])), True


def replace_first(pattern: Pattern, rewrite: bytes, text: bytes, growing: GrowingText) -> bytes:
    """Return the text with its first match rewritten, or unchanged if the rewrite is invalid."""
    growing.add(len(text))
    match = pattern.search(text)
    if match is None or _needed_groups(rewrite) > pattern.groups:
        return text
    replaced, is_valid = _expand(rewrite, match, growing)
    return text[: match.start()] + replaced + text[match.end() :] if is_valid else text


def replace_all(pattern: Pattern, rewrite: bytes, text: bytes, growing: GrowingText) -> bytes:
    """Return the text with all matches rewritten, or unchanged if the rewrite refers to a missing group."""
    if _needed_groups(rewrite) > pattern.groups:
        return text
    found: list[bytes] = []
    at, last_end = 0, -1
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            break
        found.append(text[at : match.start()])
        at = match.end()
        # unlike Python, RE2 has no empty match directly after another match
        if match.start() == match.end() == last_end:
            character = CHARACTER.match(text, at)
            found.append(character[0] if character else b"")
            at = character.end() if character else at + 1
            continue
        # of an invalid rewrite, the part before the invalid escape stays
        found.append(_expand(rewrite, match, growing)[0])
        growing.add(len(rewrite))
        last_end = at
    return b"".join(found) + text[at:]


def _replace(value: Any, pattern: Pattern, rewrite: bytes, attrs: Attrs) -> Sequence[Tensor]:
    replace: Callable[[Pattern, bytes, bytes, GrowingText], bytes] = replace_all if attrs["replace_global"] else replace_first
    growing = GrowingText()
    return (map_strings(lambda text: replace(pattern, rewrite, text, growing), value),)


def regex_replace(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Rewrite the matches of a pattern in strings of any shape; pattern and rewrite are scalar inputs.

    Raises InvalidArgumentError for inputs that are not scalars, and a pattern that RE2 refuses.
    """
    pattern = compile_pattern(_scalar("Pattern", inputs[1]))
    return _replace(inputs[0], pattern, _scalar("Rewrite", inputs[2]), attrs)


def static_regex_replace(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """As `regex_replace`; pattern and rewrite are attrs. Raises InvalidArgumentError for a pattern that RE2 refuses."""
    return _replace(inputs[0], compile_pattern(raw(attrs["pattern"])), raw(attrs["rewrite"]), attrs)


# --- matching -------------------------------------------------------------------------------------------------------


def _full_match(value: Any, pattern: bytes) -> Sequence[Tensor]:
    compiled = compile_pattern(pattern)
    found = [compiled.fullmatch(text) is not None for text in flat_strings(value)]
    return (np.array(found, bool).reshape(np.shape(value)),)


def regex_full_match(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return whether a pattern, a scalar input, matches the whole of each string, in any shape.

    Raises InvalidArgumentError for a pattern that is not a scalar, or that RE2 refuses.
    """
    return _full_match(inputs[0], _scalar("Pattern", inputs[1]))


def static_regex_full_match(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """As `regex_full_match`; the pattern is an attr. Raises InvalidArgumentError for a pattern that RE2 refuses."""
    return _full_match(inputs[0], raw(attrs["pattern"]))


TABLE: Table = {
    "RegexReplace": Kernel(regex_replace, infer_by("x, []... -> x"), memory=forwards(0)),
    "StaticRegexReplace": Kernel(static_regex_replace, unchanged, memory=forwards(0)),
    "RegexFullMatch": Kernel(regex_full_match, infer_by("x, []... -> x")),
    "StaticRegexFullMatch": Kernel(static_regex_full_match, unchanged),
}
