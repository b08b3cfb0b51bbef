"""Styled text: a string with marked spans (device, node, heading), which a terminal or page colours by role.

The code that makes a text marks its spans; nothing searches for names in a finished line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from placesim.core.escaping import escape, escape_line

_KINDS = re.compile(r"(?:GPU|CPU):\d+")


class Role(Enum):
    """The kind of a span, which decides its colour."""

    PLAIN = "plain"
    NODE = "a node that its line is about"
    OP = "the op of such a node"
    GPU = "a GPU, or what asks for one"
    CPU = "a CPU"
    DEVICE = "any other device"
    PLACE = "a place in a file"
    HEAD = "what stands over other lines"
    TERM = "what a line tells of"
    RULE = "a rule that is broken"
    ERROR = "the class of an error"
    HELP = "what is said under an error"
    GONE = "what was there before"
    NEW = "what was not there before"


class TextSpan(NamedTuple):
    """A part of a text, with one role."""

    text: str
    role: Role = Role.PLAIN


class StyledText(str):
    """A string made of parts, which may themselves be styled. `role` applies to parts without a role.

    It has no control characters except line ends and tabs. `+`, `join` and f-strings return plain strings without spans, so
    combine texts with this class, `fill_template` and `join_texts`.
    """

    __slots__ = ("spans",)
    spans: tuple[TextSpan, ...]

    def __new__(cls, *parts: str, role: Role = Role.PLAIN) -> StyledText:
        spans = tuple(span for part in parts for span in _spans(part, role))
        text = super().__new__(cls, "".join([span.text for span in spans]))
        text.spans = spans
        return text


def _spans(part: str, role: Role) -> Iterable[TextSpan]:
    if not isinstance(part, StyledText):
        return (TextSpan(escape(str(part)), role),) if part else ()
    if role is Role.PLAIN:
        return part.spans
    return (TextSpan(span.text, role) if span.role is Role.PLAIN else span for span in part.spans)


def fill_template(template: str, *parts: object) -> StyledText:
    """Fill each `{}` of a template with a part. Raises ValueError if the number of parts differs from the number of `{}`."""
    texts = template.split("{}")
    pairs = zip(parts, texts[1:], strict=True)
    return StyledText(
        texts[0], *(piece for part, text in pairs for piece in (part if isinstance(part, str) else str(part), text))
    )


def join_texts(separator: str, parts: Iterable[str]) -> StyledText:
    """Join parts with a separator."""
    return StyledText(*[piece for part in parts for piece in (separator, part)][1:])


def one_line(text: str) -> StyledText:
    """Return a text as one line, with line ends and tabs escaped."""
    return StyledText(*(StyledText(escape_line(span.text), role=span.role) for span in StyledText(text).spans))


def list_words(names: Sequence[str], limit: int) -> StyledText:
    """List at most `limit` names, followed by the number of omitted names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return StyledText(join_texts(", ", names[:limit]), more)


def device(name: object) -> StyledText:
    """Mark a device name: full, short (`GPU:0`) or as requested."""
    text = str(name)
    return StyledText(text, role=_device_role(text.rpartition("/")[2]))


def _device_role(kind: str) -> Role:
    return Role.GPU if "GPU" in kind else Role.CPU if "CPU" in kind or "cpu" in kind else Role.DEVICE


def place(location: object) -> StyledText:
    """Mark a place in a file (`graph.yaml:12:5`)."""
    return StyledText(str(location), role=Role.PLACE)


def quote(sentence: str) -> StyledText:
    """Mark the device names in a sentence from TensorFlow."""
    parts, end = [], 0
    for found in _KINDS.finditer(sentence):
        parts += [sentence[end : found.start()], device(found[0])]
        end = found.end()
    return StyledText(*parts, sentence[end:])


def lines_of(text: str) -> Iterator[tuple[TextSpan, ...]]:
    """Yield the spans of each line of a text, without line ends."""
    spans: list[TextSpan] = []
    for span in StyledText(text).spans:
        first, *rest = span.text.split("\n")
        spans.append(span._replace(text=first))
        for line in rest:
            yield tuple(spans)
            spans = [span._replace(text=line)]
    if any(span.text for span in spans):
        yield tuple(spans)
