"""Shape functions in the notation of `infer_by`."""

import pytest

from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, infer_by


def _outputs(notation: str, *shapes: Dims) -> object:
    return infer_by(notation)(ShapeContext(shapes, {}))


@pytest.mark.parametrize(
    ("notation", "shapes", "outputs"),
    [
        ("[batch, classes], [batch] -> [batch], [batch, classes]", [(-1, 4), (3,)], ((3,), (3, 4))),
        ("[n, ?], [2] -> [n, ?, 7]", [None, None], ((-1, -1, 7),)),
        ("*, x -> x, *", [(5,), (1, -1)], ((1, -1), None)),
        ("x:1+, y:1-, y:1- -> x, y", [(1, 2), (-1,), (3,)], ((1, 2), (3,))),
        ("x:2, x, x -> x", [(1, -1)], ((1, -1),)),
        ("x, []... -> x, []", [None, (), ()], (None, ())),
        ("-> [], [?, 2]", [], ((), (-1, 2))),
        ("[] ->", [()], ()),
    ],
)
def test_outputs_follow_from_inputs(notation: str, shapes: list[Dims], outputs: object) -> None:
    assert _outputs(notation, *shapes) == outputs


@pytest.mark.parametrize(
    ("notation", "shapes", "message"),
    [
        ("[n], [n] ->", [(2,), (3,)], "Dimensions must be equal, but are 2 and 3"),
        # ranks and numbers come before names, even of a later input
        ("[n], [n], [] ->", [(2,), (3,), (1,)], "Shape must be rank 0 but is rank 1"),
        ("[2] ->", [(3,)], "Dimension must be 2 but is 3"),
        ("x:1+ ->", [()], "Shape must be at least rank 1 but is rank 0"),
        ("x:1- ->", [(1, 1)], "Shape must be at most rank 1 but is rank 2"),
        ("x, []... -> x", [(), (), (1,)], "Shape must be rank 0 but is rank 1"),
        ("x, x -> x", [(1,), (2,)], "Dimension 0 in both shapes must be equal, but are 1 and 2. Shapes are [1] and [2]."),
    ],
)
def test_shapes_that_do_not_fit(notation: str, shapes: list[Dims], message: str) -> None:
    with pytest.raises(ShapeError) as raised:
        _outputs(notation, *shapes)
    assert raised.value.message == message
