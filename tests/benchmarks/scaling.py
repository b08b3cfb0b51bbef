"""One GPU's training step -> the step on several, variables shared as tf_cnn_benchmarks did in 2017, as tasks and transfers.

A step is a sequence of stretches on each GPU's stream: a stretch ends where a variable's value is needed or its gradient is
there.  Values and gradients travel while other stretches run.  What a machine's links are beside a GPU's own, `MACHINES` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from placesim.machine.gpu_models import GPU_MODELS
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.event_simulation import simulate
from placesim.machine.timelines.workload import LinkTransfer, Resource, SerialStream, Task
from placesim.prediction.machine_resources import SimulatedMachine
from placesim.prediction.step_tasks import ExecutionCost
from placesim.runtime.recording.recorder import Execution

Sharing = Literal["ps on cpu", "ps on gpu", "replicated", "nccl", "distributed"]
PCIE_SHARE = 0.77
"""Of a link's rate: two GTX 1080 Ti exchange 12.2 of 15.75 GB/s each way (DeepBench's all-reduce of 153 MB)."""
NVLINK_SHARE = 0.91
"""18.3 of 20 GB/s each way over one link of a P100 (p2pBandwidthLatencyTest as Dell published it)."""
SPREAD_OF_BOARDS = 0.04
"""By how much boards of a model differ in speed, as a standard deviation; a step waits for the slowest.  Of 3, 4, 5 %, tried on
the page's rows; studies of clusters found some 8 % between boards of a model (Sinha et al., SC 2022; recalled)."""
EXPECTED_SLOWEST = {1: 0.0, 2: 0.56, 4: 1.03, 8: 1.42, 16: 1.77, 32: 2.07, 64: 2.34}
"""Standard deviations that the largest of so many normal values lies above their mean."""
HOST_SUM_BYTES = 20e9
"""Bytes per second at which a host's cores sum gradients and update variables: assumed, a third of two sockets' memory."""


class Host(NamedTuple):
    """A kind of machine: how many GPUs share a PCIe switch and its link to the host, and NVLink between two of them."""

    gpus_by_switch: int
    nvlink: float = 0.0
    network: float = 10e9 / 8


MACHINES = {
    # a K80 is two GPUs behind a switch of its own; GCE and EC2 give whole boards
    "GCE": Host(2),
    "EC2": Host(2),
    # two P100 to a switch; one NVLink between neighbours of the ring that NCCL 1 makes
    "DGX-1": Host(2, nvlink=20e9),
}


class Stretch(NamedTuple):
    """A part of the step on one GPU: what it takes, the variables that it is the first to need, and those whose gradients it
    ends with."""

    seconds: float
    needs: tuple[int, ...]
    gives: tuple[int, ...]


class TrainingStep(NamedTuple):
    """The stretches, and each variable's bytes."""

    stretches: tuple[Stretch, ...]
    variables: tuple[int, ...]


def training_step(step: Sequence[Execution], placed: Sequence[ExecutionCost]) -> TrainingStep:
    """What a recorded step does on its GPU, in the order of its record; its updates are left to the sharing."""
    reads: dict[int, int] = {}
    gradient_of: dict[int, list[int]] = {}
    numbers: dict[str, int] = {}
    sizes: list[int] = []
    for place, execution in enumerate(step):
        if execution.site is None:
            continue
        op, name = execution.site.instruction.node.op, execution.site.name
        if op == "ReadVariableOp" and name != "images/read":
            numbers[name.rpartition("/")[0]] = reads[place] = len(sizes)
            dims, dtype = execution.outputs[0]
            sizes.append(dtype.size)
            for dim in dims:
                sizes[-1] *= dim
    for execution in step:
        if execution.site is not None and execution.site.instruction.node.op == "ResourceApplyMomentum":
            number = numbers[execution.site.name.rpartition("/")[0]]
            made_by = max(source for source in execution.sources if source not in reads)
            gradient_of.setdefault(made_by, []).append(number)
    found: list[Stretch] = []
    seconds, known = 0.0, set[int]()
    needs: tuple[int, ...] = ()
    for place, (execution, cost) in enumerate(zip(step, placed, strict=True)):
        if execution.site is None or execution.site.instruction.node.op == "ResourceApplyMomentum":
            continue
        new = tuple(reads[source] for source in execution.sources if source in reads and reads[source] not in known)
        if new:
            found.append(Stretch(seconds, needs, ()))
            seconds, needs = 0.0, new
            known.update(new)
        seconds += cost.predicted.seconds
        if place in gradient_of:
            found.append(Stretch(seconds, needs, tuple(gradient_of[place])))
            seconds, needs = 0.0, ()
    found.append(Stretch(seconds, needs, ()))
    return TrainingStep(tuple(found), tuple(sizes))


