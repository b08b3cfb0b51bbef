"""Recorded steps, event by event: the kernels in the order in which they ran, and what each allocated, forwarded and freed.

The recording gives the order of the kernels, the bytes of their outputs and the sizes of their temporaries.  From the graph
and the kernels' memory rules follows all else: whether an output is new, forwarded or shared, every address, what is freed and
when, and the peak.  A rule that needs more than the recording holds (shapes, attrs, values) leaves its kernel to the recording;
how many did is counted.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from placesim.core.dtypes import FLOAT, DataType
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.buffer_sources import AllocatedMemory, JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.machine.memory.sub_allocator import BASE_ADDRESS, host_memory
from placesim.ops.categories import CONTROL_FLOW, ENTERS, EXITS, MERGES
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.memory_rules import (
    ITSELF,
    RESOURCE_BYTES,
    KernelMemory,
    Kind,
    StoreMemory,
    TensorMemory,
    UnknownValue,
    VariableMemory,
)
from placesim.ops.registry import load_registry

KEYS = ("runs", "graph", "nodes")
LIMIT = 16 << 30
TRANSFER = re.compile(r"/_\d+$")
"""How the names of sends and receives end."""
HANDLES = ("VarHandleOp",)
"""Ops whose kernels own their output, which is ready before anything runs; the recording does not name them."""
MAKERS = ("StackV2", "TensorArrayV3")
"""Ops that make what keeps tensors."""
REFERENCES = ("VariableV2", "Variable", "TemporaryVariable")
KERNELS = load_kernels()
REGISTRY = load_registry()


class _UnknownAttrs(Mapping[str, Any]):
    """The attrs of a recorded node, which the recording does not hold."""

    def __getitem__(self, name: str) -> Any:
        raise UnknownValue

    def get(self, name: str, default: Any = None) -> Any:
        raise UnknownValue

    def __iter__(self) -> Iterator[str]:
        raise UnknownValue

    def __len__(self) -> int:
        raise UnknownValue


class Tensor(TensorMemory):
    """A tensor of which only the bytes are known; `name` is that of the variable which it refers to."""

    __slots__ = ("_size", "name")

    def __init__(self, size: int, buffer: Buffer | None = None, *, is_ref: bool = False, name: str = "") -> None:
        self._size = size
        self.buffer = buffer
        self.value = None
        self.is_ref = is_ref
        self.on_host = False
        self.name = name

    @property
    def size(self) -> int:
        return self._size

    @property
    def elements(self) -> int:
        raise UnknownValue

    @property
    def dims(self) -> tuple[int, ...]:  # type: ignore[override]
        raise UnknownValue

    @property
    def dtype(self) -> DataType:  # type: ignore[override]
        raise UnknownValue

    @property
    def kind(self) -> Kind:
        """Nothing runs out of memory here."""
        return (), FLOAT

    def again(self) -> Tensor:
        """The same tensor, held once more."""
        self.hold()
        return Tensor(self._size, self.buffer, is_ref=self.is_ref, name=self.name)

    def shared(self) -> Tensor:
        return self.again()


class RecordedKernel(KernelMemory):
    """A kernel whose tensors are known by their bytes: equal bytes stand for equal type and shape."""

    def allocate(self, output: int = 0) -> None:
        tensor = self.outputs[output]
        self._is_made[output] = True
        if tensor.size:
            tensor.buffer = self._source.allocate(tensor.size, self.owner)

    def find_forwardable(self, output: int, *inputs: int) -> int | None:
        size = self.outputs[output].size
        for index in inputs:
            tensor = self.inputs[index]
            if tensor.buffer is not None and tensor.buffer.is_sole and not tensor.is_ref and tensor.size == size:
                return index
        return None


class _Replay:
    """A model's runs, one after the other, on one allocator."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case
        self.ops = {name: op for name, op, _ in case["graph"]}
        self.inputs = {name: [text for text in inputs if not text.startswith("^")] for name, _, inputs in case["graph"]}
        allocator = BfcAllocator(case.get("allocator", "GPU_0_bfc"), LIMIT, host_memory(), BfcOptions(allow_growth=False))
        self.source = AllocatedMemory(allocator)
        self.variables: defaultdict[str, VariableMemory] = defaultdict(VariableMemory)
        self.stores: defaultdict[str, StoreMemory] = defaultdict(StoreMemory)
        self.constants: dict[str, Buffer | None] = {}
        self.frames = self._find_frames()
        self.by_rule = self.by_recording = 0

    def _find_frames(self) -> dict[str, str]:
        """For each node in a loop, the name of one of the loop's nodes that stands for it; loops in loops count as one."""
        found: dict[str, str] = {}

        def root(name: str) -> str:
            while found[name] != name:
                name = found[name]
            return name

        before = -1
        while before != len(found):  # and once more, when all members are known, along the edges that lead back
            before = len(found)
            for name, op, _ in self.case["graph"]:
                inside = [text.partition(":")[0] for text in self.inputs[name]]
                joined = [i for i in inside if i in found and self.ops[i] not in EXITS]
                if op in ENTERS:
                    found.setdefault(name, name)
                for other in joined:
                    found[root(found.setdefault(name, name))] = root(other)
        return {name: root(name) for name in found}

    def differences(self) -> Iterator[str]:
        """Every way in which the runs differ."""
        for number, run in enumerate(self.case["runs"]):
            for difference in _Run(self, run).differences():
                yield f"run {number}: {difference}"

    def address(self, buffer: Buffer | None) -> int | None:
        """Where a buffer lies, as the recording counts; None for one that is no allocator's."""
        if buffer is None or buffer.root.source is None:
            return None
        return int(buffer.root.place.address - BASE_ADDRESS)


