"""Why a node is where it is."""

from __future__ import annotations

from placesim.machine.device_names import ANY, DeviceName
from placesim.placement.colocation import Cause
from placesim.placement.constraints import SoftStep
from placesim.placement.placer import Placement, place_graph
from placesim.placement.reasons import DeviceChoice, Reason
from placesim.placement.rewrites import isolate_calls_in
from tests.placement.toy import CPU, GPU, fixture_devices, toy_graph


def _place(text: str, soft: bool = True) -> Placement:
    graph, assigned = toy_graph(text)
    assert not assigned
    placement = place_graph(isolate_calls_in(graph), fixture_devices(2), soft)
    assert placement.error is None, placement.error
    return placement


def _reason(placement: Placement, name: str) -> Reason:
    return placement.reason(placement.graph.ids[name])


def _names(placement: Placement, ids: tuple[int, ...]) -> list[str]:
    return [placement.graph.nodes[i].name for i in ids]


def test_an_identity_at_a_call_gets_a_name_that_is_free() -> None:
    graph, _ = toy_graph("in:TestInput v:HandleVariableCPU v_y:TestInput y:ResourceIdentity(v) a:TestHandleAssign(y,in)")
    names = [node.name for node in isolate_calls_in(graph).nodes]
    assert names == ["in", "v", "v_y", "y", "a", "v_y_0", "y_a"]


def test_a_node_alone_takes_its_first_candidate() -> None:
    placement = _place("in:TestInput n:TestRelu(in)")
    reason = _reason(placement, "n")
    assert reason.requested == reason.group_requested == ANY
    assert reason.types == ((GPU, 0), (CPU, 0))
    names = [device.name.rpartition("/device:")[2] for device in reason.candidates]
    assert names == ["FakeGPU:0", "FakeGPU:1", "FakeCPU:0", "FakeCPU:1", "COMPOSITE:0"]
    assert reason.device is reason.candidates[0]
    assert (reason.choice, reason.followed, reason.members, reason.unions) == (DeviceChoice.DEFAULT, None, (), ())
    assert (reason.soft_step, reason.overridden, reason.ignored) == (SoftStep.NONE, None, ())


def test_a_reference_overrides_a_request() -> None:
    placement = _place("var:TestVariable@CPU:1 in:TestInput assign:TestAssign(var,in)@GPU:0")
    reason = _reason(placement, "assign")
    assert reason.requested == DeviceName(type=GPU, id=0)
    assert reason.group_requested == reason.group_resource == DeviceName(type=CPU, id=1)
    assert reason.overridden == (0, DeviceName(type=GPU, id=0), DeviceName(type=CPU, id=1))
    assert _names(placement, reason.members) == ["var", "assign"]
    assert [(union.x, union.y, union.cause, union.detail) for union in reason.unions] == [(0, 2, Cause.EDGE, 0)]
    assert reason.followed == 0


def test_a_label_joins_and_the_first_of_the_group_is_followed() -> None:
    placement = _place("a:TestCPUGPUOutput b:TestRelu(a){c} c:ReluCPU(b)")
    reason = _reason(placement, "a")
    assert (reason.choice, reason.followed) == (DeviceChoice.GENERATOR_FOLLOWS_CONSUMERS, 1)
    reason = _reason(placement, "c")
    assert [(union.cause, union.detail) for union in reason.unions] == [(Cause.LABEL, "c")]
    assert (reason.types, reason.followed) == (((CPU, 0),), 1)
    assert reason.group_assigned == ANY


def test_metadata_and_identities_follow_their_input() -> None:
    placement = _place("in:TestInput a:ReluCPU(in) s:Shape(a) i:Identity(a)")
    assert (_reason(placement, "s").choice, _reason(placement, "s").followed) == (DeviceChoice.METADATA_FOLLOWS_INPUT, 1)
    assert (_reason(placement, "i").choice, _reason(placement, "i").followed) == (DeviceChoice.IDENTITY_FOLLOWS_INPUT, 1)


def test_soft_placement_says_how_far_it_went() -> None:
    placement = _place("in:TestDevice@GPU:11 ds:CreateDatasetSP@CPU:0 it:IteratorGPU(ds)")
    assert _reason(placement, "in").soft_step == SoftStep.WITHOUT_TYPE_AND_ID
    assert _reason(placement, "it").soft_step == SoftStep.WITHOUT_RESOURCE
    assert _reason(placement, "it").group_resource == DeviceName(type=CPU, id=0)


def test_a_label_that_soft_placement_passes_over_is_kept() -> None:
    placement = _place("in:TestInput a:ReluCPU(in){in} b:ReluGPU(in){in,a}")
    reason = _reason(placement, "b")
    assert [ignored.label for ignored in reason.ignored] == ["in", "a"]
    assert reason.ignored[0].conflict.sentence(placement.graph) == (
        "Cannot colocate nodes {{colocation_node b}} and {{colocation_node in}} "
        "because no device type supports both of those nodes and the other nodes colocated with them."
    )


def test_a_function_joins_what_it_passes_on() -> None:
    placement = _place("a:_Arg<resource>@CPU:1 y:ResourceIdentity(a) r:_Retval<resource>(y:0)")
    reason = _reason(placement, "r")
    assert _names(placement, reason.members) == ["a", "r", "a_y", "y_r"]
    causes = {(union.cause, union.detail) for union in reason.unions}
    assert (Cause.FUNCTION, "y") in causes
    assert reason.device is not None
    assert reason.device.name.endswith("FakeCPU:1")


def test_a_node_that_was_placed_before_stays() -> None:
    graph, assigned = toy_graph("in:TestCPUGPUOutput!CPU:1 n:TestRelu(in){in}")
    placement = place_graph(graph, fixture_devices(2), assigned=assigned)
    reason = _reason(placement, "in")
    assert (reason.choice, reason.followed) == (DeviceChoice.ASSIGNED, None)
    assert reason.group_assigned.id == 1
    assert _reason(placement, "n").followed == 0
