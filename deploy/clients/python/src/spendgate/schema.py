"""The JSON schema of a function's arguments, and what accepts them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

#: Makes a value of what JSON has; its errors are a ValueError.
Read = Callable[[Any], Any]

EXACT: dict[Any, tuple[type, str]] = {str: (str, "string"), int: (int, "integer"), bool: (bool, "boolean")}
TEXTS: dict[Any, tuple[str, Read]] = {
    UUID: ("uuid", UUID), date: ("date", date.fromisoformat), datetime: ("date-time", lambda text: datetime.fromisoformat(text)),
}


@dataclass(frozen=True)
class Arguments:
    """The arguments of a function."""

    schema: dict[str, Any]
    readers: Mapping[str, Read]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        faults = [f"{name} is no argument" for name in arguments if name not in self.readers]
        faults += [f"{name} is missing" for name in self.schema["required"] if name not in arguments]
        values = {}
        for name in arguments.keys() & self.readers.keys():
            try:
                values[name] = self.readers[name](arguments[name])
            except (ValueError, ArithmeticError) as error:
                faults.append(f"{name}: {error}")
        if faults:
            raise ValueError("; ".join(sorted(faults)))
        return values


def of(function: Callable[..., Any]) -> Arguments:
    """Reads the annotations of a function. What cannot be told to a model is a TypeError."""
    hints = typing.get_type_hints(inspect.unwrap(function))
    properties, readers, required = {}, {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints or parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"the argument {name} of a tool needs a type, and to be passed by name")
        properties[name], readers[name] = _kind(hints[name])
        if parameter.default is parameter.empty:
            required.append(name)
    return Arguments({"type": "object", "properties": properties, "required": required, "additionalProperties": False}, readers)


def _kind(hint: Any) -> tuple[dict[str, Any], Read]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in EXACT:
        kind, name = EXACT[hint]
        return {"type": name}, lambda value: _exactly(kind, value, name)
    if hint in TEXTS:
        form, parse = TEXTS[hint]
        return {"type": "string", "format": form}, lambda value: parse(_exactly(str, value, form))
    if hint is Decimal:
        return {"anyOf": [{"type": "number"}, {"type": "string"}]}, _decimal
    if origin is typing.Literal or (isinstance(hint, type) and issubclass(hint, Enum)):
        values = list(inner) if origin else [one.value for one in hint]
        return {"enum": values}, lambda value: (hint if not origin else lambda one: one)(_one_of(values, value))
    if origin in (typing.Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        other, read = _kind(inner[inner[0] is type(None)])
        return {"anyOf": [other, {"type": "null"}]}, lambda value: None if value is None else read(value)
    if origin is list:
        element, read = _kind(inner[0])
        return {"type": "array", "items": element}, lambda value: [read(one) for one in _exactly(list, value, "array")]
    if origin is dict and inner[0] is str:
        element, read = _kind(inner[1])
        return {"type": "object", "additionalProperties": element}, lambda value: {
            name: read(one) for name, one in _exactly(dict, value, "object").items()
        }
    raise TypeError(f"a tool has no argument of the type {hint}: use str, int, bool, Decimal, UUID, date, an Enum, Literal, or lists of these")


def _exactly(kind: type, value: Any, name: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} is not of the type {name}")
    return value


def _one_of(values: list[Any], value: Any) -> Any:
    if not any(type(one) is type(value) and one == value for one in values):
        raise ValueError(f"{str(value)[:40]!r} is none of {values}")
    return value


def _decimal(value: Any) -> Decimal:
    """A float of JSON is the shortest decimal that is it, which is what the model wrote."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError as error:
        raise ValueError(f"{str(value)[:40]!r} is no number: write it as 1234.50") from error
