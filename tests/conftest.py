"""The surroundings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.processes import set_surroundings

# hypothesis measures no time: neither how long an example takes nor how long it takes to make one
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    set_surroundings()
