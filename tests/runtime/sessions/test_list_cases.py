"""Programs over tensor arrays, tensor lists and stacks: values, errors and static shapes are TensorFlow's."""

import pytest

from tests.runtime.sessions.list_cases import differences, read_cases


@pytest.mark.slow(3)
def test_programs_over_lists_agree_with_tensorflow() -> None:
    cases = {case["id"]: case for case in read_cases()}
    differing = {case_id: found for case_id, case in cases.items() if (found := differences(case))}
    assert cases
    assert not differing
