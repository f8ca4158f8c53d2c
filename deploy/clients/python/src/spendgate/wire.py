"""JSON as the service reads and writes it: exact numbers, no name twice."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, Union, cast

from .errors import NoAnswer

T = TypeVar("T")


NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")


def money(amount: Decimal | int | str) -> Decimal:
    """An exact, non-negative amount: at most 18 integer digits, 9 decimals and 19 digits in all.

    A float is refused, since it may differ from the amount that was meant.
    """
    if isinstance(amount, bool) or not isinstance(amount, (Decimal, int, str)):
        instead = f": write Decimal('{amount}') or '{amount}'" if isinstance(amount, float) else ""
        raise TypeError(f"an amount is a Decimal, an int or a str, not a {type(amount).__name__}{instead}")
    text = str(amount)
    if NUMBER.fullmatch(text):
        plain = format(Decimal(text), "f")
        whole, _, fraction = plain.lstrip("-").partition(".")
        whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
        negative = plain.startswith("-") and whole + fraction != ""
        if not negative and len(whole) <= 18 and len(fraction) <= 9 and len(whole + fraction) <= 19:
            return Decimal(f"{whole or 0}.{fraction}" if fraction else whole or 0)
    raise ValueError(f"{text[:40]!r} is no amount: it has up to 18 integer and 9 decimal digits, 19 in all, and is not negative")


#: The currencies of ISO 4217 by the digits of their minor unit, as the service has them.
_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
    2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP COU CRC "
    "CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR "
    "KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN "
    "PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS "
    "UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG",
}


def payable(amount: Decimal | int | str, currency: object) -> None:
    """Refuses an amount that nobody can pay: 0, or one with more digits than the currency's minor unit has."""
    exact = money(amount)
    if exact == 0:
        raise ValueError("the amount is 0, which some providers take for no amount, and then for all that there is")
    code = str(currency).strip().upper()
    digits = next((n for n, codes in _DIGITS.items() if code in codes.split()), None)
    if digits is not None and -int(exact.as_tuple().exponent) > digits:
        raise ValueError(f"{exact} {code} cannot be paid: {code} has {digits} decimal digits")


def encode(value: object) -> bytes:
    """Compact JSON. Decimals are written as they are, and text that is not Unicode is refused."""
    return _text(value).encode()


def _text(value: object) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is no number of JSON")
        return str(value)
    if isinstance(value, float):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("a member's name is text")
        return "{" + ",".join(f"{_text(name)}:{_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def ordered(value: Any) -> Any:
    """The same value with the members of its objects sorted by name."""
    if isinstance(value, Mapping):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(element) for element in value] if isinstance(value, (list, tuple)) else value


def decode(body: bytes) -> Any:
    """Reads one JSON value: no name twice, only Unicode, numbers with a fraction as Decimals."""
    try:
        value = json.loads(body.decode(), parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_object)
        if b"\\u" in body:
            encode(value)  # this fails on half of a surrogate pair
        return value
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise misunderstood(str(error)) from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(members)
    if len(read) != len(members):
        raise ValueError("a name stands twice")
    return read


def misunderstood(problem: str) -> NoAnswer:
    return NoAnswer(f"the service's answer cannot be understood: {problem}")


@cache
def _members(kind: type) -> list[tuple[str, Any, bool]]:
    """The members of a dataclass that an answer has: each one's name and type, and whether it may be absent."""
    hints = typing.get_type_hints(kind)
    return [
        (f.name, hints[f.name], f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING)
        for f in dataclasses.fields(kind)
        if f.init and not f.metadata.get("apart")
    ]


def read(kind: type[T], value: Any, **apart: Any) -> T:
    """Makes a dataclass of an answer. Members that a later version of the service may add are ignored."""
    if not isinstance(value, dict):
        raise misunderstood(f"it is no {kind.__name__}")
    members = dict(apart)
    for name, hint, optional in _members(cast(Any, kind)):
        key = name.rstrip("_")
        if key in value:
            members[name] = _convert(hint, value[key], f"{kind.__name__}.{key}")
        elif not optional:
            raise misunderstood(f"{kind.__name__} has no {key}")
    return kind(**members)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is typing.Literal and isinstance(value, str) and value in arguments:
        return value
    if origin is list and isinstance(value, list):
        return [_convert(arguments[0], element, where) for element in value]
    if origin is dict and isinstance(value, dict):
        return {name: _convert(arguments[1], member, where) for name, member in value.items()}
    if hint is Decimal and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return Decimal(value)
    if hint is datetime and isinstance(value, str):
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError as error:
            raise misunderstood(f"{where}: {error}") from error
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return read(hint, value)
    if hint in (str, int, bool) and type(value) is hint:
        return value
    raise misunderstood(f"{where} is {str(value)[:40]!r}")
