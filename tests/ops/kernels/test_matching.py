"""Regular expressions: what RE2 does that Python does not, beside the recorded cases."""

from __future__ import annotations

import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.string.matching import compile_pattern, replace_all, replace_first
from placesim.ops.process.memory_limit import AllocationRefusal, GrowingText, ProcessMemory, serving_memory
from tests.ops.kernels.kernel_calls import Machine

REPLACEMENTS = [
    # pattern, rewrite, text, first replaced, all replaced
    (b"b+", b"<\\0>", b"abbabb", b"a<bb>abb", b"a<bb>a<bb>"),
    (b"(a)(b)?", b"\\2\\1", b"abac", b"baac", b"baac"),
    (b"^", b">", b"xy", b">xy", b">xy"),
    (b"$", b"<", b"xy", b"xy<", b"xy<"),
    (b"", b"-", "\u00e9a".encode(), "-\u00e9a".encode(), "-\u00e9-a-".encode()),
    (b"", b"-", b"\xffa", b"-\xffa", b"-\xff-a-"),
    (b"b*", b"-", b"abba", b"-abba", b"-a-a-"),
    (b"a", b"\\\\", b"aa", b"\\a", b"\\\\"),
    (b"a", b"\\1", b"aa", b"aa", b"aa"),
    (b"a", b"x\\y", b"ab", b"ab", b"xb"),
    (b"(?i)A.c", b"_", b"abc\nADC", b"_\nADC", b"_\n_"),
]


@pytest.mark.parametrize(("pattern", "rewrite", "text", "first", "every"), REPLACEMENTS)
def test_replacements(pattern: bytes, rewrite: bytes, text: bytes, first: bytes, every: bytes) -> None:
    compiled = compile_pattern(pattern)
    assert replace_first(compiled, rewrite, text, GrowingText()) == first
    assert replace_all(compiled, rewrite, text, GrowingText()) == every


def test_matching_is_linear_in_the_text() -> None:
    """A pattern on which a backtracking matcher never ends."""
    found = Machine().run("StaticRegexFullMatch", [b"a" * 5000, b"a" * 5000 + b"b"], pattern="(a|aa)*b")
    assert found.tolist() == [False, True]


def test_a_rewrite_that_repeats_its_match_stays_within_memory() -> None:
    with serving_memory(ProcessMemory(1 << 22)), pytest.raises(AllocationRefusal):
        replace_first(compile_pattern(b"a*"), b"\\0" * 100_000, b"a" * (1 << 20), GrowingText())


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (b"(a", "missing ): (a"),
        (b"a**", "bad repetition operator: **"),
        (b"\\1", "invalid escape sequence: \\1"),
        (b"(?=a)", "invalid perl operator: (?="),
        (b"\xff", "invalid UTF-8"),
        (b"a{1001}", "invalid repetition size: {1001}"),
    ],
)
def test_a_wrong_pattern_is_refused_in_the_words_of_re2(pattern: bytes, reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as found:
        compile_pattern(pattern)
    assert str(found.value).endswith(f", error: {reason}")
