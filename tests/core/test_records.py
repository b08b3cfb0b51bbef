"""Data classes of `core/records` behave like those of the standard library, of which each case makes a twin."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any

import pytest

from placesim.core import records


def make_classes(dataclass: Callable[..., Callable[[type], Any]], **settings: bool) -> tuple[Any, Any]:
    """A data class and one that inherits from it."""

    class Point:
        """A point."""

        x: int
        y: list[int] = field(default_factory=list)
        note: str = field(default="none", compare=False, repr=False)

    base = dataclass(**settings)(Point)

    class Named(base):  # type: ignore[misc, valid-type]
        """A point with a name."""

        name: str = "a"
        size: int = field(default=0, kw_only=True)

    return base, dataclass(**settings)(Named)


SETTINGS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"repr": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_record_behaves_like_a_standard_data_class(settings: dict[str, bool]) -> None:
    pairs = zip(make_classes(records.dataclass, **settings), make_classes(dataclasses.dataclass, **settings), strict=True)
    for ours, standard in pairs:
        assert is_dataclass(ours) is True  # `is True`: a type checker then does not narrow the type
        assert [each.name for each in fields(ours)] == [each.name for each in fields(standard)]
        assert ours.__match_args__ == standard.__match_args__
        assert inspect.signature(ours).parameters.keys() == inspect.signature(standard).parameters.keys()
        assert hasattr(ours(1), "__dict__") == hasattr(standard(1), "__dict__")
        if settings.get("repr", True):
            assert repr(ours(1, [2], "b")) == repr(standard(1, [2], "b"))
        for other in (ours(1), ours(1, [], "b"), ours(1, [2]), ours(2), replace(ours(1), x=3), copy.copy(ours(1)), None, 1):
            same = {each: getattr(other, each) for each in ("x", "y", "note")} if other.__class__ is ours else None
            assert (ours(1) == other) == (standard(1) == (standard(**same) if same else other))
        assert ours(1).y is not ours(1).y
        with pytest.raises(TypeError):
            ours()
        if settings.get("frozen"):
            with pytest.raises(FrozenInstanceError):
                ours(1).x = 2
            with pytest.raises(FrozenInstanceError):
                del ours(1).x
        else:
            changed = ours(1)
            changed.x = 2
            assert changed.x == 2


@records.dataclass(frozen=True, slots=True)
class _Frozen:
    """A class that pickle finds by its name."""

    x: int
    y: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


def test_frozen_records_are_hashed_pickled_and_checked() -> None:
    assert {_Frozen(1, (2,)): "a"}[_Frozen(1, (2,))] == "a"
    assert pickle.loads(pickle.dumps(_Frozen(1, (2,)))) == _Frozen(1, (2,))
    with pytest.raises(ValueError, match="negative"):
        _Frozen(-1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(make_classes(records.dataclass)[0](1))
