"""All that TensorFlow was recorded to do with a graph: devices and their order, log, sends, errors, warnings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.placement.corpus import FILES, OF_1_15, agreement

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("name", [*FILES, *OF_1_15])
def test_all_recordings_agree(name: str, record_property: Callable[[str, object], None]) -> None:
    agreed, total, problems = agreement(name)
    record_property("placement agreed", f"placement-{name}: {agreed}/{total} agree")
    assert total
    assert not problems, "\n".join(f"{case}: {text}" for case, texts in list(problems.items())[:5] for text in texts)
