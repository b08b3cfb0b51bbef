"""Test helpers that check placements against a policy, with or without pytest.

    pytest_plugins = ["placesim.testing"]  # in conftest.py, for the fixture; the function needs no plugin


    def test_the_towers_stay_on_their_gpus(holds_placement):
        holds_placement("towers.yaml", "no-soft-fallback", {"max-transfers": 4}, gpu=4)

This module is not registered as a plugin of pytest; otherwise every run of pytest in your environment would
import this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Unpack

from placesim.api.inspections import check
from placesim.machine.options import OptionValues, with_options

if TYPE_CHECKING:
    from placesim.api.inspections import Rule
    from placesim.formats.sources.loading import Source
    from placesim.report.inspection_reports import CheckReport
    from placesim.report.report import Report


@with_options
def assert_placement(
    source: Source | Report,
    *rules: Rule,
    policy: str | PurePath | Mapping[str, Any] | None = None,
    **options: Unpack[OptionValues],
) -> CheckReport:
    """Assert that `placesim.check` finds nothing, and return its report.

    Raises AssertionError, with a line for each finding; UsageError if there is neither a rule nor a policy; and the errors of
    `placesim.check`.
    """
    from placesim.core.errors import UsageError

    __tracebackhide__ = True  # so that pytest shows the caller's line
    if not rules and policy is None:
        raise UsageError("nothing to check: got no rule, expected rules, or a policy")
    report = check(source, *rules, policy=policy, **options)
    if not report.is_kept:
        raise AssertionError(f"{report.name} breaks its policy:\n{report.text()}")
    return report


def _fixture() -> Callable[..., Any]:
    import pytest

    @pytest.fixture(name="holds_placement")
    def holds_placement() -> Callable[..., CheckReport]:
        """Return `assert_placement`, which fails the test if a graph's placement breaks a rule."""
        return assert_placement

    return holds_placement


def __getattr__(name: str) -> Any:
    """Return the fixture `holds_placement`, which pytest looks up in a plugin.

    Raises AttributeError for any other name. The fixture is built on access, because pytest may not be installed.
    """
    if name != "holds_placement":
        raise AttributeError(name)
    found = globals()[name] = _fixture()
    return found


def __dir__() -> list[str]:
    return [*globals(), "holds_placement"]
