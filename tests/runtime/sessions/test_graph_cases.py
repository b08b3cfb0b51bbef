"""Sessions of several steps over accumulators and other resources: values, errors and static shapes are TensorFlow's."""

import pytest

from tests.runtime.sessions.graph_cases import FILE, differences
from tests.runtime.sessions.list_cases import read_cases


@pytest.mark.slow
def test_sessions_agree_with_tensorflow() -> None:
    cases = {case["id"]: case for case in read_cases(FILE)}
    differing = {case_id: found for case_id, case in cases.items() if (found := differences(case))}
    assert cases
    assert not differing
