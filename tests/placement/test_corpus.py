"""Every graph that was recorded is read whole; TensorFlow's devices and their order, log, sends, errors, warnings are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.placement.corpus import DATA, FILES, OF_1_15, SUBSET, agreement

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("name", [*FILES, *OF_1_15])
def test_all_recordings_agree(name: str, record_property: Callable[[str, object], None]) -> None:
    agreed, total, problems = agreement(name)
    record_property("placement agreed", f"placement-{name}: {agreed}/{total} agree")
    assert total
    assert not problems, "\n".join(f"{case}: {text}" for case, texts in list(problems.items())[:5] for text in texts)


def test_all_recordings_are_compared() -> None:
    assert {path.name for path in DATA.glob("placement-*.jsonl.gz")} == {
        f"placement-{name}.jsonl.gz" for name in (*FILES, *OF_1_15, SUBSET)
    }
