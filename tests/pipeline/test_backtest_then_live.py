"""The demonstration of examples/backtest_then_live with few users and days: its sinks have the ids of the batch run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.servers.broker import Broker

EXAMPLE = Path(__file__).parents[2] / "examples" / "backtest_then_live" / "run.py"
TIMEOUT_S = 600.0
SMALL = ("--users", "150", "--days", "12", "--live-days", "3", "--pace", "0.5", "--timeout", "300")

pytestmark = [pytest.mark.servers, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.usefixtures("jars")
def test_demonstration_finds_the_ids_of_the_batch_run_in_all_sinks(broker: Broker, tmp_path: Path) -> None:
    work = tmp_path / "work"
    command = [sys.executable, str(EXAMPLE), "--broker", broker.servers, "--work", str(work), *SMALL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.terminate()  # it stops the job that it has started
        process.wait()
    print(output)
    assert process.returncode == 0, output
    assert "SIGKILL in batch" in output
    # The job has matches of both versions of the changed rule.
    compared = {line.split("  ")[0] for line in output.splitlines() if line.startswith(("all ", "new_payee, "))}
    assert compared == {"all", "new_payee, amount > 1500", "new_payee, amount > 3000"}
