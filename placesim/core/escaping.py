"""Escapes for untrusted text: characters that move the cursor, end a line or are invisible become escape sequences.

Names of files and functions, devices, labels, attrs and whole reports come from other people, and may contain any characters.
In the log of a workflow, GitHub executes `::name::` at the start of a line and `##[name]` anywhere in a line as commands, so
such texts are broken up.
"""

from __future__ import annotations

import re

_UNSEEN = (
    "\x7f-\x9f"  # delete, and the second set of controls
    "\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069"  # characters that change the direction of text, or have no width
    "\u2028\u2029\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f"  # separators, marks, tags, characters that XML forbids
    "\ud800-\udfff"  # surrogates: bytes of names that are not UTF-8
)
# texts, which `re` compiles on first use: nearly no text needs them
_CONTROLS = f"[\0-\x08\x0b-\x1f{_UNSEEN}]"
_CONTROLS_AND_ENDS = f"[\0-\x1f{_UNSEEN}]"
_NOT_IN_JSON = f"[{_UNSEEN}]|#(?=#\\[)"
_COMMAND = r"#(?=#\[)|(?<!\S):(?=:[A-Za-z])"
"""First character of a GitHub command. It may follow any space: the runner skips space, and placesim may wrap a long line."""
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
_VISIBLE = bytes(range(0x20, 0x7F))
_VISIBLE_AND_ENDS = _VISIBLE + b"\n\t"


def escape(text: str) -> str:
    r"""Escape a text of several lines: control characters except line ends and tabs as `\x1b`, bytes that are not UTF-8 as
    `\xff`, and the `::` and `##[` of GitHub's workflow commands.
    """
    return _break_commands(escape_data(text))


def escape_data(text: str) -> str:
    """Escape the control characters of a text for programs, as `escape` does, but not GitHub's workflow commands."""
    if text.isascii() and not text.encode("ascii").translate(None, _VISIBLE_AND_ENDS):
        return text  # the cheap test is enough for nearly every text
    return re.sub(_CONTROLS, _as_escape, text)


def escape_line(text: str) -> str:
    r"""Escape a name, which must not end a line or a column: like `escape`, with `\n` and `\t` for line ends and tabs."""
    if not (text.isascii() and not text.encode("ascii").translate(None, _VISIBLE)):
        text = re.sub(_CONTROLS_AND_ENDS, _as_escape, text)
    return _break_commands(text)


def _break_commands(text: str) -> str:
    return re.sub(_COMMAND, _as_escape, text) if "::" in text or ("#" in text and "##[" in text) else text


def escape_json(text: str) -> str:
    """Escape JSON without changing its meaning; a byte of a file name that is not UTF-8 becomes text (`\\\\xff`)."""
    return text if text.isascii() and "\x7f" not in text and "##[" not in text else re.sub(_NOT_IN_JSON, _as_json, text)


def _as_escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as Python represents it (PEP 383)
        code -= 0xDC00
    if code < 0x100:
        return _SHORT.get(character) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _as_json(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":  # readers of JSON reject single surrogates
        return "\\" + _as_escape(found)
    return as_json_escape(found[0])


def as_json_escape(characters: str) -> str:
    r"""Escape characters as JSON does: `\u00e9`."""
    units = characters.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
