"""Precompiled kernels: every engine has modules to compile, and an unknown name is an error."""

from __future__ import annotations

import pytest

from perseid.runtime import precompile


def test_every_engine_has_modules_to_compile() -> None:
    every = precompile.modules()
    for name in ("sequence", "disorder", "trees", "joins", "uncertain", "models"):
        own = precompile.modules([name])
        assert own
        assert set(own) < set(every)
    assert "perseid.runtime.hashing" in every


def test_unknown_engine_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert precompile.main(["sequnce"]) == 2
    assert "Unknown engine 'sequnce'" in capsys.readouterr().err
