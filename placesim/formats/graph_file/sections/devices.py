"""Reader of `devices`: the simulated inventory, of one machine or of several tasks."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from placesim.formats.graph_file.plain_values import int_value, line_value, size_value
from placesim.formats.graph_file.sections.hosts import positive_rate, rate_value, read_host, read_rates
from placesim.formats.problems import FileProblems, InvalidValue, spell, value_position
from placesim.machine.gpu_models import DEFAULT_MODEL, GPU_MODELS, GpuFigures, GpuModel, near_models
from placesim.machine.inventory import MAX_COUNT, MAX_DEVICES, TaskInventory, count_devices

COUNT_KEYS = ("cpu", "gpu", "xla_cpu", "xla_gpu", "host")
TASK_KEYS = ("job", "tasks", *COUNT_KEYS)
CPU_KEYS = ("count", "memory")
GPU_KEYS = ("count", "model", "memory")
MODEL_KEYS = ("name", "memory", "compute_capability", "pci_bus_id", "flops", "bandwidth", "rates", "launch")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")


def read_devices(tree: Any, position: int, problems: FileProblems) -> tuple[TaskInventory, ...]:
    """Read the inventory: counts of one machine, or a list of tasks. Invalid values are reported, and defaults are used."""
    if isinstance(tree, list | tuple):
        found = tuple(_read_task(tree, index, problems) for index in range(len(tree)))
        if (count := count_devices(found)) > MAX_DEVICES:
            problems.add(position, f"too many devices: got {count}, expected at most {MAX_DEVICES} in all tasks together")
            return found[:0]
        return found
    return (_read_counts(problems.mapping(tree, position, "'devices'"), COUNT_KEYS, problems),)


def _read_task(tree: Any, index: int, problems: FileProblems) -> TaskInventory:
    task = problems.mapping(tree[index], value_position(tree, index), "an entry of 'devices'")
    entry = _read_counts(task, TASK_KEYS, problems)
    job = problems.read_or_default(task, "job", _job, "localhost")
    tasks = problems.read_or_default(task, "tasks", lambda value: int_value(value, 0, MAX_COUNT, "'tasks'"), 1)
    return entry._replace(job=job, tasks=tasks)


def _job(value: Any) -> str:
    if not isinstance(value, str) or not _JOB.fullmatch(value):
        raise InvalidValue(f"bad job name: got {spell(value)}, expected a letter and then letters, digits or _")
    return value


def _read_counts(tree: dict[Any, Any], known: tuple[str, ...], problems: FileProblems) -> TaskInventory:
    problems.unknown_keys(tree, known, "'devices'")
    entry = TaskInventory()
    if isinstance(tree.get("cpu"), dict):
        entry = _read_cpus(tree["cpu"], entry, problems)
    for key in ("xla_cpu", "xla_gpu") if isinstance(tree.get("cpu"), dict) else ("cpu", "xla_cpu", "xla_gpu"):
        entry = entry._replace(
            **{key: problems.read_or_default(tree, key, partial(count_value, what=key), getattr(entry, key))}
        )
    if "host" in tree:
        entry = entry._replace(host=read_host(tree["host"], value_position(tree, "host"), problems))
    if isinstance(tree.get("gpu"), dict):
        return _read_gpus(tree["gpu"], entry, problems)
    return entry._replace(gpu=problems.read_or_default(tree, "gpu", lambda value: count_value(value, "gpu"), 0))


def count_value(value: Any, what: str) -> int:
    """Return a number of devices or tasks. Raises InvalidValue."""
    return int_value(value, 0, MAX_COUNT, f"the count of '{what}'")


def _read_cpus(tree: dict[Any, Any], entry: TaskInventory, problems: FileProblems) -> TaskInventory:
    problems.unknown_keys(tree, CPU_KEYS, "'cpu'")
    count = problems.read_or_default(tree, "count", lambda value: count_value(value, "cpu"), 1)
    return entry._replace(cpu=count, cpu_memory=problems.read_or_default(tree, "memory", size_value, None))


def _read_gpus(tree: dict[Any, Any], entry: TaskInventory, problems: FileProblems) -> TaskInventory:
    problems.unknown_keys(tree, GPU_KEYS, "'gpu'")
    count = problems.read_or_default(tree, "count", lambda value: count_value(value, "gpu"), 1)
    if isinstance(tree.get("model"), dict):
        model = _read_model(tree["model"], value_position(tree, "model"), problems)
    else:
        model = problems.read_or_default(tree, "model", model_value, DEFAULT_MODEL)
    memory = problems.read_or_default(tree, "memory", size_value, model.memory)
    return entry._replace(gpu=count, gpu_model=model._replace(memory=memory))


def model_value(value: Any) -> GpuModel:
    """Return a model of the catalogue by its name. Raises InvalidValue for an unknown name."""
    if isinstance(value, GpuModel):
        return value
    if not isinstance(value, str) or value not in GPU_MODELS:
        expected = "expected one in the catalogue, or a mapping that describes the GPU"
        raise InvalidValue(f"unknown GPU model: got {spell(value)}, {expected}{near_models(value)}")
    return GPU_MODELS[value]


def _read_model(tree: dict[Any, Any], position: int, problems: FileProblems) -> GpuModel:
    problems.unknown_keys(tree, MODEL_KEYS, "a GPU model")
    if "name" not in tree:
        problems.add(position, "no name of a GPU model: got nothing, expected 'name'")
    name = problems.read_or_default(tree, "name", lambda value: line_value(value, "'name'"), "")
    unknown = DEFAULT_MODEL._replace(name=name, flops=0.0, bandwidth=0.0, pci_bus_ids=(), figures=GpuFigures())
    known = GPU_MODELS.get(name, unknown)
    figures: dict[str, Any] = dict(read_rates(tree, problems))
    figures["launch"] = problems.read_or_default(tree, "launch", partial(positive_rate, what="'launch'"), known.figures.launch)
    return known._replace(
        memory=problems.read_or_default(tree, "memory", size_value, known.memory),
        compute_capability=problems.read_or_default(tree, "compute_capability", _capability, known.compute_capability),
        pci_bus_ids=problems.read_or_default(tree, "pci_bus_id", _bus_ids, known.pci_bus_ids),
        flops=problems.read_or_default(tree, "flops", partial(rate_value, what="'flops'"), known.flops),
        bandwidth=problems.read_or_default(tree, "bandwidth", partial(rate_value, what="'bandwidth'"), known.bandwidth),
        figures=known.figures._replace(**figures),
    )


def _capability(value: Any) -> str:
    text = str(value) if type(value) is float else value
    if not isinstance(text, str) or not _CAPABILITY.fullmatch(text):
        raise InvalidValue(f"bad compute capability: got {spell(value)}, expected MAJOR.MINOR such as 3.5")
    return text


_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")


def _bus_ids(value: Any) -> tuple[str, ...]:
    listed = list(value) if isinstance(value, list | tuple) else [value]
    for text in listed:
        if not isinstance(text, str) or not _BUS_ID.fullmatch(text):
            raise InvalidValue(f"bad PCI bus id: got {spell(text)}, expected one such as 0000:05:00.0")
    return tuple(listed)
