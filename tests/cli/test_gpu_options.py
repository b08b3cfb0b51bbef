"""What the command line makes of `gpu_options`: limits, TensorFlow's lines, warnings, and errors with their place."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

P4 = "name: Tesla P4, pci bus id: 0000:0{}:00.0, compute capability: 6.1"
CREATED = "Created device /job:localhost/replica:0/task:0/device:GPU:{} with {} MB memory:  -> device: {}, "
GRAPH = """
devices: {{cpu: 1, gpu: {{count: 2, model: Tesla P4}}}}
config:
  log_device_placement: true
  gpu_options: {}
nodes:
  - {{op: Const, name: a, value: 1.0, device: /gpu:{}}}
"""


def graph(options: str, gpu: int = 0) -> str:
    return GRAPH.format(options, gpu)


def test_lines_of_the_gpus_that_are_made(shell: Shell) -> None:
    ended = shell("devices", "--gpu", "2", "--log-creation")
    described = "name: Tesla K40c, pci bus id: 0000:0{}:00.0, compute capability: 3.5\n"
    expected = "".join(CREATED.format(i, 10941, i) + described.format(5 + i) for i in range(2))
    assert (ended.code, ended.output, ended.complaint) == (0, expected, "")
    found = json.loads(shell("devices", "--gpu", "1", "--log-creation", "--format", "json").output)
    assert found["log"] == [expected.splitlines()[0]]
    assert found["allocators"][0]["name"] == "GPU_0_bfc"
    assert found["allocators"][0]["memory_limit"] == found["devices"][1]["memory_limit"] == 11472470016
    assert "allocators" not in json.loads(shell("devices", "--format", "json").output)


def test_devices_of_a_graph(shell: Shell) -> None:
    path = shell.write("g.yaml", graph("{experimental: {virtual_devices: [{memory_limit_mb: [2048, 1024]}, {}]}}"))
    rows = [line.split("\t") for line in shell("devices", path, "--no-header").output.splitlines()]
    assert [(row[0].rpartition(":device:")[2].rpartition("device:")[2], int(row[2]) >> 20) for row in rows] == [
        ("CPU:0", 256),
        ("GPU:0", 2048),
        ("GPU:1", 1024),
        ("GPU:2", 7111),
    ]


def test_run_tells_it_where_tensorflow_does(shell: Shell) -> None:
    path = shell.write("g.yaml", graph("{experimental: {virtual_devices: [{memory_limit_mb: [64, 32]}, {}]}}", 2))
    lines = [CREATED.format(i, limit, gpu) + P4.format(5 + gpu) for i, limit, gpu in ((0, 64, 0), (1, 32, 0), (2, 7111, 1))]
    shown = shell("run", path, "--log-creation")
    assert shown.complaint.splitlines() == lines
    assert shown.output.splitlines()[2:] == [
        f"/job:localhost/replica:0/task:0/device:GPU:1 -> device: 0, {P4.format(5)}",
        f"/job:localhost/replica:0/task:0/device:GPU:2 -> device: 1, {P4.format(6)}",
        "a: (Const): /job:localhost/replica:0/task:0/device:GPU:2",
        "1.0",
    ]
    assert shell("run", path).complaint == ""
    assert shell("run", path, "--no-log-placement", "--log-creation").complaint.splitlines() == lines
    assert shell("run", path, "--no-execute", "--log-creation").complaint.splitlines() == lines
    classic = shell("run", path, "--log-creation", "--log-style", "classic").complaint.splitlines()
    assert classic[2] == "Creating TensorFlow device (/gpu:2) -> (device: 1, name: Tesla P4, pci bus id: 0000:06:00.0)"


def test_the_shells_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "maybe")
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "7000")
    path = shell.write("g.yaml", graph("{allow_growth: true, visible_device_list: '0'}"))
    warning = (
        'The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "maybe". Valid values are "true" '
        'or "false". Using original config value of 1.'
    )
    assert json.loads(shell("run", path, "--format", "json").output)["warnings"] == [warning]
    assert shell("run", path, "--log-creation").complaint.splitlines() == [CREATED.format(0, 611, 0) + P4.format(5), warning]
    ended = shell("devices", path, "--format", "json")
    assert ended.complaint == f"{warning}\n"
    (allocator,) = json.loads(ended.output)["allocators"]
    assert (allocator["allow_growth"], allocator["memory_limit"]) == (True, 611 << 20)


REFUSED = [
    (
        "{visible_device_list: '7'}",
        1,
        "InvalidArgumentError: 'visible_device_list' listed an invalid Device id '7' but visible device count is 2",
    ),
    (
        "{experimental: {virtual_devices: [{}]}}",
        1,
        "UnknownError: The number of valid GPUs doesn't match the number of elements in the virtual_devices list. "
        "#valid GPUs: 2 virtual_devices.size(): 1",
    ),
    (
        "{per_process_gpu_memory_fraction: 1.0e-12}",
        2,
        "UsageError: no memory for GPU:0: got a limit of 0 bytes out of the 7980711936 of a Tesla P4, expected options that "
        "leave memory",
    ),
]


@pytest.mark.parametrize(("options", "code", "message"), REFUSED)
@pytest.mark.parametrize("command", ["run", "place", "devices", "explain"])
def test_what_cant_be_had_is_told_with_its_place(shell: Shell, command: str, options: str, code: int, message: str) -> None:
    path = shell.write("g.yaml", graph(options))
    ended = shell(command, path, *(["a"] if command == "explain" else []))
    assert ended.code == code
    assert f"{message}\n  at {path}:5:16\n" in (ended.output if command == "explain" and code == 1 else ended.complaint)


def test_an_error_is_told_after_the_log(shell: Shell) -> None:
    path = shell.write("g.yaml", graph("{allocator_type: buddy}"))
    for command in ("run", "devices"):
        assert shell(command, path).complaint.splitlines() == [
            "Invalid allocator type: buddy",
            "InternalError: Failed to get memory allocator for TF GPU 0 with 7456423936 bytes of memory.",
            f"  at {path}:5:16",
        ]
