"""The number of examples that a test of a law draws: all of them under hypothesis's profile `ci` alone."""

from __future__ import annotations

from hypothesis import settings

CI_EXAMPLES = 100


def examples(count: int) -> int:
    """The number under the profile in use, for a test that draws `count` in CI."""
    return max(1, count * settings().max_examples // CI_EXAMPLES)
