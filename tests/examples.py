"""The number of examples that a test of a law draws: fewer under hypothesis's profile `dev` than under `ci`."""

from __future__ import annotations

from hypothesis import settings

CI_EXAMPLES = 100


def examples(count: int) -> int:
    """The number under the profile in use, for a test that draws `count` in CI."""
    return max(1, count * settings().max_examples // CI_EXAMPLES)
