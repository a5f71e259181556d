"""Kernels compiled ahead: every module of an engine is there, and a name that is none is said."""

from __future__ import annotations

import pytest

from perseid.engines import ahead


def test_every_engine_has_modules_to_compile() -> None:
    every = ahead.modules()
    for name in ("sequence", "disorder", "trees", "joins", "uncertain", "models"):
        own = ahead.modules([name])
        assert own
        assert set(own) < set(every)
    assert "perseid.engines.hashing" in every


def test_a_name_that_is_no_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ahead.main(["sequnce"]) == 2
    assert "no engine sequnce" in capsys.readouterr().err
