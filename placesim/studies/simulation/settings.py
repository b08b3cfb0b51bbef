"""Settings from a graph file and options: the session's config, machine and devices, file access, and steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.releases import Release
from placesim.formats.sources.loading import LoadedGraph, memory_limit, read_bytes
from placesim.machine.gpu_memory import GpuLogLine, GpuProcess
from placesim.machine.gpu_models import find_gpu_model
from placesim.machine.inventory import Device, TaskInventory
from placesim.machine.links import NO_LINKS, MachineLinks, merge_links
from placesim.machine.options import MACHINE, SimulationOptions

if TYPE_CHECKING:
    from pathlib import PurePath

    from placesim.core.files.access import FileAccess
    from placesim.graph.graph import Graph
    from placesim.graph.session_steps import Config, Fetch, GraphFile, GraphStep
    from placesim.machine.memory.allocator_log import DumpLine as MemoryLogLine
    from placesim.runtime.accounting.ledger import Ledger


def session_config(file: GraphFile, options: SimulationOptions) -> Config:
    """Return the config of the file, overridden by the options."""
    return override_config(file.config, options)


def override_config(config: Config, options: SimulationOptions) -> Config:
    """Return the config, overridden by the options."""
    given: dict[str, Any] = {
        "allow_soft_placement": options.soft_placement,
        "log_device_placement": options.log_placement,
        "intra_op_parallelism_threads": options.intra_op_threads,
        "inter_op_parallelism_threads": options.inter_op_threads,
        "memory_limit": memory_limit(options),
        "do_constant_folding": options.optimize,
        "fuses_ops": False if options.no_fusion else None,
        "operation_timeout_in_ms": None if options.timeout is None else max(1, round(options.timeout * 1000)),
    }
    flags = {"CPU": options.cpu, "GPU": options.gpu}
    counts = tuple((kind, count) for kind, count in config.device_count if flags.get(kind) is None)
    return replace(config, device_count=counts, **{name: value for name, value in given.items() if value is not None})


def session_devices(
    tasks: Sequence[TaskInventory],
    config: Config,
    options: SimulationOptions,
    log: Callable[[GpuLogLine], None],
    release: Release,
) -> tuple[Device, ...]:
    from placesim.runtime.sessions.visible_devices import build_session_devices

    return build_session_devices(tasks, config, options.environment, options.process, log, release)


def open_ledger(
    machine: Sequence[Device],
    options: SimulationOptions,
    process: GpuProcess | None,
    log: Callable[[MemoryLogLine], object] | None = None,
    *,
    is_told: bool = False,
) -> Ledger | None:
    """Return the accounting of device memory, if any device has a limit or memory is reported; else None."""
    if not is_told and all(device.allocation_limit is None for device in machine):
        return None
    from placesim.runtime.accounting.ledger_setup import build_ledger
    from placesim.runtime.accounting.out_of_memory import ReportOptions

    report = ReportOptions(options.report_tensor_allocations_upon_oom)
    return build_ledger(machine, has_limits=not options.no_memory_limit, report=report, log=log, process=process)


def file_access(loaded: LoadedGraph, options: SimulationOptions) -> FileAccess:
    """Return the file access of a graph.

    The graph may read its own folder and paths that the options name, and write paths that the options allow.
    """
    from placesim.core.files.access import FileAccess, checkpoint_files
    from placesim.graph.session_steps import file_of_feed

    named: list[str | PurePath] = [loaded.folder, *options.readable_paths]
    for value in options.feed.values():
        path = file_of_feed(value)
        if path is not None:
            named.append(loaded.directory / path)
    if options.checkpoint is not None:
        named += checkpoint_files(options.checkpoint)
    return FileAccess.of(named, options.writable_paths, options.allow_all_files)


class MachineSettings(NamedTuple):
    """The devices of each task, and the links between them."""

    tasks: tuple[TaskInventory, ...]
    links: MachineLinks


def build_machine_settings(file: GraphFile | None, options: SimulationOptions) -> MachineSettings:
    """Return the machine of the file or the `inventory`, overridden by counts, models and links in the options."""
    tasks = (file.inventory if file is not None else None) or (TaskInventory(),)
    links = NO_LINKS if file is None else file.links
    if options.inventory is not None:
        tasks, links = _read_inventory(options.inventory)
    if options.link:
        from placesim.formats.graph_file.sections.overrides import parse_links

        links = links._replace(given=parse_links(options.link))
    given: dict[str, Any] = {"cpu": options.cpu, "gpu": options.gpu}
    if options.gpu_model is not None:
        given["gpu_model"] = find_gpu_model(options.gpu_model)
    values = {name: value for name, value in given.items() if value is not None}
    tasks = tuple(task._replace(**values) for task in tasks)
    for profile in options.profiles:
        for known in _read_inventory(profile, is_profile=True)[0]:
            tasks = tuple(_with_profile(task, known) for task in tasks)
    if options.link:
        from placesim.formats.graph_file.sections.links import check_given

        check_given(links.given, tasks)
    return MachineSettings(tasks, links)


def with_machine(file: GraphFile, options: SimulationOptions) -> GraphFile:
    """Return a graph's file with the machine and the links of the options, if they describe some."""
    if all(getattr(options, name) in (None, ()) for name in (*MACHINE, "link", "profile")):
        return file
    from placesim.formats.graph_file.sections.links import inventory_tasks

    settings = build_machine_settings(file, options)
    links = settings.links._replace(entries=merge_links(settings.links, inventory_tasks(settings.tasks)), given=())
    is_own = all(getattr(options, name) in (None, ()) for name in (*MACHINE, "profile"))
    return replace(file, inventory=file.inventory if is_own else settings.tasks, links=links)


