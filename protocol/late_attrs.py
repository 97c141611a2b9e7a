"""attrs' `frozen` and `define`, whose classes get their methods when the first of them is made.

A broker declares some four hundred classes and uses a third of them. attrs writes and compiles the methods of each when
it is declared, which was most of the time that a broker took to start. Here a class has its name, its slots and its own
methods at once; attrs makes the others at the first constructor call, the first pickle that is read, or the first look
at the class's fields. From then on it is the class that attrs would have made, and just as fast.

A class that is more than fields and methods (one that inherits fields, or has an `__init__`, `__eq__` or `__hash__` of
its own, or a cached property) is made by attrs right away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen
else:

    def define(cls: type | None = None, **options: Any) -> Any:
        """`attrs.define`, later."""
        return _decorate(attrs.define, cls, options)

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """`attrs.frozen`, later."""
        return _decorate(attrs.frozen, cls, options)


__all__ = ["define", "frozen"]

_UNUSUAL = frozenset({"__init__", "__eq__", "__hash__", "__slots__", "__setattr__", "__getstate__", "__setstate__"})
_OPTIONS = frozenset({"slots", "eq", "order", "weakref_slot"})
_NO_FIELD = ("ClassVar", "typing.ClassVar")
_OF_EACH_CLASS = frozenset({"__dict__", "__weakref__", "__slots__"})


def _decorate(make: Callable[..., Any], cls: type | None, options: dict[str, Any]) -> Any:
    def declare(cls: type) -> type:
        if _is_usual(cls) and options.keys() <= _OPTIONS and options.get("slots", True):
            has_weakref = options.get("weakref_slot", True) and not any(
                base.__weakrefoffset__ for base in cls.__bases__
            )
            return _declare(cls, lambda: make(**options)(cls), ("__weakref__",) if has_weakref else ())
        return make(**options)(cls)  # type: ignore[no-any-return]

    return declare if cls is None else declare(cls)


def _is_usual(cls: type) -> bool:
    own = vars(cls)
    return (
        own.keys().isdisjoint(_UNUSUAL)
        and not any("__attrs_attrs__" in vars(base) for base in cls.__mro__[1:])
        and not any(isinstance(value, cached_property) for value in own.values())
    )


def _declare(raw: type, make: Callable[[], type], more_slots: tuple[str, ...]) -> type:
    """A new class with slots, as attrs makes one: a class that exists cannot get slots."""
    names = [name for name, hint in raw.__annotations__.items() if not str(hint).startswith(_NO_FIELD)]
    body = {name: value for name, value in vars(raw).items() if name not in names and name not in _OF_EACH_CLASS}
    slots = (*names, *more_slots)

    def complete() -> None:
        """Take over what attrs makes of the class; the constructor last, since no instance exists before it."""
        made = vars(make())
        assert made["__slots__"] == slots, f"{raw.__qualname__}: {made['__slots__']}, not {slots}"
        for name, value in made.items():
            if name not in body and name not in names and name not in _OF_EACH_CLASS:
                setattr(cls, name, value)
        for name in ("__attrs_attrs__", "__setstate__", "__init__"):
            setattr(cls, name, made[name])

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        complete()
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    def first_state(self: Any, state: Any) -> None:
        complete()
        cls.__setstate__(self, state)  # type: ignore[attr-defined]

    body |= {"__slots__": slots, "__init__": first, "__setstate__": first_state, "__attrs_attrs__": _Fields(complete)}
    cls = type(raw)(raw.__name__, raw.__bases__, body)
    _point_to(cls, raw)
    return cls


class _Fields:
    """Stands for a class's fields until attrs has looked at them."""

    def __init__(self, complete: Callable[[], None]) -> None:
        self._complete = complete

    def __get__(self, _instance: object, owner: type) -> Any:
        self._complete()
        return owner.__attrs_attrs__  # type: ignore[attr-defined]


def _point_to(cls: type, raw: type) -> None:
    """Let `super()` and `__class__` in the methods mean the new class."""
    for value in vars(raw).values():
        method = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        for cell in getattr(method, "__closure__", None) or ():
            if cell.cell_contents is raw:
                cell.cell_contents = cls