class KernelRun(NamedTuple):
    """A kernel that ran: what it allocated and freed while it did, its outputs, and what was freed right after it."""

    name: str
    inner: list[tuple[str, int, int]]
    outputs: list[tuple[int, int | None, int, str]]
    after: list[int]


class KernelConstruction(NamedTuple):
    """A kernel was made, and allocated what it owns."""

    name: str
    size: int
    address: int


class TensorRelease(NamedTuple):
    """The client dropped a tensor that it had fetched."""

    address: int


def parse_events(names: Sequence[str], events: Sequence[Sequence[Any]]) -> list[KernelRun | KernelConstruction | TensorRelease]:
    """A run's events, one entry for each kernel; a receive that waits while others run counts where it ends."""
    found: list[KernelRun | KernelConstruction | TensorRelease] = []
    opened: list[tuple[int, list[tuple[str, int, int]]]] = []
    outputs: list[tuple[int, int | None, int, str]] = []
    after: list[int] = []
    for kind, *facts in events:
        if kind == "s":
            opened.append((facts[0], []))
        elif kind == "a" and facts[4].startswith(("output", "temp", "dynamic")) and opened:
            next(inner for node, inner in reversed(opened) if node == facts[0]).append(("a", facts[1], facts[3]))
        elif kind == "a":
            found.append(KernelConstruction(names[facts[0]] if facts[0] >= 0 else "", facts[1], facts[3]))
        elif kind == "o":
            outputs.append(tuple(facts))
        elif kind == "e":
            position = next(i for i in reversed(range(len(opened))) if opened[i][0] == facts[0])
            _, inner = opened.pop(position)
            found.append(KernelRun(names[facts[0]], inner, outputs, after := []))
            outputs = []
        elif kind == "f" and opened and _is_running(names, opened[-1][0]):
            opened[-1][1].append(("f", 0, facts[0]))
        elif kind == "f":
            after.append(facts[0])
        elif kind == "F":
            found.append(TensorRelease(facts[0]))
    return found


def _is_running(names: Sequence[str], node: int) -> bool:
    """Whether it is no receive, which starts at once and then waits."""
    return TRANSFER.search(names[node]) is None


