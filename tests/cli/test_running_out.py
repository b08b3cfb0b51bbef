"""A device that runs out of memory, as a user meets it: the error, TensorFlow's log, and the flags that change them."""

from __future__ import annotations

import json

from tests.cli.shell import Shell

GRAPH = """
devices: {cpu: 1, gpu: {count: 1, memory: 16MiB}}
nodes:
  - {op: Fill, name: x, inputs: [[2000, 1500], 1.0]}
  - {op: Sqrt, name: root, inputs: [x]}
  - {op: Exp, name: power, inputs: [x]}
fetch: [x, root, power]
"""
DEVICE = "/job:localhost/replica:0/task:0/device:GPU:0"
SAID = f"OOM when allocating tensor with shape[2000,1500] and type float on {DEVICE} by allocator GPU_0_bfc"


def test_error_with_its_place_and_what_is_in_use(shell: Shell) -> None:
    path = shell.write("g.yaml", GRAPH)
    ended = shell("run", path)
    assert ended.code == 1
    assert ended.output == ""
    lines = ended.complaint.splitlines()
    assert lines[:2] == [f"ResourceExhaustedError: {SAID}", f"  [[node root (defined at {path}:5)]]"]
    assert lines[2].startswith("  Hint: If you want to see a list of allocated tensors when OOM happens")
    assert lines[3:6] == [
        "  16.00MiB of 16.00MiB of GPU_0_bfc are in use when 11.44MiB are requested",
        "  at least 6.89MiB more are needed here",
        "  16.00MiB x: until /job:localhost/replica:0/task:0/device:CPU:0 has received it",
    ]
    assert "--no-memory-limit" in lines[-1]


def test_tensorflow_s_list_in_the_place_of_its_hint(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", GRAPH), "--report-tensor-allocations-upon-oom")
    assert ended.code == 1
    assert "Hint" not in ended.complaint
    assert f"  Current usage from device: {DEVICE}, allocator: GPU_0_bfc\n  16.00MiB from x\n" in ended.complaint


def test_tensorflow_s_log_comes_before_the_error(shell: Shell) -> None:
    path = shell.write("g.yaml", GRAPH)
    ended = shell("run", path, "--log-memory")
    assert (ended.code, ended.output) == (1, "")
    log, _, error = ended.complaint.partition("ResourceExhaustedError: ")
    assert error == shell("run", path).complaint.removeprefix("ResourceExhaustedError: ")
    assert log.startswith("W bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to allocate 11.44MiB")
    kernels = [line for line in log.splitlines() if "op_kernel.cc" in line]
    # both kernels were ready when the first one failed
    assert kernels == [f"W op_kernel.cc:1858] OP_REQUIRES failed at cwise_ops_common.h:321 : RESOURCE_EXHAUSTED: {SAID}"] * 2
    assert log.count("local_rendezvous.cc:412] Local rendezvous is aborting with status: RESOURCE_EXHAUSTED: ") == 1


def test_without_a_limit_it_runs(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", GRAPH), "--no-memory-limit", "--log-memory")
    assert (ended.code, ended.complaint) == (0, "")
    assert ended.output.startswith("x:\n[[1. 1. 1. ")


def test_json_holds_the_error(shell: Shell) -> None:
    path = shell.write("g.yaml", GRAPH)
    ended = shell("run", path, "--format", "json", "--log-memory")
    assert ended.code == 1
    error = json.loads(ended.output)["error"]
    assert (error["type"], error["node"], error["location"]) == ("ResourceExhaustedError", "root", f"{path}:5:5")
    assert error["message"].startswith(f"{SAID}\n\t [[{{{{node root}}}}]]\nHint: ")
    assert "BFCAllocator dump for GPU_0_bfc" in ended.complaint


def test_a_cpu_with_a_limit_runs_out_too(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", GRAPH.replace("cpu: 1", "cpu: {count: 1, memory: 16MiB}")), "--gpu", "0")
    assert ended.code == 1
    assert "by allocator bfc_cpu_allocator_for_gpu" in ended.complaint


def test_initial_values_that_do_not_fit_are_no_defect(shell: Shell) -> None:
    graph = """
devices: {cpu: {count: 1, memory: 1MiB}}
nodes:
  - {variable: v, shape: [1000, 1000], initializer: zeros}
  - {initializer: init}
run: [{fetch: [init]}, {fetch: [v]}]
"""
    ended = shell("run", shell.write("g.yaml", graph))
    assert ended.code == 1
    assert "OOM when allocating tensor with shape[1000,1000] and type float" in ended.complaint
    assert "defect" not in ended.complaint