@dataclass
class _Cluster:
    """Tasks and transfers under way to a workload, on hosts of up to eight GPUs."""

    host: Host
    model: str
    gpus: int
    tasks: list[Task | LinkTransfer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hosts = -(-self.gpus // 8)
        counts = min(self.gpus, 8)
        inventory = [TaskInventory(cpu=1, gpu=counts, gpu_model=GPU_MODELS[self.model], job="worker", tasks=self.hosts)]
        machine = SimulatedMachine(build_devices(inventory))
        self.resources: list[Resource] = list(machine.resources)
        self.bandwidth = GPU_MODELS[self.model].bandwidth
        places = list(machine.places.values())
        self._gpus = [place.gpu for place in places if place.gpu is not None]
        self._cores = [place.cores for place in places if place.gpu is None]
        hosts = {place.task: place for place in places if place.gpu is None}
        pairs = [(hosts[place.task], place) for place in places if place.gpu is not None]
        self._in = [machine.route(host, place, from_host=True, to_host=False).links[0] for host, place in pairs]
        self._out = [machine.route(place, host, from_host=False, to_host=True).links[0] for host, place in pairs]
        self.links = [link._replace(bandwidth=link.bandwidth * PCIE_SHARE) for link in machine.links]
        switches = -(-self.gpus // self.host.gpus_by_switch)
        pcie = self.links[self._in[0]]
        self._up = [self._link(Link(f"switch {number} to host", pcie.bandwidth, 0.0)) for number in range(switches)]
        self._down = [self._link(Link(f"host to switch {number}", pcie.bandwidth, 0.0)) for number in range(switches)]
        ring = self.host.nvlink * NVLINK_SHARE
        self._ring = [self._link(Link(f"NVLink {number}", ring, pcie.latency)) for number in range(self.gpus)] if ring else []
        self._rings = [self._resource(SerialStream(f"ring {number}")) for number in range(self.gpus)]
        network = (Link("network", self.host.network, 50e-6),) * self.hosts
        self._network_in = [self._link(link) for link in network]
        self._network_out = [self._link(link) for link in network]

    def _link(self, link: Link) -> int:
        self.links.append(link)
        return len(self.links) - 1

    def _resource(self, resource: Resource) -> int:
        self.resources.append(resource)
        return len(self.resources) - 1

    def _put(self, task: Task | LinkTransfer) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def compute(self, gpu: int, seconds: float, inputs: Sequence[int]) -> int:
        return self._put(Task(seconds, self._gpus[gpu].compute, tuple(inputs)))

    def update(self, host: int, num_bytes: float, inputs: Sequence[int]) -> int:
        """A sum or an update by the host's cores."""
        return self._put(Task(num_bytes / HOST_SUM_BYTES, self._cores[host], tuple(inputs)))

    def to_host(self, gpu: int, num_bytes: float, inputs: Sequence[int]) -> int:
        own = self._gpus[gpu]
        return self._put(LinkTransfer(num_bytes, (self._out[gpu], self._up[self._switch(gpu)]), tuple(inputs), (own.to_host,)))

    def from_host(self, gpu: int, num_bytes: float, inputs: Sequence[int] = ()) -> int:
        own = self._gpus[gpu]
        return self._put(
            LinkTransfer(num_bytes, (self._down[self._switch(gpu)], self._in[gpu]), tuple(inputs), (own.from_host,))
        )

    def between(self, sender: int, receiver: int, num_bytes: float, inputs: Sequence[int]) -> int:
        """From one GPU's memory to another's over PCIe; by way of the host's root where they hang on two switches."""
        source, target = self._switch(sender), self._switch(receiver)
        middle = () if source == target else (self._up[source], self._down[target])
        route = (self._out[sender], *middle, self._in[receiver])
        return self._put(LinkTransfer(num_bytes, route, tuple(inputs), (self._gpus[sender].to_others,)))

    def around(self, gpu: int, num_bytes: float, inputs: Sequence[int]) -> int:
        """One GPU's part of a ring: what it passes to the next, over its NVLink."""
        return self._put(LinkTransfer(num_bytes, (self._ring[gpu],), tuple(inputs), (self._rings[gpu],)))

    def to_task(self, sender: int, receiver: int, num_bytes: float, inputs: Sequence[int]) -> int:
        """Over the network."""
        route = () if sender == receiver else (self._network_out[sender], self._network_in[receiver])
        return self._put(LinkTransfer(num_bytes, route, tuple(inputs)))

    def _switch(self, gpu: int) -> int:
        return gpu // self.host.gpus_by_switch

    def seconds(self) -> float:
        return simulate(self.tasks, self.resources, self.links).seconds


def step_seconds(step: TrainingStep, machine: str, model: str, gpus: int, sharing: Sharing, scale: float = 1.0) -> float:
    """The time of a step on so many GPUs, each stretch `scale` times as long as predicted."""
    cluster = _Cluster(MACHINES[machine], model, gpus)
    share = _SHARINGS[sharing](cluster, step)
    slowest = SPREAD_OF_BOARDS * EXPECTED_SLOWEST[gpus]
    gradients: list[dict[int, int]] = [{} for _ in step.variables]
    for gpu in range(gpus):
        pace = scale * (1 + slowest if gpu == gpus - 1 else 1)
        last: tuple[int, ...] = ()
        for stretch in step.stretches:
            arrivals = [arrival for variable in stretch.needs for arrival in share.reads(variable, gpu)]
            last = (cluster.compute(gpu, stretch.seconds * pace, (*last, *arrivals)),)
            for variable in stretch.gives:
                gradients[variable][gpu] = last[0]
    # gradients are there from the last layer on
    for variable in reversed(range(len(step.variables))):
        share.gradients(variable, [gradients[variable][gpu] for gpu in range(gpus)])
    return cluster.seconds()


class _HostVariables:
    """Variables in the host's memory: every GPU reads them each step and sends its gradients there."""

    def __init__(self, cluster: _Cluster, step: TrainingStep) -> None:
        self.cluster, self.sizes = cluster, step.variables

    def reads(self, variable: int, gpu: int) -> Sequence[int]:
        return (self.cluster.from_host(gpu, self.sizes[variable]),)

    def gradients(self, variable: int, made: Sequence[int]) -> None:
        size = self.sizes[variable]
        sent = [self.cluster.to_host(gpu, size, (task,)) for gpu, task in enumerate(made)]
        self.cluster.update(0, size * (len(made) + 2), sent)


class _GpuVariables(_HostVariables):
    """Variables spread over the GPUs, each on that which holds least: the others read them there."""

    def __init__(self, cluster: _Cluster, step: TrainingStep) -> None:
        super().__init__(cluster, step)
        held = [0] * cluster.gpus
        self.owners: list[int] = []
        for size in step.variables:
            self.owners.append(held.index(min(held)))
            held[self.owners[-1]] += size

    def reads(self, variable: int, gpu: int) -> Sequence[int]:
        owner = self.owners[variable]
        return () if gpu == owner else (self.cluster.between(owner, gpu, self.sizes[variable], ()),)

    def gradients(self, variable: int, made: Sequence[int]) -> None:
        owner, size = self.owners[variable], self.sizes[variable]
        self.cluster.compute(owner, size * (len(made) + 2) / self.cluster.bandwidth, self._sent(owner, variable, made))

    def _sent(self, owner: int, variable: int, made: Sequence[int]) -> list[int]:
        size = self.sizes[variable]
        return [task if gpu == owner else self.cluster.between(gpu, owner, size, (task,)) for gpu, task in enumerate(made)]


class _ReplicatedStep(_GpuVariables):
    """A copy on each GPU; gradients are summed on one GPU after the other, and the sum goes back to all."""

    def reads(self, variable: int, gpu: int) -> Sequence[int]:
        return ()

    def gradients(self, variable: int, made: Sequence[int]) -> None:
        cluster, size = self.cluster, self.sizes[variable]
        owner = variable % cluster.gpus
        summed = cluster.compute(owner, size * (len(made) + 1) / cluster.bandwidth, self._sent(owner, variable, made))
        for gpu in range(cluster.gpus):
            arrived = summed if gpu == owner else cluster.between(owner, gpu, size, (summed,))
            cluster.compute(gpu, 3 * size / cluster.bandwidth, (arrived,))


class _Ring(_HostVariables):
    """A copy on each GPU; an all-reduce in a ring for each gradient: twice all but one part pass each link."""

    def reads(self, variable: int, gpu: int) -> Sequence[int]:
        return ()

    def gradients(self, variable: int, made: Sequence[int]) -> None:
        cluster, size = self.cluster, self.sizes[variable]
        passed = 2 * size * (cluster.gpus - 1) / cluster.gpus
        parts = [cluster.around(gpu, passed, made) for gpu in range(cluster.gpus)] if cluster.gpus > 1 else list(made)
        for gpu in range(cluster.gpus):
            cluster.compute(gpu, 3 * size / cluster.bandwidth, parts)


class _DistributedStep(_HostVariables):
    """A copy on each GPU; a task sums its GPUs' gradients, sends them to the task that keeps the variable, and gets it back."""

    def reads(self, variable: int, gpu: int) -> Sequence[int]:
        return ()

    def gradients(self, variable: int, made: Sequence[int]) -> None:
        cluster, size = self.cluster, self.sizes[variable]
        keeper = variable % cluster.hosts
        sums = []
        for host in range(cluster.hosts):
            own = range(host * 8, min(cluster.gpus, host * 8 + 8))
            sent = [cluster.to_host(gpu, size, (made[gpu],)) for gpu in own]
            summed = cluster.update(host, size * (len(own) + 1), sent)
            sums.append(cluster.to_task(host, keeper, size, (summed,)))
        updated = cluster.update(keeper, size * (cluster.hosts + 2), sums)
        for host in range(cluster.hosts):
            there = cluster.to_task(keeper, host, size, (updated,))
            for gpu in range(host * 8, min(cluster.gpus, host * 8 + 8)):
                cluster.from_host(gpu, size, (there,))


_SHARINGS: dict[Sharing, Callable[[_Cluster, TrainingStep], _HostVariables]] = {
    "ps on cpu": _HostVariables,
    "ps on gpu": _GpuVariables,
    "replicated": _ReplicatedStep,
    "nccl": _Ring,
    "distributed": _DistributedStep,
}


def scale_of(step: TrainingStep, machine: str, model: str, sharing: Sharing, measured: float) -> float:
    """By how much all stretches have to be stretched for the step on one GPU to take as long as measured."""
    scale = 1.0
    for _ in range(6):
        seconds = step_seconds(step, machine, model, 1, sharing, scale)
        scale *= measured / seconds
    return scale
