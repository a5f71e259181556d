"""Examples that need no Spark: what they print."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_example_of_a_cyber_physical_system(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "cyber_physical.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("the deployment is held") == 4
    assert said.count("in a row: a search for repairs starts") == 1
    assert (
        "2 quick fixes\n1. lower_available(h1): set available_cpu of h1 from 10 to 8 (cost 1)\n2. raise_total(h1)"
        in said
    )
    assert "the deployment: deployed a on deployed h1, deployed b on deployed h2, deployed c on deployed h1" in said
    assert said.endswith("valid: True\n")
