"""Patches of scripts: the `tf.device` lines that decide a node's request."""

from __future__ import annotations

from placesim.core.errors import Location
from placesim.inspection.explaining.annotations import Annotation, AnnotationKind
from placesim.machine.device_names import parse_runtime_name
from placesim.studies.plan_patches import requested_parts


def _line(number: int, text: str) -> Annotation:
    return Annotation(AnnotationKind.SCOPE, number, text, "n", Location("script.py", number, 1))


def test_a_line_around_another_one_gives_only_the_rest_of_the_request() -> None:
    inner, outer = _line(2, "/gpu:0"), _line(1, "/job:ps/gpu:1")
    parts = dict(requested_parts((inner, outer), {}))
    planned = parse_runtime_name("/job:ps/replica:0/task:0/device:GPU:0")
    assert planned is not None
    assert all(part.matches(planned) for part in parts.values())
    assert (parts[outer].job, parts[outer].type, parts[outer].id) == ("ps", None, None)
    changed = dict(requested_parts((inner, outer), {inner: "/gpu:1"}))
    assert [line for line, part in changed.items() if not part.matches(planned)] == [inner]
