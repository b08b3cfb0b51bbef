"""TensorFlow's own placer tests, rebuilt with their toy ops: all rows of the manual's page placer-scenarios, by number."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from placesim.core.errors import FailedPreconditionError, InternalError, InvalidArgumentError, OpError, UnimplementedError
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement, place_graph
from placesim.placement.rewrites import isolate_calls_in
from tests.placement.toy import SHORT, device_set, fixture_devices, toy_graph

FLAT, NESTED = fixture_devices(), fixture_devices(1)
JOB_B_GPU_CPU = device_set(["/job:b/replica:0/task:0/device:FakeGPU:0", "/job:b/replica:0/task:1/device:FakeCPU:0"])
ONE_TASK = device_set(["/job:b/replica:0/task:0/device:FakeGPU:0", "/job:b/replica:0/task:0/device:FakeCPU:0"])
REMOTE_GPU = device_set(["/job:b/replica:0/task:1/device:FakeGPU:0", "/job:b/replica:0/task:0/device:FakeCPU:0"])
ONLY_CPU = device_set(["/job:a/replica:0/task:0/device:FakeCPU:0"])
TWO_TASKS = device_set([f"/job:b/replica:0/task:{task}/device:FakeCPU:0" for task in (0, 1)])
NO_DEVICES = device_set([])


class Row(NamedTuple):
    """A scenario: rows of the manual's page, a graph in `toy_graph`'s words, and what must come of it.

    `expected` has words `names=WHAT`, names joined by commas: a type, `TYPE:id`, a full device name, or another node, whose
    device it must be; `names!WHAT` is the contrary.  `soft` lists the modes that the test is run in.
    """

    number: int
    graph: str
    expected: str = ""
    error: type[OpError] | None = None
    texts: tuple[str, ...] = ()
    soft: tuple[bool, ...] = (True,)
    devices: DeviceSet = FLAT
    default_device: str | None = None


HARD, BOTH = (False,), (True, False)
INVALID = InvalidArgumentError
NO_COMMON_TYPE = "because no device type supports both of those nodes and the other nodes colocated with them"


def _colocate(x: str, y: str) -> str:
    return f"Cannot colocate nodes {{{{colocation_node {x}}}}} and {{{{colocation_node {y}}}}}"


FIRST_ROWS = (
    Row(1, "in:TestInput n1:TestRelu(in:0) n2:TestRelu(in:1)", "in=CPU n1,n2=GPU"),
    Row(2, "in:TestInput n1:TestDatasetOp(in:0) n2:TestDatasetOp(in:1)", "in,n1,n2=CPU"),
    Row(3, "in:TestInput n1:TestXlaOp(in:0) n2:TestXlaOp(in:1)!XLA_CPU:0", "in,n1=CPU n2=XLA_CPU"),
    Row(4, "in:TestGPUOutput n1:TestDatasetOp(in)", "in=GPU n1=CPU"),
    Row(5, "in:TestGPUOutput n1:TestDatasetOp(in){in} n2:TestDatasetOp(in)", "in,n1=GPU n2=CPU"),
    Row(6, "ds:CreateDatasetSP it:IteratorNP(ds)", "ds,it=CPU"),
    Row(7, "ds:CreateDatasetRP it:IteratorNP(ds)", "ds,it=GPU"),
    Row(8, "ds:CreateDatasetNP it:IteratorSP(ds)", "ds,it=CPU"),
    Row(9, "ds:CreateDatasetNP it:IteratorRP(ds)", "ds,it=GPU"),
    Row(10, "ds:CreateDatasetSP it:IteratorGPU(ds)", "ds,it=GPU"),
    Row(11, "ds:CreateDatasetCPU it:IteratorRP(ds)", "ds,it=CPU"),
    Row(12, "ds:CreateDatasetSP it:IteratorSP(ds)", "ds,it=CPU"),
    Row(13, "ds:CreateDatasetRP it:IteratorRP(ds)", "ds,it=GPU"),
    Row(14, "ds:CreateDatasetSP it:IteratorRP(ds)", "ds,it=GPU"),
    Row(15, "ds:CreateDatasetRP it:IteratorSP(ds)", "ds,it=GPU"),
    Row(
        16,
        "in:TestInput var_cpu:VariableCPU assign_cpu:AssignCPU(var_cpu,in) "
        "var_gpu:VariableGPU assign_gpu:AssignGPU(var_gpu,in)",
        "in,var_cpu=CPU assign_cpu=var_cpu var_gpu=GPU assign_gpu=var_gpu",
    ),
    Row(17, "var_cpu:VariableCPU shape_op:Shape(var_cpu)", "var_cpu=CPU shape_op=var_cpu"),
    Row(18, "var_cpu:VariableCPU in:TestCPUGPUOutput assign:TestAssign(var_cpu,in)", "var_cpu=CPU in,assign=var_cpu"),
    Row(19, "var_cpu:VariableCPU in:TestGPUOutput assign:TestAssign(var_cpu,in)", "in=GPU var_cpu=CPU assign=var_cpu"),
    Row(
        20,
        "var_cpu:VariableCPU in:TestCPUGPUOutput@CPU:1 assign:TestAssign(var_cpu,in)",
        "in=CPU:1 var_cpu=CPU:0 assign=var_cpu",
    ),
    Row(21, "in:TestInput@/job:a var:TestVariable@/job:a", "in=CPU:0 var=GPU:0"),
    Row(22, "in:TestInput!CPU:7", "in=CPU:7"),
    Row(23, "in:TestInput@GPU:0 var:TestVariable@GPU:0", "in=CPU var=GPU:0"),
    Row(24, "ds:CreateDatasetSP@CPU:0 it:IteratorGPU(ds)", "ds,it=GPU"),
    Row(
        25,
        "in:TestInput!GPU:0",
        error=InternalError,
        texts=(
            "Assigned device '/job:a/replica:0/task:0/device:FakeGPU:0' does not have registered OpKernel support "
            "for TestInput",
        ),
    ),
)


def _pairs(number: int, variables: tuple[str, str, str], assigns: tuple[str, str, str], kind: str) -> tuple[Row, ...]:
    """Rows 26 and 27: each kind of variable (any, CPU, GPU) with each kind of assignment."""
    rows = []
    for i, variable in enumerate(variables):
        for j, assign in enumerate(assigns):
            graph = f"in:TestInput var:{variable} assign:{assign}(var,in)"
            if {i, j} == {1, 2}:
                rows.append(
                    Row(number, graph, error=INVALID, texts=(_colocate("var", "assign"), "no device type supports both"))
                )
            else:
                rows.append(Row(number, graph, f"var={'CPU' if 1 in (i, j) else 'GPU'} assign=var"))
    return tuple(rows)


PAIR_ROWS = (
    *_pairs(26, ("TestVariable", "VariableCPU", "VariableGPU"), ("TestAssign", "AssignCPU", "AssignGPU"), "ref"),
    *_pairs(
        27,
        ("TestHandleVariable", "HandleVariableCPU", "HandleVariableGPU"),
        ("TestHandleAssign", "HandleAssignCPU", "HandleAssignGPU"),
        "resource",
    ),
    Row(
        26,
        "in:TestInput " + " ".join(f"var_{i}:TestVariable assign_{i}:TestAssign(var_{i},in)" for i in range(10)),
        " ".join(f"var_{i}=GPU assign_{i}=var_{i}" for i in range(10)),
    ),
)

_HANDLES = "TestHandleVariable{0}CPU:0 gpu:TestHandleVariable{0}GPU:0 two:TestTwoHandlesIn(cpu,gpu)"
_VS = ("/device:FakeGPU:0", "/device:FakeCPU:0")
_TASK = "/job:a/replica:0/task:0"
_EDGE = (
    "Cannot place the graph because a reference or resource edge connects colocation groups with "
    "incompatible {} devices: {} vs {}"
)
_COLOCATED = "in:TestInput colocated_1:TestRelu(in){in} "
_ENFORCED = (
    "in:TestInput var_gpu:VariableGPU force_gpu:TestDeviceEnforce(var_gpu)@CPU:0 "
    "var_cpu:VariableCPU force_cpu:TestDeviceEnforce(var_cpu)@GPU:0"
)
_UNSATISFIABLE = (
    "in:TestInput var1:VariableCPU var2:VariableCPU var3:VariableGPU assign1:TestAssign(var1,in){var1} "
    "assign2:TestAssign(var2,in){var2} assign3:TestAssign(var3,in){var2}"
)
_GROUPS = "in:TestInput var1:VariableCPU var2:VariableCPU assign1:TestAssign(var1,in){var1} assign2:TestAssign(var2,in){var2}"


def _many_groups() -> tuple[str, str]:
    """Row 39: ten pairs, and ninety that are colocated with six of their variables and three of their assignments."""
    graph = ["in:TestInput", *(f"var_{i}:TestVariable assign_{i}:TestAssign(var_{i},in)" for i in range(10))]
    expected = [f"assign_{i}=var_{i}" for i in range(100)]
    for i in range(10, 100):
        graph.append(f"var_{i}:TestVariable{{var_{i % 6}}} assign_{i}:TestAssign(var_{i},in){{assign_{i % 3}}}")
        expected.append(f"var_{i}=var_{i % 6} assign_{i}=assign_{i % 3}")
    return " ".join(graph), " ".join(expected)


EDGE_AND_GROUP_ROWS = (
    Row(28, f"cpu:{_HANDLES.format('@')}", error=INVALID, texts=(_EDGE.format("resource", *_VS),), soft=BOTH),
    Row(
        28,
        f"cpu:TestHandleVariable@{_TASK}/device:FakeCPU:0 gpu:TestHandleVariable@{_TASK}/device:FakeGPU:0 "
        "two:TestTwoHandlesIn(cpu,gpu)",
        error=INVALID,
        texts=(_EDGE.format("resource", *(_TASK + end for end in _VS)),),
        soft=BOTH,
    ),
    Row(
        28,
        f"cpu:{_HANDLES.format('!')}",
        error=INVALID,
        texts=(_EDGE.format("assigned", *(_TASK + end for end in _VS)),),
        soft=BOTH,
    ),
    Row(
        29,
        "in:TestDevice@/job:a/task:0/device:FakeGPU:0 var_0:TestVariable@/job:a/task:0/device:FakeGPU:0 "
        "assign:TestAssign(var_0,in)@/job:a/task:0/device:FakeCPU:0",
        "var_0,assign=GPU",
        soft=HARD,
    ),
    Row(
        30,
        "in:TestCPUGPUOutput@/job:a/task:0 var_0:TestVariable@/job:a/task:0 "
        "assign:TestAssign(var_0,in)@/job:a/task:0/device:FakeCPU:0",
        "var_0,assign=CPU",
        soft=HARD,
    ),
    Row(
        31,
        "in:TestDevice@/job:a/task:0/device:FakeGPU:0 var_0:TestVariable "
        "assign:TestAssign(var_0,in)@/job:a/task:0/device:FakeCPU:0",
        "var_0,assign=CPU",
        soft=HARD,
    ),
    Row(32, "in:TestInput var:HandleVariableCPU!COMPOSITE:0 assign:TestHandleAssign(var,in)", "var,assign=COMPOSITE"),
    Row(32, "in:TestInput var:HandleVariableCPU!COMPOSITE:0 assign:TestHandleAssign(var,in)!CPU:0", "var=COMPOSITE assign=CPU"),
    Row(33, _COLOCATED + "foo:TestRelu(in)", "colocated_1=in foo!in"),
    Row(34, _COLOCATED + "foo:TestRelu(in){in,colocated_1}", "colocated_1,foo=in"),
    Row(35, _COLOCATED + "foo:TestRelu(in){colocated_1}", "colocated_1,foo=in"),
    Row(36, "in:TestInput colocated_1:ReluCPU(in){in} foo:ReluGPU(in){in,colocated_1}", "in,colocated_1=CPU foo=GPU"),
    Row(
        36,
        "in:TestInput colocated_1:ReluCPU(in){in} foo:ReluGPU(in){in,colocated_1}",
        error=INVALID,
        texts=(f"{_colocate('foo', 'in')} {NO_COMMON_TYPE}",),
        soft=HARD,
    ),
    Row(37, _GROUPS, "in=CPU var1,var2,assign1,assign2=in"),
    Row(
        37,
        _GROUPS + " var3:VariableCPU@COMPOSITE:0 assign3:TestAssign(var3,in){var3}",
        "in=CPU var1,var2,assign1,assign2=in var3,assign3=COMPOSITE",
    ),
    Row(38, _UNSATISFIABLE, "assign1=var1 assign2=var2 assign3=var3"),
    Row(38, _UNSATISFIABLE, error=INVALID, texts=(f"{_colocate('assign3', 'var2')} {NO_COMMON_TYPE}.",), soft=HARD),
    Row(39, *_many_groups()),
)

DEVICE_ROWS = (
    Row(40, "in:TestInput", error=FailedPreconditionError, texts=("No devices are registered",), devices=NO_DEVICES),
    Row(
        41,
        "in:TestInput var:VariableGPU assign:TestAssign(var,in)@/job:b/task:1",
        error=INVALID,
        texts=(
            "colocated with a group of nodes that required incompatible device",
            "VariableGPU: FakeGPU",
            "TestAssign: FakeGPU FakeCPU",
        ),
        devices=JOB_B_GPU_CPU,
    ),
    Row(42, "in:TestInput@/job:foo", error=INVALID, texts=("/job:foo",)),
    Row(43, "in:TestInput@/job:foo", error=INVALID, texts=("/job:foo",)),
    Row(44, "in:TestInput!/job:foo", error=InternalError, texts=("Assigned device '/job:foo' does not match any device",)),
    Row(
        45,
        "var:VariableNoKernels",
        error=INVALID,
        texts=("No OpKernel was registered to support Op 'VariableNoKernels' used by {{node var}}", "<no registered kernels>"),
    ),
    Row(
        46,
        "var:VariableNoKernels@/job:b/replica:0/task:0/device:FakeGPU:0",
        error=INVALID,
        texts=("No OpKernel was registered to support Op 'VariableNoKernels' used by {{node var}}", "<no registered kernels>"),
        soft=HARD,
        devices=ONE_TASK,
        default_device="/job:b/replica:0/task:0/device:FakeCPU:0",
    ),
    Row(
        47,
        "var:VariableNoKernels@/job:b/replica:0/task:1/device:FakeGPU:0",
        "var=/job:b/replica:0/task:1/device:FakeGPU:0",
        soft=HARD,
        devices=REMOTE_GPU,
        default_device="/job:b/replica:0/task:0/device:FakeCPU:0",
    ),
    Row(
        48,
        "var:VariableGPU",
        error=INVALID,
        texts=("No OpKernel was registered to support Op 'VariableGPU' used by {{node var}}", "device='FakeGPU'"),
        devices=ONLY_CPU,
    ),
    Row(49, "in:TestInput@/foo:bar", error=INVALID, texts=("Malformed device specification '/foo:bar'",)),
    Row(50, "in:TestInput!/foo:bar", error=InternalError, texts=("Malformed assigned device '/foo:bar'",)),
    Row(51, "in:TestInput!/job:a", error=InternalError, texts=("Assigned device '/job:a' does not match any device",)),
    Row(52, "in:TestDevice@GPU:11", "in=GPU:0"),
    Row(53, "in:TestDevice@GPU:11", error=INVALID, texts=("/device:FakeGPU:11",), soft=HARD),
    Row(54, "in:TestDevice@GPU:11", error=INVALID, texts=("Cannot assign a device for operation in", "{{node in}}"), soft=HARD),
    Row(
        55,
        "var:VariableGPU@CPU:0",
        error=INVALID,
        texts=("/device:FakeCPU:0", "no supported kernel for FakeCPU devices is available"),
        soft=HARD,
    ),
    Row(
        56,
        "var:VariableGPU@/job:foo/replica:17",
        error=INVALID,
        texts=("was explicitly assigned to /job:foo/replica:17", "but available devices"),
        soft=HARD,
    ),
    Row(
        57,
        "var:VariableGPU@/device:gpu:0",
        error=INVALID,
        texts=("was explicitly assigned to /device:gpu:0 but available devices are",),
        soft=HARD,
    ),
    Row(58, "a:TestInput@GPU:0", "a=CPU"),
    Row(59, _ENFORCED, "var_gpu,force_gpu=GPU var_cpu,force_cpu=CPU"),
    Row(60, "var:VariableGPU in:TestInput assign:AssignCPU(var,in)", error=INVALID, texts=(_colocate("var", "assign"),)),
)

_TWO_VARIABLES = "in:TestCPUGPUOutput assign1:TestAssign(var1_cpu,in) assign2:TestAssign(var2_cpu,in)"
_IDENTITIES = "id1:Identity<resource>(id_a){id2} id2:Identity<resource>(id_b)"
RESOURCE_ROWS = (
    Row(61, f"var1_cpu:VariableCPU var2_cpu:VariableCPU {_TWO_VARIABLES}", "var1_cpu=CPU var2_cpu,in,assign1,assign2=var1_cpu"),
    Row(
        62,
        f"var1_cpu:VariableCPU!CPU:1 var2_cpu:VariableCPU!CPU:2 {_TWO_VARIABLES}",
        "var1_cpu=CPU:1 var2_cpu=CPU:2 assign1=var1_cpu assign2=var2_cpu in=GPU",
    ),
    Row(
        63,
        "a:_Arg<resource>@GPU:0 b:_Arg<resource>@CPU:0 id1:Identity<resource>(a){id2} id2:Identity<resource>(b)",
        "a,id1=GPU b,id2=CPU",
    ),
    Row(
        63,
        "a:_Arg<resource>@GPU:0 b:_Arg<resource>@CPU:0 id1:Identity<resource>(a){id2} id2:Identity<resource>(b)",
        error=INVALID,
        texts=(
            f"{_colocate('id2', 'id1')}: Cannot merge devices with incompatible types: "
            "'/device:FakeCPU:0' and '/device:FakeGPU:0'",
        ),
        soft=HARD,
    ),
    Row(
        64,
        f"a:_Arg<resource> b:_Arg<resource> id_a:Identity<resource>(a)@GPU:0 id_b:Identity<resource>(b)@CPU:0 {_IDENTITIES}",
        "b,id_a,id_b,id1,id2=a",
    ),
    Row(
        65,
        "a:_Arg<resource>!CPU:0 iter:IteratorGPU(a)",
        error=INVALID,
        texts=(
            "{{colocation_node iter}} was colocated with a group of nodes that required incompatible device "
            "'/job:a/replica:0/task:0/device:FakeCPU:0'",
        ),
    ),
    Row(
        66,
        f"a:_Arg<resource> b:_Arg<resource> id_a:Identity<resource>(a)!GPU:0 id_b:Identity<resource>(b)!CPU:0 {_IDENTITIES}",
        "a,id_a,id1=GPU b,id_b,id2=CPU",
    ),
    Row(
        66,
        f"a:_Arg<resource> b:_Arg<resource> id_a:Identity<resource>(a)!GPU:0 id_b:Identity<resource>(b)!CPU:0 {_IDENTITIES}",
        error=INVALID,
        texts=(
            f"{_colocate('id2', 'id1')}: Cannot merge devices with incompatible types: "
            "'/job:a/replica:0/task:0/device:FakeCPU:0' and '/job:a/replica:0/task:0/device:FakeGPU:0'",
        ),
        soft=HARD,
    ),
)

_OUTPUT = "r1:Identity<resource>(y:0) r2:Identity(y:1)"
_SWAP = "r1:Identity<resource>(y:0) r2:Identity<resource>(y:1)"
_SAME = _EDGE.format("resource", "/device:FakeCPU:0", "/device:FakeGPU:0")
_RESOURCES = "a:_Arg<resource>@CPU:0 b:_Arg<resource>@GPU:0 "
_UNSATISFIED = "Could not satisfy explicit device specification"
FUNCTION_ROWS = tuple(
    row._replace(devices=NESTED)
    for row in (
        Row(67, f"a:_Arg@GPU:0 b:_Arg<resource>@CPU:0 y:ResourceOutput(a,b) {_OUTPUT}", "y=GPU r1=CPU r2=GPU"),
        Row(
            68,
            f"a:_Arg@GPU:0 b:_Arg<resource>@CPU:0 ai:Identity(a) bi:Identity<resource>(b) y:ResourceOutput(ai,bi) {_OUTPUT}",
            "a,ai=GPU b,bi=CPU y=GPU r1=CPU r2=GPU",
        ),
        Row(
            69,
            "a:_Arg@GPU:0 b:_Arg<resource>@CPU:0 y:ResourceOutput(a,b) r1:Identity<resource>(y:0)@GPU:0 r2:Identity(y:1)",
            "y=GPU r1=CPU r2=GPU",
            soft=HARD,
        ),
        Row(70, f"{_RESOURCES} y:Swap(a,b) {_SWAP}", "y=GPU r1=GPU r2=CPU"),
        Row(71, f"{_RESOURCES} y:Swap(a,b)@CPU:0 {_SWAP}", "y=CPU r1=GPU r2=CPU"),
        Row(72, f"a:_Arg<resource> b:_Arg<resource>@GPU:0 y:Swap(a,b)@CPU:0 {_SWAP}", "a,b,r1,r2=GPU y=CPU", soft=HARD),
        Row(73, f"a:_Arg<resource> b:_Arg<resource>@CPU:0 y:Swap(a,b)@CPU:0 {_SWAP}", "a=GPU b,y,r1=CPU r2=GPU", soft=HARD),
        Row(
            74,
            "a:_Arg<resource> b:_Arg<resource>@CPU:0 y:Swap(a,b) r1:Identity<resource>(y:0) r2:Identity<resource>(y:0) "
            "r3:Identity<resource>(y:1)@GPU:0",
            "a,r3=GPU b,r1,r2=CPU",
            soft=HARD,
        ),
        Row(
            75,
            "a:_Arg<resource> y:Swap(a,a)@GPU:0 r1:Identity<resource>(y:0) r2:Identity<resource>(y:1)@CPU:0",
            "a,r1,r2=CPU y=GPU",
            soft=HARD,
        ),
        Row(
            76,
            "a:_Arg<resource> y:Swap(a,a)@GPU:0 r1:Identity<resource>(y:0) r2:Identity<resource>(y:0)@CPU:0 "
            "r3:Identity<resource>(y:1)",
            "a,r1,r2,r3=CPU y=GPU",
            soft=HARD,
        ),
        Row(
            77,
            "a:_Arg<resource> y:Swap(a,a)@GPU:0 r1:Identity<resource>(y:0)@GPU:0 r2:Identity<resource>(y:1)@CPU:0",
            "r1,r2=a",
            soft=HARD,
        ),
        Row(78, "a:_Arg<resource>@CPU:0 y:ResourceIdentity(a) r1:_Retval<resource>(y:0)@GPU:0", "a,r1=CPU"),
        Row(79, "a:_Arg<resource>@CPU:0 y:ResourceIdentity(a)@GPU:0 r1:_Retval<resource>(y:0)@GPU:0", "r1=CPU y=GPU"),
        Row(80, f"{_RESOURCES} y:ResourceIdentity(a) add:Add<resource>(y:0,b)", error=INVALID, texts=(_SAME,)),
        Row(
            81,
            f"{_RESOURCES} y:ResourceIdentity(a) z:ResourceIdentity(b) add:Add<resource>(y:0,z:0)",
            error=INVALID,
            texts=(_SAME,),
        ),
        Row(82, "a:_Arg y:CPUResourceOutput(a) id:Identity<resource>(y:0)!GPU:0", error=INVALID, texts=(_UNSATISFIED,)),
        Row(83, "a:_Arg y:NestedCPUResourceOutput(a) id:_Retval<resource>(y:0)!GPU:0", error=INVALID, texts=(_UNSATISFIED,)),
        Row(
            84,
            f"{_RESOURCES} y:ResourceIdentity(a) w:ResourceIdentity(y:0) z:ResourceIdentity(b) add:Add<resource>(w:0,z:0)",
            error=INVALID,
            texts=(_SAME,),
        ),
        Row(
            85,
            "y:NestedCallFunctionsBackToBack",
            error=INVALID,
            texts=(
                "Nodes were connected by a reference or resource connection (requiring them to be on the same device), "
                "but the two nodes were assigned two different devices",
            ),
        ),
        Row(
            86,
            "a:_Arg<resource> y:RecursiveResourceIdentity(a) r1:_Retval<resource>(y:0)",
            error=UnimplementedError,
            texts=(
                "Recursive function calls are not supported. Node {{node out}} inside the body of {{function_node "
                "RecursiveResourceIdentity}} calls function {{function_node RecursiveResourceIdentity}} which is already "
                "present in the call stack:\n  Graph contains node {{node y}}\n  Node {{node y}} calls function "
                "{{function_node RecursiveResourceIdentity}}",
            ),
        ),
        Row(
            87,
            "a:_Arg<resource> y:RecursiveF1(a) r1:_Retval<resource>(y:0)",
            error=UnimplementedError,
            texts=(
                "Recursive function calls are not supported. Node {{node out}} inside the body of {{function_node RecursiveF2}}"
                " calls function {{function_node RecursiveF1}} which is already present in the call stack:\n"
                "  Graph contains node {{node y}}\n  Node {{node y}} calls function {{function_node RecursiveF1}}\n"
                "  Function {{function_node RecursiveF1}} contains node {{node out}}\n"
                "  Node {{node out}} calls function {{function_node RecursiveF2}}",
            ),
        ),
    )
)

_T1 = "/job:b/replica:0/task:1/device:FakeCPU:0"
_FOLLOWING = f"a:_Arg@{_T1} identity1:Identity(a)@{_T1} identity2:Identity(identity1)"
_READERS = f"cast:Cast(identity2)@{_T1} coo:ConvertToListOfCooTensorsV2(cast)@{_T1}"
IDENTITY_ROWS = (
    Row(88, f"{_FOLLOWING} {_READERS}", f"identity2={_T1}", devices=TWO_TASKS),
    Row(89, _FOLLOWING, "identity2=/job:b/replica:0/task:0/device:FakeCPU:0", devices=TWO_TASKS),
    Row(
        90,
        f"{_FOLLOWING} {_READERS} identity3:Identity(identity2)",
        "identity2=/job:b/replica:0/task:0/device:FakeCPU:0",
        devices=TWO_TASKS,
    ),
)

ROWS = (*FIRST_ROWS, *PAIR_ROWS, *EDGE_AND_GROUP_ROWS, *DEVICE_ROWS, *RESOURCE_ROWS, *FUNCTION_ROWS, *IDENTITY_ROWS)
RUNS = [
    pytest.param(row, soft, id=f"{row.number}-{i}-{'soft' if soft else 'hard'}")
    for i, row in enumerate(ROWS)
    for soft in row.soft
]


def test_every_row_of_the_specification_is_here() -> None:
    assert {row.number for row in ROWS} == set(range(1, 91))


@pytest.mark.parametrize(("row", "soft"), RUNS)
def test_scenario(row: Row, soft: bool) -> None:
    graph, assigned = toy_graph(row.graph)
    names = {graph.nodes[i].name: device for i, device in assigned.items()}
    graph = isolate_calls_in(graph)
    placement = place_graph(
        graph, row.devices, soft, {graph.ids[name]: device for name, device in names.items()}, row.default_device
    )
    if row.error is None:
        assert placement.error is None, placement.error
        for word in row.expected.split():
            _check(placement, word)
    else:
        assert type(placement.error) is row.error
        for text in row.texts:
            assert text in placement.error.message


def _check(placement: Placement, word: str) -> None:
    names, sign, what = word.partition("!" if "!" in word else "=")
    expected = _device(placement, what) if what in placement.graph.ids else _full(what)
    for name in names.split(","):
        assert (expected in f"{_device(placement, name)}:") == (sign == "="), (word, _device(placement, name))


def _device(placement: Placement, name: str) -> str:
    device = placement.devices[placement.graph.ids[name]]
    assert device is not None
    return device.name


def _full(what: str) -> str:
    """`CPU` -> a part of the names of all such devices; a full name stays as it is."""
    if what.startswith("/"):
        return what
    kind, _, number = what.partition(":")
    return f"/device:{SHORT.get(kind, kind)}:{number + ':' if number else ''}"
