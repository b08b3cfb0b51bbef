"""Every rule of a policy: a graph that keeps it and one that breaks it; and policies that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placesim.api.runs import place
from placesim.core.errors import GraphFileError, UsageError
from placesim.inspection.checking.findings import Finding
from placesim.inspection.checking.policy import describe_rules, read_policy, read_rule
from placesim.inspection.checking.rules import RULES, check_snapshot
from placesim.inspection.snapshot import Snapshot
from placesim.inspection.written_placement import read_baseline
from placesim.report.document import json_line
from tests.inspection.subjects import ROOT, snapshot

TOWERS = ROOT / "graphs" / "towers.yaml"
SPLIT = """devices: {cpu: 1, gpu: 2}
nodes:
  - {variable: v, shape: [4], initializer: zeros, kind: resource, device: '/gpu:0'}
  - {op: Mul, name: near, inputs: [v, v], device: '/gpu:0'}
  - {op: Mul, name: far, inputs: [v, near], device: '/gpu:1'}
  - {op: AssignVariableOp, name: set, inputs: [v, far], device: '/gpu:1'}
fetch: [set]
"""
IGNORED = """devices: {cpu: 3}
config: {allow_soft_placement: true}
raw: true
nodes:
  - {op: VariableV2, name: v, device: '/device:CPU:1', attrs: {dtype: float, shape: [2]}}
  - {op: VariableV2, name: w, device: '/device:CPU:2', attrs: {dtype: float, shape: [2], _class: ['loc:@v']}}
"""
CLEAN_AND_BROKEN = [
    # graph, a rule that it keeps, a rule that it breaks, the findings
    (SPLIT, "no-soft-fallback", None, []),
    (
        SPLIT,
        "no-overridden-request: {except: [set]}",
        "no-overridden-request",
        ["set requested /device:GPU:1, overridden by v"],
    ),
    (
        IGNORED,
        "no-ignored-colocation: {except: w}",
        "no-ignored-colocation",
        ["w is not colocated with v: Cannot colocate nodes"],
    ),
    (SPLIT, "max-transfers: 3", "max-transfers: 1", ["3 transfers, limit 1"]),
    (
        SPLIT,
        "max-transfers: {count: 2, from: GPU:0, to: GPU:1}",
        "max-transfers: {count: 0, from: GPU:0, to: GPU:1}",
        ["2 transfers from /device:GPU:0 to /device:GPU:1, limit 0"],
    ),
    (SPLIT, "max-transfer-bytes: 1KiB", "max-transfer-bytes: 47", ["48 bytes are transferred, limit 47"]),
    (SPLIT, "on-device: {ops: Mul, device: '/gpu:*'}", "on-device: {ops: Mul, device: GPU:0}", ["far (Mul) must be on"]),
    (
        SPLIT,
        "not-on-device: {ops: Mul, device: CPU}",
        "not-on-device: {nodes: far, device: GPU:1}",
        ["far (Mul) must not be on"],
    ),
    (
        SPLIT,
        "not-on-device: {device: GPU:1, except: [far, 'se?', v/]}",
        "not-on-device: {device: '/gpu:*', nodes: '*', except: v/}",
        ["device /gpu:0 of v puts "],
    ),
    (SPLIT, "together: [near, v]", "together: [near, far]", ["far is on GPU:1 and near on GPU:0"]),
    (SPLIT, "apart: [near, far]", "apart: [near, v]", ["v and near are both on GPU:0"]),
    (
        SPLIT,
        "variables-with-consumers: [nothing*]",
        "variables-with-consumers",
        ["far reads v and is on GPU:1, but the variable is on GPU:0"],
    ),
    (SPLIT, "balance: {within: 500%}", "balance: nodes", ["GPU:0 has", "GPU:1 has 1 nodes"]),
    (SPLIT, "balance: {of: operations, within: 0}", None, []),
    (SPLIT, "balance: {of: bytes, within: 1.0}", "balance: {of: bytes}", ["GPU:0 has 32 bytes", "GPU:1 has 0 bytes, -100%"]),
    (SPLIT, "max-memory: 32", "max-memory: {bytes: 31, device: GPU}", ["GPU:0 holds 32 bytes of variables and constants"]),
    (TOWERS, "no-soft-fallback: {except: ['*']}", "no-soft-fallback", ["MatMul requested /device:GPU:2"]),
]


def broken(subject: Snapshot, rule: str) -> tuple[Finding, ...]:
    return tuple(finding for finding in check_snapshot(subject, [read_rule(rule)]) if "no node matches" not in finding.message)


@pytest.mark.parametrize(("graph", "kept", "rule", "messages"), CLEAN_AND_BROKEN)
def test_a_rule_is_kept_and_broken(graph: str | Path, kept: str, rule: str | None, messages: list[str]) -> None:
    subject = snapshot(graph) if isinstance(graph, str) else snapshot(graph, gpu=1, soft_placement=True)
    assert broken(subject, kept) == ()
    found = [] if rule is None else broken(subject, rule)
    assert len(found) >= len(messages)
    for finding, message in zip(found, messages, strict=False):
        assert finding.message.startswith(message)
        assert str(finding).startswith(f"{subject.name}:")


UNKNOWN = """devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Placeholder, name: x, attrs: {dtype: float, shape: [null, 256]}, device: '/gpu:0'}
  - {op: Tanh, name: y, inputs: [x], device: '/gpu:1'}
