"""What reads like a slip of the pen where no schema says."""

from __future__ import annotations

import pytest

import perseid as ps


def test_a_step_that_is_misspelt_in_a_bracket() -> None:
    slip = ps.pattern("pattern p match Login first -> Login b [ip <> frst.ip and frst.ip <> 'x'] within 1 minute")
    with pytest.warns(ps.errors.PerseidWarning, match=r"no step is named 'frst'.* Did you mean first\.ip\?") as seen:
        slip.check()
    assert len(seen) == 1


@pytest.mark.parametrize("bracket", ["ip <> first.ip", "geo.city = 'Oslo'", "n > 3 and place.city <> first.place.city"])
def test_what_is_no_slip(bracket: str) -> None:
    ps.pattern(f"pattern p match Login first -> Login b [{bracket}] within 1 minute").check()


def test_a_schema_says_which_it_is() -> None:
    text = "pattern p match Login first -> Login b [ip <> frst.ip] within 1 minute"
    declared = {"Login": {"ip": "string", "frst": "struct<ip: string>"}}
    ps.pattern(text).check(declared)
    with pytest.raises(ps.errors.UnknownNameError, match="frst"):
        ps.pattern(text).check({"Login": {"ip": "string"}})
