"""Warnings of probable typos in patterns without a schema."""

from __future__ import annotations

import pytest

import perseid as ps


def test_misspelled_step_in_a_bracket_is_a_warning() -> None:
    pattern = ps.pattern("pattern p match Login first -> Login b [ip <> frst.ip and frst.ip <> 'x'] within 1 minute")
    with pytest.warns(
        ps.errors.PerseidWarning, match=r"no step is named 'frst'.* Did you mean first\.ip\?"
    ) as warnings:
        pattern.check()
    assert len(warnings) == 1


@pytest.mark.parametrize("bracket", ["ip <> first.ip", "geo.city = 'Oslo'", "n > 3 and place.city <> first.place.city"])
def test_valid_bracket_has_no_warning(bracket: str) -> None:
    ps.pattern(f"pattern p match Login first -> Login b [{bracket}] within 1 minute").check()


def test_schema_decides_between_a_column_and_a_misspelled_step() -> None:
    text = "pattern p match Login first -> Login b [ip <> frst.ip] within 1 minute"
    declared = {"Login": {"ip": "string", "frst": "struct<ip: string>"}}
    ps.pattern(text).check(declared)
    with pytest.raises(ps.errors.UnknownNameError, match="frst"):
        ps.pattern(text).check({"Login": {"ip": "string"}})
