"""Classes of protocol/late_attrs.py are what attrs makes of them, whatever is done with them first."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import attrs
import pytest
from attrs import Factory

from protocol.late_attrs import define, frozen

T = TypeVar("T")


@frozen
class Point:
    """A point."""

    KIND: ClassVar[str] = "point"
    x: int
    y: int = 0

    def shout(self) -> str:
        return f"{__class__.__name__}{attrs.astuple(self)}"  # type: ignore[name-defined]


@define
class Basket(Generic[T]):
    things: list[T] = Factory(list)


@define(slots=True, eq=False)
class Identity:
    name: str


@frozen
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@frozen(order=True)
class Version:
    major: int
    minor: int


@frozen
class Checked:
    size: int = attrs.field(validator=attrs.validators.gt(0))
    double: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.size)


@frozen
class Coloured(Point):
    colour: str = "red"


@frozen(slots=True)
class Pickled:
    name: str
    size: int = 3


def test_is_equal_hashed_shown_and_matched_as_attrs_does() -> None:
    assert Point(1) == Point(1, 0) != Point(1, 2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2
    assert repr(Point(1)) == "Point(x=1, y=0)"
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
    assert Point(1).shout() == "Point(1, 0)"
    assert (Point.KIND, Point.__doc__) == ("point", "A point.")


def test_frozen_is_frozen_and_slotted() -> None:
    point = Point(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    assert not hasattr(point, "__dict__")
    assert weakref.ref(point)() is point


def test_define_can_be_changed_and_is_not_hashed() -> None:
    basket: Basket[int] = Basket()
    basket.things.append(1)
    assert basket == Basket([1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(basket)
    with pytest.raises(AttributeError):
        basket.other = 1  # type: ignore[attr-defined]


def test_options_hold() -> None:
    assert Identity("a") != Identity("a")
    assert len({Identity("a"), Identity("a")}) == 2
    assert Version(1, 2) < Version(2, 0)


def test_own_methods_stay() -> None:
    assert repr(Named("n")) == "<n>"
    assert Named("n") == Named("n")


def test_validators_and_the_hook_after_the_constructor_are_called() -> None:
    assert Checked(2).double == 4
    with pytest.raises(ValueError, match="must be > 0"):
        Checked(0)


def test_fields_are_inherited() -> None:
    assert Coloured(1, 2) == Coloured(1, 2, "red")
    assert [field.name for field in attrs.fields(Coloured)] == ["x", "y", "colour"]


def test_wrong_arguments_are_refused_by_the_first_call_too() -> None:
    @frozen
    class Never:
        x: int

    for _ in range(2):
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            Never(z=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "first",
    [
        attrs.fields,
        attrs.has,
        lambda cls: cls("b"),
        lambda cls: cls.__new__(cls).__setstate__({"name": "b", "size": 4}),  # as unpickling does
    ],
    ids=["fields", "has", "constructor", "unpickling"],
)
def test_whatever_comes_first_completes_the_class(first: Callable[[Any], object]) -> None:
    @frozen
    class Fresh:
        name: str
        size: int = 3

    first(Fresh)
    assert attrs.evolve(Fresh("a"), size=4) == Fresh("a", 4)
    assert attrs.asdict(Fresh("a")) == {"name": "a", "size": 3}


def test_travels_in_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Pickled("a"))) == Pickled("a", 3)


def test_is_the_class_that_attrs_makes() -> None:
    """Method by method, with nothing left of the stand-ins."""

    def plain() -> Any:
        class Plain:
            x: int
            y: int = 0

            def shout(self) -> str:
                return ""

        return Plain

    at_once, later = attrs.frozen(plain()), frozen(plain())
    later(1)
    assert vars(later).keys() == vars(at_once).keys()
    assert later.__slots__ == at_once.__slots__
    for name in ("__init__", "__eq__", "__hash__", "__repr__", "__getstate__", "__setstate__"):
        made, wanted = vars(later)[name], vars(at_once)[name]
        assert made.__code__.co_code == wanted.__code__.co_code, name