def _with_profile(task: TaskInventory, known: TaskInventory) -> TaskInventory:
    """Return `task` with the host of `known`, and also with its GPU figures if both have the same GPU model."""
    own, other = task.gpu_model, known.gpu_model
    if own.name == other.name:
        own = own._replace(flops=other.flops, bandwidth=other.bandwidth, figures=other.figures)
    return task._replace(host=known.host or task.host, gpu_model=own)


def _read_inventory(source: Any, *, is_profile: bool = False) -> tuple[tuple[TaskInventory, ...], MachineLinks]:
    from placesim.formats.graph_file.sections.overrides import read_inventory

    kind = "profile" if is_profile else "inventory"
    content, file = (source, kind) if isinstance(source, Mapping) else (read_bytes(source, kind), str(source))
    return read_inventory(content, file, is_profile=is_profile)


def build_steps(
    loaded: LoadedGraph, file: GraphFile, options: SimulationOptions, *, one_by_one: bool = False
) -> tuple[GraphStep, ...]:
    """Return the steps of the file, overridden by `fetch` and `feed`.

    With `one_by_one`, a step that runs several times with different feeds becomes one step per repetition. If `fetch` is given,
    one step with the feeds of the last step replaces all steps that fetch a tensor. Steps that only run targets, such as
    initializers, come before this step. `feed` applies to every step, and replaces feeds of the same tensor. `fetch` and `feed`
    also accept names from a model's signature.
    """
    from placesim.formats.graph_file.sections.overrides import read_feeds
    from placesim.graph.session_steps import GraphStep

    steps = (GraphStep(),) if file.steps is None else file.steps
    if one_by_one and file.each_step is not None:
        steps = file.each_step
    if options.fetch is not None:
        names = (options.fetch,) if isinstance(options.fetch, str) else options.fetch
        feeds = steps[-1].feeds if steps else ()
        kept = [step for step in steps if step.nodes or _runs_targets_only(file, step)]
        steps = (*kept, GraphStep(tuple(fetch for name in names for fetch in _fetches(loaded, file.graph, name)), feeds))
    if not options.feed:
        return steps
    # an ONNX model has no tensor for a sequence or optional that is fed with None
    named = {name: value for name, value in options.feed.items() if value is not None or loaded.onnx is None}
    given = read_feeds(file.graph, {loaded.inputs.get(name, name): value for name, value in named.items()})
    replaced = {feed.tensor for feed in given}
    return tuple(replace(step, feeds=(*(feed for feed in step.feeds if feed.tensor not in replaced), *given)) for step in steps)


def _fetches(loaded: LoadedGraph, graph: Graph, text: str) -> list[Fetch]:
    """Return the fetches for a text of `--fetch`.

    The text names an output of the signature, a variable, an id, or a tensor.
    """
    from placesim.graph.session_steps import Fetch

    names = graph.spelled_out(loaded.outputs.get(text) or graph.values.get(text, text))
    return [Fetch(name, label=text if len(names) == 1 else name) for name in names]


def _runs_targets_only(file: GraphFile, step: GraphStep) -> bool:
    from placesim.runtime.partitioning.step_requests import resolve_fetch

    return bool(step.fetches) and all(resolve_fetch(file.graph, fetch, file.is_raw).tensor is None for fetch in step.fetches)
