"""Device names: both parsers, printing, and the relations between parsed names, by the tables of the specification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import GraphBuildError
from placesim.machine.device_names import (
    ANY,
    DeviceName,
    MergeConflict,
    enclose,
    format_spec,
    merge_specs,
    parse_python_spec,
    parse_runtime_name,
)

UNKNOWN = "Unknown attribute '{}' is encountered while parsing the device spec: '{}'."
MULTIPLE = "Multiple device types are not allowed while parsing the device spec: {}."
NOT_INT = "invalid literal for int() with base 10: '{}'"

FORMATS = [
    # 1.1.2
    (DeviceName(), ""),
    (DeviceName(id=1), ""),
    (DeviceName(job="ps", type="GPU"), "/job:ps/device:GPU:*"),
    (DeviceName("w", 0, 1, "GPU", 2), "/job:w/replica:0/task:1/device:GPU:2"),
    (DeviceName(task=3, id=1), "/task:3"),
]

RUNTIME_NAMES = [
    # 1.2.1
    ("", ANY),
    ("/", ANY),
    # 1.2.2: any order, the later one wins, stars, legacy forms
    ("/job:w/replica:0/task:1/device:GPU:2", DeviceName("w", 0, 1, "GPU", 2)),
    ("/task:1/job:w", DeviceName(job="w", task=1)),
    ("/job:a/job:b", DeviceName(job="b")),
    ("/job:*/replica:*/task:*/device:*:*", ANY),
    ("/job:a/job:*", ANY),
    ("/device:GPU", DeviceName(type="GPU")),
    ("/device:GPU:*", DeviceName(type="GPU")),
    ("/device:*:3", DeviceName(id=3)),
    ("/device:XLA_CPU:0", DeviceName(type="XLA_CPU", id=0)),
    ("/cpu:0", DeviceName(type="CPU", id=0)),
    ("/CPU:0", DeviceName(type="CPU", id=0)),
    ("/gpu:*", DeviceName(type="GPU")),
    ("/job:w_1/GPU:12", DeviceName(job="w_1", type="GPU", id=12)),
    ("/device:CPU:1/gpu:2", DeviceName(type="GPU", id=2)),
    # 1.2.3: the long form keeps its case
    ("/device:cpu:0", DeviceName(type="cpu", id=0)),
    # 1.2.4
    ("/foo:bar", None),
    ("/job:local host", None),
    ("/job:", None),
    ("/job:1a", None),
    ("/task:-1", None),
    ("/cpu", None),
    ("/Cpu:0", None),
    ("cpu:0", None),
    ("/replica:x", None),
    ("/device:CPU:-1", None),
    ("//", None),
    ("/job:a/", None),
]

PYTHON_SPECS = [
    # 1.3.5
    *((text, "/device:CPU:0") for text in ("/cpu:0", "cpu:0", "/CPU:0", "/device:cpu:0", "/cpu:00")),
    *((text, "/device:GPU:1") for text in ("/gpu:1", "GPU:1", "/Gpu:1", "/device:gpu:1")),
    ("/cpu", "/device:CPU:*"),
    ("/gpu:*", "/device:GPU:*"),
    ("/device:GPU:*", "/device:GPU:*"),
    ("/job:ps/task:2/device:XLA_CPU:0", "/job:ps/task:2/device:XLA_CPU:0"),
    ("/device:FOO:3", "/device:FOO:3"),
    ("/device:Gpu:1", "/device:Gpu:1"),
    ("/task:1/job:w", "/job:w/task:1"),
    ("/job:a/job:b", "/job:b"),
    ("/job:", "/job:"),
    ("/job:*", "/job:*"),
    ("/device:CPU:-1", "/device:CPU:-1"),
    ("", ""),
    ("/", ""),
    ("//", ""),
    # 1.3.1
    ("//job:w//gpu:0/", "/job:w/device:GPU:0"),
]

PYTHON_ERRORS = [
    # 1.3.5
    ("/device:CPU", UNKNOWN.format("device", "/device:CPU")),
    ("/XLA_CPU:0", UNKNOWN.format("XLA_CPU", "/XLA_CPU:0")),
    ("/foo:bar", UNKNOWN.format("foo", "/foo:bar")),
    ("foo", UNKNOWN.format("foo", "foo")),
    ("/job", UNKNOWN.format("job", "/job")),
    ("/job:w:x", UNKNOWN.format("job", "/job:w:x")),
    ("@node", UNKNOWN.format("@node", "@node")),
    ("/job:ps/cpu:0/gpu:0", MULTIPLE.format("/job:ps/cpu:0/gpu:0")),
    ("/cpu:0/device:GPU:0", MULTIPLE.format("/cpu:0/device:GPU:0")),
    ("/task:x", NOT_INT.format("x")),
    ("/cpu:x", NOT_INT.format("x")),
    ("/replica:*", NOT_INT.format("*")),
]

MERGES = [
    # target, other, hard, soft, override (1.4.7, 1.4.8); an error as its kind
    ("", "/job:a/cpu:0", "/job:a/device:CPU:0", "/job:a/device:CPU:0", "/job:a/device:CPU:0"),
    ("/job:a", "", "/job:a", "/job:a", "/job:a"),
    ("/task:1", "/job:a/gpu:0", "/job:a/task:1/device:GPU:0", "/job:a/task:1/device:GPU:0", "/job:a/task:1/device:GPU:0"),
    ("/cpu:0", "/device:CPU:*", "/device:CPU:0", "/device:CPU:0", "/device:CPU:0"),
    ("/cpu:0", "/cpu:1", "ids", "/device:CPU:*", "/device:CPU:1"),
    ("/device:CPU:*", "/cpu:1", "/device:CPU:1", "/device:CPU:1", "/device:CPU:1"),
    ("/cpu:0", "/gpu:1", "types", "", "/device:GPU:1"),
    ("/job:a/cpu:0", "/gpu:*", "types", "/job:a", "/job:a/device:GPU:0"),
    ("/job:a", "/job:b", "jobs", "jobs", "jobs"),
    ("/replica:0", "/replica:1", "replicas", "replicas", "replicas"),
    ("/task:0", "/task:1", "tasks", "tasks", "tasks"),
]

CONFLICTS = [
    # the target is shown as merged so far
    ("/task:1", "/job:a/task:0", "Cannot merge devices with incompatible tasks: '/job:a/task:1' and '/job:a/task:0'"),
    ("/job:a", "/job:b/task:0", "Cannot merge devices with incompatible jobs: '/job:a' and '/job:b/task:0'"),
    (
        "/replica:1",
        "/job:a/replica:0",
        "Cannot merge devices with incompatible replicas: '/job:a/replica:1' and '/job:a/replica:0'",
    ),
    (
        "/cpu:0",
        "/job:a/task:0/gpu:0",
        "Cannot merge devices with incompatible types: '/job:a/task:0/device:CPU:0' and '/job:a/task:0/device:GPU:0'",
    ),
    ("/cpu:0", "/cpu:1", "Cannot merge devices with incompatible ids: '/device:CPU:0' and '/device:CPU:1'"),
]

RELATIONS = [
    # pattern, full, matches, compatible (1.4.2, 1.4.4)
    ("", "/job:a/gpu:0", True, True),
    ("/gpu:0", "/job:a/gpu:0", True, True),
    ("/gpu:*", "/job:a/gpu:0", True, True),
    ("/task:0", "/job:a/gpu:0", False, True),
    ("/gpu:1", "/job:a/gpu:0", False, False),
    ("/cpu:0", "/job:a/gpu:0", False, False),
    ("/job:b", "/job:a/gpu:0", False, False),
]

ADDRESS_SPACES = [
    # same, different (1.4.6)
    ("/job:a/replica:0/task:0/cpu:0", "/job:a/replica:0/task:0/gpu:1", True, False),
    ("/job:a/replica:0/task:0", "/job:a/replica:0/task:1", False, True),
    ("/job:a/task:0", "/job:a/task:0", False, False),
    ("/job:a/replica:0/task:0", "/job:a/task:1", False, True),
    ("/job:a/replica:0/task:0", "/task:3", False, True),
    ("/job:a/replica:0/task:0", "/job:ps/gpu:0", False, True),
    ("/job:a/replica:0/task:0", "/replica:0/task:0", False, False),
    ("/job:a", "/task:1", False, False),
    ("/job:a/replica:0/task:0", "/gpu:0", False, False),
]

SCOPES = [
    # inner, what results inside `/job:worker` and `/device:GPU:0` (2.1.4)
    ("/cpu:1", "/job:worker/device:CPU:1"),
    ("/task:3", "/job:worker/task:3/device:GPU:0"),
    ("", "/job:worker/device:GPU:0"),
    ("/gpu:*", "/job:worker/device:GPU:0"),
    ("/job:ps/task:2", "/job:ps/task:2/device:GPU:0"),
    # a star never erases: the id leaks across types (2.1.3)
    ("/device:CPU:*", "/job:worker/device:CPU:0"),
]


@pytest.mark.parametrize(("spec", "text"), FORMATS)
def test_canonical_text(spec: DeviceName, text: str) -> None:
    assert (format_spec(spec), str(spec)) == (text, text)


@pytest.mark.parametrize(("text", "spec"), RUNTIME_NAMES)
def test_runtime_parser(text: str, spec: DeviceName | None) -> None:
    assert parse_runtime_name(text) == spec


@pytest.mark.parametrize(("text", "canonical"), PYTHON_SPECS)
def test_python_parser(text: str, canonical: str) -> None:
    assert str(parse_python_spec(text)) == canonical


@pytest.mark.parametrize(("text", "message"), PYTHON_ERRORS)
def test_python_parser_refuses(text: str, message: str) -> None:
    with pytest.raises(GraphBuildError) as raised:
        parse_python_spec(text)
    assert (str(raised.value), raised.value.type_name) == (message, "ValueError")


@pytest.mark.parametrize("mode", ["hard", "soft", "override"])
@pytest.mark.parametrize(("target", "other", "hard", "soft", "override"), MERGES)
def test_merge(target: str, other: str, hard: str, soft: str, override: str, mode: str) -> None:
    expected = {"hard": hard, "soft": soft, "override": override}[mode]
    try:
        merged = str(
            merge_specs(parse_python_spec(target), parse_python_spec(other), soft=mode == "soft", override=mode == "override")
        )
    except MergeConflict as conflict:
        merged = str(conflict).split(":")[0].split()[-1]
    assert merged == expected


@pytest.mark.parametrize(("target", "other", "message"), CONFLICTS)
def test_merge_conflicts(target: str, other: str, message: str) -> None:
    with pytest.raises(MergeConflict) as raised:
        merge_specs(parse_python_spec(target), parse_python_spec(other))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("names", "merged"), [(("/cpu:0", "/cpu:1", "/cpu:1"), "/device:CPU:1"), (("/cpu:0", "/gpu:1", "/cpu:1"), "/device:CPU:1")]
)
def test_soft_merging_depends_on_the_order(names: tuple[str, ...], merged: str) -> None:
    target = ANY
    for name in names:
        target = merge_specs(target, parse_python_spec(name), soft=True)
    assert str(target) == merged


@pytest.mark.parametrize(("pattern", "full", "matches", "is_compatible"), RELATIONS)
def test_relations(pattern: str, full: str, matches: bool, is_compatible: bool) -> None:
    one, two = parse_python_spec(pattern), parse_python_spec(full)
    assert (one.matches(two), one.is_compatible_with(two), two.is_compatible_with(one)) == (
        matches,
        is_compatible,
        is_compatible,
    )


@pytest.mark.parametrize(("one", "two", "same", "different"), ADDRESS_SPACES)
def test_address_spaces(one: str, two: str, same: bool, different: bool) -> None:
    a, b = parse_python_spec(one), parse_python_spec(two)
    assert (None not in a[:3] and a.address_space == b.address_space, a.in_different_address_space(b)) == (same, different)


@pytest.mark.parametrize(("inner", "requested"), SCOPES)
def test_nested_scopes(inner: str, requested: str) -> None:
    outer = enclose(parse_python_spec("/device:GPU:0"), parse_python_spec("/job:worker"))
    assert str(enclose(parse_python_spec(inner), outer)) == requested


FIELDS = st.builds(
    DeviceName,
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.integers(0, 1),
    st.none() | st.integers(0, 1),
    st.none() | st.sampled_from(["CPU", "GPU"]),
    st.none() | st.integers(0, 1),
)


@pytest.mark.slow
@given(FIELDS)
def test_the_canonical_text_reads_back(spec: DeviceName) -> None:
    printed = spec._replace(id=None) if spec.type is None else spec
    assert parse_python_spec(str(spec)) == parse_runtime_name(str(spec)) == printed


@given(FIELDS, FIELDS)
def test_a_hard_merge_succeeds_where_nothing_conflicts(one: DeviceName, two: DeviceName) -> None:
    try:
        merged = merge_specs(one, two)
    except MergeConflict:
        assert not one.is_compatible_with(two)
    else:
        assert one.is_compatible_with(two)
        assert merged == one.specialised_by(two) == two.specialised_by(one)


RUNTIME_NUMBERS = [
    # digits, the number that the runtime keeps (TensorFlow 2.21): 64 bits are read, 32 kept; None is malformed
    ("0007", 7),
    ("2147483648", -(1 << 31)),
    ("4294967296", 0),
    ("18446744073709551615", -1),
    ("18446744073709551616", None),
    ("9" * 5000, None),
    ("0" * 5000 + "3", 3),
]


@pytest.mark.parametrize("text", ["/device:CPU:{}", "/task:{}", "/job:w/replica:0/task:0/device:GPU:{}"])
@pytest.mark.parametrize(("digits", "kept"), RUNTIME_NUMBERS, ids=[digits[:22] for digits, _ in RUNTIME_NUMBERS])
def test_numbers_of_any_length(text: str, digits: str, kept: int | None) -> None:
    spec = parse_runtime_name(text.format(digits))
    if kept is None:
        assert spec is None
    else:
        assert spec is not None
        assert (spec.task if text == "/task:{}" else spec.id) == kept
