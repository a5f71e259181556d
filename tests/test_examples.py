"""The output of examples that run without Spark."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_cyber_physical_example_prints_deployment_and_quick_fixes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "cyber_physical.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert output.count("the deployment is suspended") == 4
    assert output.count("three consecutive errors of h1: a search for repairs starts") == 1
    assert (
        "2 quick fixes\n1. lower_available(h1): set available_cpu of h1 from 10 to 8 (cost 1)\n2. raise_total(h1)"
        in output
    )
    assert "the deployment: deployed a on deployed h1, deployed b on deployed h2, deployed c on deployed h1" in output
    assert output.endswith("valid: True\n")