class _Run:
    """One step."""

    def __init__(self, replay: _Replay, run: Mapping[str, Any]) -> None:
        self.replay = replay
        self.run = run
        names = replay.case["nodes"]
        self.entries = parse_events(names, run["events"])
        self.edges: defaultdict[tuple[str, int], deque[Tensor]] = defaultdict(deque)
        self.last: dict[tuple[str, int], Tensor] = {}
        self.fetched: list[Tensor] = []
        self.constants: defaultdict[str, list[Tensor]] = defaultdict(list)
        self.ends = self._ends()
        taking_part = {entry.name for entry in self.entries if isinstance(entry, KernelRun)}
        self.readers: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for name in taking_part:
            for position, text in enumerate(replay.inputs.get(name, [])):
                producer, _, slot = text.partition(":")
                self.readers[producer, int(slot or 0)].append((name, position))
            if name.startswith("_retval_"):
                producer, slot, _ = name.removeprefix("_retval_").rsplit("_", 2)
                self.readers[producer, int(slot)].append((name, 0))

    def differences(self) -> Iterator[str]:
        """Every event that differs from what the rules say."""
        replay, source = self.replay, self.replay.source
        source.forget_peak()
        expected = self.run.get("in_use_before", source.in_use)
        if source.in_use != expected:
            yield f"{source.in_use} bytes in use before, expected {expected}"
        for entry in self.entries:
            if isinstance(entry, KernelConstruction):
                buffer = replay.constants[entry.name] = source.allocate(entry.size, entry.name)
                if replay.address(buffer) != entry.address:
                    yield f"{entry.name} made at {replay.address(buffer)}, expected {entry.address}"
            elif isinstance(entry, TensorRelease):
                yield from self._let_go(entry.address)
            elif entry.name in replay.ops or entry.name.startswith(("_arg_", "_retval_")):
                for difference in self._executed(entry):
                    yield f"{entry.name}: {difference}"
        for name, found in (("in_use_after", source.in_use), ("peak", source.peak)):
            if found != self.run.get(name, found):
                yield f"{name} {found}, expected {self.run[name]}"

    def _ends(self) -> dict[str, KernelRun]:
        """The last kernel of each loop, by its name."""
        last: dict[str, KernelRun] = {}
        for entry in self.entries:
            frame = self.replay.frames.get(entry.name) if isinstance(entry, KernelRun) else None
            if frame is not None and isinstance(entry, KernelRun):
                last[frame] = entry
        return {entry.name: entry for entry in last.values()}

    def _let_go(self, address: int) -> Iterator[str]:
        found = [tensor for tensor in self.fetched if self.replay.address(tensor.buffer) == address]
        if not found:
            yield f"nothing is fetched at {address}"
        for tensor in found:
            self.fetched.remove(tensor)
            tensor.release()

    def _executed(self, entry: KernelRun) -> Iterator[str]:
        replay, source = self.replay, self.replay.source
        op = replay.ops.get(entry.name, "")
        inputs = self._inputs(entry.name)
        journal: list[JournalEntry] = []
        source.journal = journal
        outputs = [Tensor(0) for _ in range(1 + max((facts[0] for facts in entry.outputs), default=-1))]
        for index, _, size, kind in entry.outputs:
            outputs[index] = Tensor(size, is_ref=bool(kind))
        if op in REFERENCES:
            outputs = [Tensor(0, is_ref=True, name=entry.name)]
        if entry.name.startswith("_arg_"):
            outputs[0].buffer = Buffer(None, outputs[0].size)
        elif entry.name.startswith("_retval_"):
            self.fetched += [tensor.shared() for tensor in inputs]
        elif op in REFERENCES:
            outputs[0].buffer = replay.variables[entry.name].buffer
        elif op in CONTROL_FLOW:
            for index, *_ in entry.outputs:
                if index < (1 if op in MERGES else len(outputs)):
                    outputs[index] = inputs[0].again()
        else:
            self._run_rule(entry, op, inputs, outputs)
        made = [("a" if is_made else "f", replay.address(buffer)) for buffer, is_made, *_ in journal]
        wanted = [(kind, address) for kind, _, address in entry.inner]
        if made != wanted:
            yield f"allocates and frees {made}, expected {wanted}"
        for index, address, *_ in entry.outputs:
            if not self._lies_at(outputs[index], address):
                yield f"output {index} at {replay.address(outputs[index].buffer)}, expected {address}"
        journal.clear()
        for tensor in inputs:
            tensor.release()
        self._pass_on(entry, op, outputs)
        freed = [replay.address(buffer) for buffer, *_ in journal]
        if freed != entry.after:
            yield f"then frees {freed}, expected {entry.after}"

    def _inputs(self, name: str) -> list[Tensor]:
        found = []
        texts = self.replay.inputs.get(name, ["retval"] if name.startswith("_retval_") else [])
        for position, text in enumerate(texts):
            producer = text.partition(":")[0]
            queue = self.edges[name, position]
            if self.replay.ops.get(producer) == "Const":
                buffer = self.replay.constants.get(producer)
                found.append(Tensor(0 if buffer is None else buffer.size, None if buffer is None else buffer.hold()))
            elif self.replay.ops.get(producer) in HANDLES:
                found.append(Tensor(RESOURCE_BYTES, name=producer))
            elif queue:
                self.last[name, position] = tensor = queue.popleft()
                found.append(self._dereferenced(name, position, tensor))
            elif self.replay.ops.get(name) in MERGES:
                continue  # it takes what has come
            elif (name, position) in self.last and self.replay.ops.get(producer) in ENTERS:
                found.append(self.last[name, position].again())
            else:
                raise AssertionError(f"{name} ran before its input {text}")
        return found

    def _dereferenced(self, name: str, position: int, tensor: Tensor) -> Tensor:
        """A variable's value, where a reference comes to an op that wants no reference."""
        definition = REGISTRY.op(self.replay.ops.get(name, "Identity"))
        assert definition is not None
        args = definition.inputs
        wants_ref = position < len(args) and args[position].is_ref
        if not tensor.is_ref or wants_ref:
            return tensor
        buffer = self.replay.variables[tensor.name].buffer
        return Tensor(0 if buffer is None else buffer.size, None if buffer is None else buffer.hold())

    def _run_rule(self, entry: KernelRun, op: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        replay = self.replay
        variables = {i: replay.variables[tensor.name] for i, tensor in enumerate(inputs) if tensor.name}
        for i, tensor in enumerate(inputs):
            if tensor.is_ref:
                tensor.buffer = variables[i].buffer
        stores = {i: replay.stores[tensor.name] for i, tensor in enumerate(inputs) if tensor.name}
        stores[ITSELF] = replay.stores[entry.name]
        memory = RecordedKernel(entry.name, inputs, outputs, _UnknownAttrs(), replay.source, variables=variables, stores=stores)
        try:
            memory.run(KERNELS[op].memory)
            replay.by_rule += 1
        except UnknownValue:
            replay.by_recording += 1
            assert replay.source.journal is not None
            replay.source.journal.clear()
            self._follow(entry, inputs, outputs, variables)
        if op in MAKERS:
            outputs[0].name = entry.name
        for tensor in outputs:
            if tensor.is_ref:
                tensor.name = next(given.name for given in inputs if given.is_ref)
                tensor.buffer = replay.variables[tensor.name].buffer

    def _follow(
        self, entry: KernelRun, inputs: list[Tensor], outputs: list[Tensor], variables: Mapping[int, VariableMemory]
    ) -> None:
        """Do what the recording says that the kernel did."""
        source = self.replay.source
        made: dict[int, Buffer] = {}
        for kind, size, address in entry.inner:
            if kind == "a":
                made[address] = source.allocate(size, entry.name)
            elif address in made:
                made.pop(address).release()
        held = [tensor.buffer for tensor in inputs] + [memory.buffer for memory in variables.values()]
        for index, place, _, kind in entry.outputs:
            address = -1 if place is None else place
            if kind:
                if address in made:
                    old, variables[0].buffer = variables[0].buffer, made[address]
                    if old is not None:
                        old.release()
            elif address in made:
                outputs[index].buffer = made[address]
            elif address is not None:
                outputs[index].buffer = next(
                    (self._part(buffer, address) for buffer in held if self._holds(buffer, address)), None
                )

    def _holds(self, buffer: Buffer | None, address: int) -> bool:
        start = self.replay.address(buffer)
        return buffer is not None and start is not None and start <= address < start + buffer.root.allocated

    def _part(self, buffer: Buffer | None, address: int) -> Buffer | None:
        assert buffer is not None
        return buffer.hold() if self.replay.address(buffer) == address and buffer.root is buffer else buffer.view()

    def _lies_at(self, tensor: Tensor, address: int | None) -> bool:
        if address is None or address < 0:
            return self.replay.address(tensor.buffer) is None
        return self._holds(tensor.buffer, address)

    def _pass_on(self, entry: KernelRun, op: str, outputs: Sequence[Tensor]) -> None:
        name = entry.name
        if name.startswith("_arg_"):
            name = name.removeprefix("_arg_").rsplit("_", 2)[0]
        produced = range(1) if op in REFERENCES else [index for index, *_ in entry.outputs]
        for index in produced:
            readers = self.readers[name, index]
            for reader in readers:
                self.edges[reader].append(outputs[index].again())
            if op in ENTERS and any(self.replay.ops.get(reader) not in MERGES for reader, _ in readers):
                self.constants[self.replay.frames[name]].append(outputs[index])  # its frame holds it
            else:
                outputs[index].release()
        if self.ends.get(entry.name) is entry:
            for tensor in self.constants.pop(self.replay.frames[entry.name], []):
                tensor.release()


def differences(case: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which a model's memory differs from the recording."""
    yield from _Replay(case).differences()