"""


def test_an_unknown_size_is_not_within_a_limit_of_bytes() -> None:
    (finding,) = broken(snapshot(UNKNOWN), "max-transfer-bytes: 1KiB")
    assert finding.message.startswith("2 transfers of unknown size: x:0 to GPU:1 (unknown size, g.yaml:3:5), y:0 to CPU:0 (")
    assert broken(snapshot(UNKNOWN), "max-transfer-bytes: {bytes: 1KiB, unknown: 0}") == ()
    (finding,) = broken(snapshot(UNKNOWN), "max-transfer-bytes: {bytes: 1KiB, unknown: 2KiB}")
    assert finding.message.startswith("4096 bytes are transferred (2 of unknown size counted as 2048 each)")


def test_every_rule_has_a_case() -> None:
    tested = {text.partition(":")[0] for _, *rules, _ in CLEAN_AND_BROKEN for text in rules if text}
    walked = {name for name, rule in RULES.items() if rule.needs_memory or rule.needs_time}  # tests/cli/test_check.py has these
    assert tested | {"baseline"} | walked == RULES.keys()


def test_findings_stand_where_the_node_stands() -> None:
    (finding,) = broken(snapshot(SPLIT), "not-on-device: {nodes: far, device: GPU:1}")
    assert str(finding) == "g.yaml:5:5: not-on-device: far (Mul) must not be on /device:GPU:1 and is on GPU:1"
    assert finding.node == "far"


def test_a_pattern_that_matches_nothing_is_a_finding() -> None:
    (finding,) = check_snapshot(snapshot(SPLIT), [read_rule("together: ['tower_0/']")])
    assert str(finding) == "g.yaml:1:1: together: no node matches 'tower_0/'"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("max-memory: {bytes: 1GiB, device: GPU:7}", "no device matches /device:GPU:7: the machine has CPU:0, GPU:0, GPU:1"),
        ("max-transfers: {count: 9, from: '/job:ps'}", "no device matches /job:ps: the machine has CPU:0, GPU:0, GPU:1"),
        ("max-transfer-bytes: {bytes: 1GiB, to: TPU}", "no device matches /device:TPU:*: the machine has CPU:0, GPU:0, GPU:1"),
        ("balance: {type: TPU}", "no device is of type 'TPU': the machine has CPU:0, GPU:0, GPU:1"),
    ],
)
def test_a_limit_for_devices_that_the_machine_lacks_is_a_finding(rule: str, message: str) -> None:
    policy = f"description: ours\nrules:\n  - {rule}\n"
    (finding,) = check_snapshot(snapshot(SPLIT), read_policy(policy.encode(), "p.yaml"))
    assert str(finding) == f"p.yaml:3:5: {rule.partition(':')[0]}: {message}"


def test_a_device_that_nodes_must_not_be_on_need_not_be_there() -> None:
    assert check_snapshot(snapshot(SPLIT), [read_rule("not-on-device: {nodes: far, device: TPU}")]) == ()


def test_a_graph_that_cannot_be_placed_is_a_finding() -> None:
    (finding,) = check_snapshot(snapshot(ROOT / "graphs" / "missing-gpu.yaml"), [])
    assert finding.rule == "placeable"
    assert finding.message.startswith("InvalidArgumentError: Cannot assign a device for operation")
    assert finding.location.line > 1


def report_of(path: Path, **options: object) -> bytes:
    return json_line(place(str(path), **options).document()).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["absolute", "upwards", "link"])
def test_a_policy_reads_reports_of_its_own_folder(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(TOWERS, gpu=1, soft_placement=True)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "secret.json").write_bytes(report)
    (tmp_path / "theirs/link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "theirs/own.json").write_bytes(report)
    monkeypatch.chdir(tmp_path / "here")
    name = {"absolute": tmp_path / "secret.json", "upwards": "../secret.json", "link": "link.json"}[way]
    policy = str(tmp_path / "theirs/policy.yaml")
    with pytest.raises(
        GraphFileError, match=r"not allowed to read the report: .* expected a report in the folder of the policy"
    ):
        read_policy(f"rules: [{{baseline: {name}}}]".encode(), policy)
    assert len(read_policy(b"rules: [{baseline: own.json}]", policy)) == 1
    monkeypatch.chdir(tmp_path)
    assert len(read_policy(f"rules: [{{baseline: {name}}}]".encode(), policy)) == 1


def test_a_baseline_is_agreed_with_or_not(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_bytes(report_of(TOWERS, gpu=4))
    policy = b"rules:\n  - baseline: old.json\n"
    uses = read_policy(policy, str(tmp_path / "policy.yaml"))
    assert check_snapshot(snapshot(TOWERS, gpu=4), uses) == ()
    found = check_snapshot(snapshot(TOWERS, gpu=1, soft_placement=True), uses)
    assert found[0].message.startswith("MatMul is on GPU:0, but on GPU:2 in ")
    assert any("GPU:0 -> CPU:0: 2 transfers (+2)" in finding.message for finding in found)


def test_a_written_report_is_checked_as_far_as_it_goes() -> None:
    written = read_baseline(report_of(TOWERS, gpu=1, soft_placement=True), "r.json")
    assert written is not None
    live = broken(snapshot(TOWERS, gpu=1, soft_placement=True), "no-soft-fallback")
    assert [f.message for f in broken(written, "no-soft-fallback")] == [f.message for f in live]
    with pytest.raises(UsageError, match=r"rule max-memory needs the graph: got the report r\.json"):
        check_snapshot(written, [read_rule("max-memory: 1")])


@pytest.mark.parametrize("text", [b"{}", b'{"placements": []}', b"nodes: []", b'{"placements'])
def test_what_is_no_report_is_none(text: bytes) -> None:
    assert read_baseline(text, "r.json") is None


def test_a_damaged_report_is_refused() -> None:
    document = json.loads(report_of(TOWERS, gpu=4))
    del document["placements"][0]["device"]
    with pytest.raises(GraphFileError, match=r"r\.json:1:1: not a report"):
        read_baseline(json.dumps(document).encode(), "r.json")


DAMAGED = [
    # part, row, key, value put there, what is said
    ("placements", 3, "device", 5, "placements[3].device: got 5, expected a full device name"),
    ("placements", 0, "device", "/gpu:0", 'placements[0].device: got "/gpu:0", expected a full device name'),
    (
        "placements",
        0,
        "device",
        "/job:w/replica:0/task:0/device:CPU:0",
        'placements[0].device: got "/job:w/replica:0/task:0/device:CPU:0", expected one of the report\'s devices',
    ),
    ("placements", 0, "node", ["a"], 'placements[0].node: got ["a"], expected text'),
    ("placements", 1, "requested", None, "placements[1].requested: got null, expected text"),
    ("placements", 1, None, 3, "placements[1]: got 3, expected a mapping"),
    ("placements", None, None, {}, "placements: got {}, expected a list"),
    ("devices", 0, "name", "cpu", 'devices[0].name: got "cpu", expected a full device name'),
    ("devices", 1, "memory_limit", True, "devices[1].memory_limit: got true, expected a number of bytes"),
    ("devices", 1, "memory_limit", -1, "devices[1].memory_limit: got -1, expected a number of bytes"),
    ("devices", 1, "physical_device_desc", {"a": 1}, 'devices[1].physical_device_desc: got {"a": 1}, expected text'),
    ("transfers", 0, "bytes", "4", 'transfers[0].bytes: got "4", expected a number of bytes or null'),
    ("transfers", 0, "dst", "/job:a", 'transfers[0].dst: got "/job:a", expected a full device name'),
    ("error", None, None, [1], "error: got [1], expected a mapping"),
    ("error", None, None, {"type": "E"}, "error: got no key 'message', expected text"),
    ("warnings", None, None, "w", 'warnings: got "w", expected a list'),
    ("warnings", None, None, ["w", 2], "warnings[1]: got 2, expected text"),
]


@pytest.mark.parametrize(("part", "row", "key", "value", "message"), DAMAGED, ids=[case[4] for case in DAMAGED])
def test_a_report_with_a_wrong_type_is_refused_at_its_place(
    part: str, row: int | None, key: str | None, value: Any, message: str
) -> None:
    document = json.loads(report_of(TOWERS, gpu=4))
    if row is None:
        document[part] = value
    elif key is None:
        document[part][row] = value
    else:
        document[part][row][key] = value
    with pytest.raises(GraphFileError) as found:
        read_baseline(json.dumps(document).encode(), "r.json")
    assert found.value.message == f"r.json:1:1: not a report from `place --format json`: {message}"


WRONG = [
    ("", "p.yaml:1:1: no rules: got no key 'rules'"),
    ("rules: 3", "p.yaml:1:8: wrong type of 'rules': got 3, expected a list"),
    ("rule: []", "p.yaml:1:1: unknown key in a policy: got 'rule', expected description or rules; did you mean 'rules'?"),
    ("rules: [max-transfer: 3]", "p.yaml:1:9: unknown rule: got 'max-transfer', expected one of the rules; did you mean"),
    ("rules: [max-transfers]", "p.yaml:1:9: rule 'max-transfers' needs the parameter 'count': a limit"),
    ("rules: [max-transfers: -1]", "p.yaml:1:24: 'count' of rule 'max-transfers' out of range: got -1"),
    ("rules: [max-transfers: {count: 1, form: GPU}]", "p.yaml:1:35: unknown key in rule 'max-transfers': got 'form'"),
    ("rules: [{a: 1, b: 2}]", "p.yaml:1:9: wrong rule: got a mapping"),
    ("rules:\n  - on-device: {device: 'gpu:x'}", "p.yaml:2:25: wrong device in 'device' of rule 'on-device': got 'gpu:x'"),
    ("rules: [on-device: '']", "p.yaml:1:20: no device in 'device' of rule 'on-device'"),
    ("rules: [balance: {of: node}]", "p.yaml:1:23: unknown measure in 'of' of rule 'balance': got 'node'"),
    ("rules: [balance: {within: -1}]", "p.yaml:1:27: 'within' of rule 'balance' out of range: got -1"),
    ("rules: [max-memory: 3 GX]", "p.yaml:1:21: bad size: got '3 GX'"),
    ("rules: [max-step-time: 5 parsecs]", "p.yaml:1:24: bad time: got '5 parsecs', expected seconds, or a number with a unit"),
    ("rules: [max-step-time: -1]", "p.yaml:1:24: bad time: got -1, expected 0 seconds or more, and less than 2**63"),
    ("rules: [max-step-time: {step: 0}]", "p.yaml:1:24: rule 'max-step-time' needs the parameter 'seconds'"),
    (
        "rules: [max-step-time: {seconds: 1, of: low}]",
        "p.yaml:1:41: unknown end of the interval in 'of' of rule 'max-step-time': got 'low', expected middle, high",
    ),
    ("rules: [max-step-time: {seconds: 1, step: -1}]", "p.yaml:1:43: 'step' of rule 'max-step-time' out of range: got -1"),
    ("rules: [baseline: none.json]", "p.yaml:1:19: cannot read the report: got 'No such file or directory' for none.json"),
    ("rules: [together: [1]]", "p.yaml:1:19: wrong type of an entry of 'nodes' of rule 'together': got 1, expected a string"),
    ("description: [1]\nrules: []", "p.yaml:1:14: wrong type of 'description': got a list"),
    ("rules: [", "p.yaml:"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_with_a_policy(text: str, message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_policy(text.encode(), "p.yaml")
    assert str(caught.value).startswith(message)


def test_all_problems_of_a_policy_are_reported() -> None:
    with pytest.raises(GraphFileError) as caught:
        read_policy(b"rules: [x, max-transfers: -1, y]\n", "p.yaml")
    assert [problem.location.column for problem in caught.value.problems] == [9, 27, 31]


@pytest.mark.parametrize("text", ["max-transfers=3", "max-transfers: 3", "max-transfers: {count: 3}"])
def test_a_rule_of_the_command_line(text: str) -> None:
    use = read_rule(text)
    assert (use.rule.name, use.values["count"], use.location) == ("max-transfers", 3, None)


def test_a_wrong_rule_of_the_command_line() -> None:
    with pytest.raises(UsageError, match=r"unknown rule: got 'max-transfer'.*did you mean"):
        read_rule("max-transfer=3")


def test_the_listing_has_every_rule_and_parameter() -> None:
    text = describe_rules()
    for rule in RULES.values():
        assert f"{rule.name}\n    {rule.help}" in text
        for parameter in rule.parameters:
            assert f"    {parameter.name:<9}{parameter.help}" in text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5ms", 5e-3), ("200 us", 2e-4), ("1.5", 1.5), ("1e-3", 1e-3), ("30ns", 3e-8), ("2min", 120.0), ("0", 0.0)],
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert read_rule(f"max-step-time={text}").values["seconds"] == pytest.approx(seconds)
