"""Numbers, amounts of money and measured lengths, masses and times in texts, as tokens that are equal by value."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

NUMBER = (
    r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?![\d,])|\d+)"
    r"(?:\.\d+)?(?:e[-+]?\d{1,3}\b)?"
)
MAGNITUDES: Mapping[str, int] = {
    "thousand": 10**3, "million": 10**6, "mn": 10**6, "mln": 10**6, "billion": 10**9, "bn": 10**9, "trillion": 10**12,
}  # fmt: skip
AFTER_MONEY: Mapping[str, int] = {"k": 10**3, "m": 10**6, "b": 10**9}
"""What these letters mean behind an amount of money; elsewhere `m` is a metre."""
CURRENCIES: Mapping[str, str] = {
    "$": "dollar", "us$": "dollar", "usd": "dollar", "€": "euro", "eur": "euro", "£": "pound", "gbp": "pound",
    "¥": "yen", "jpy": "yen",
}  # fmt: skip
_UNITS: Mapping[str, tuple[str, str]] = {
    "mm millimetre millimeter": ("0.001", "metre"), "cm centimetre centimeter": ("0.01", "metre"),
    "m metre meter": ("1", "metre"), "km kilometre kilometer": ("1000", "metre"), "inch inches": ("0.0254", "metre"),
    "ft foot feet": ("0.3048", "metre"), "yd yard": ("0.9144", "metre"), "mile mi": ("1609.344", "metre"),
    "mg milligram": ("0.001", "gram"), "g gram": ("1", "gram"), "kg kilogram": ("1000", "gram"),
    "tonne": ("1000000", "gram"), "lb pound-mass": ("453.59237", "gram"), "ms millisecond": ("0.001", "second"),
    "sec second": ("1", "second"), "min minute": ("60", "second"), "hr hour": ("3600", "second"),
}  # fmt: skip
UNITS: Mapping[str, tuple[Decimal, str]] = {
    name: (Decimal(factor), base) for names, (factor, base) in _UNITS.items() for name in names.split()
}
_MAX_DIGITS = 24


def value_of(number: str) -> str:
    """A number by its value: `1,000`, `1000.0` and `1e3` are one. Longer ones than decimals hold stay as written."""
    if len(number) > _MAX_DIGITS:
        return number
    try:
        value = Decimal("".join(sign for sign in number if not (sign == "," or sign.isspace())).replace("\u2212", "-"))
    except InvalidOperation:
        return number
    return token_of(value) if value.adjusted() < 400 else number


def token_of(value: Decimal) -> str:
    """A value as a token."""
    return f"={value.normalize() + 0}"


def scaled(token: str, factor: Decimal | int) -> str:
    """The token of a value times a factor."""
    return token_of(Decimal(token[1:]) * factor)


def is_value(token: str) -> bool:
    """Whether a token is a number."""
    return token.startswith("=")
