"""The start pages for Spark and jobs show real output. PERSEID_REWRITE_GOLDEN=1 rewrites the output in the pages."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.calling import invoked
from tests.test_guides import run_page

START = Path(__file__).parents[2] / "docs" / "start"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
FILE = "-- file: "


def test_page_on_spark_shows_its_output(spark: SparkSession) -> None:
    run_page(START / "on-spark.md", spark=spark)


def run_command(block: str, folder: Path) -> str:
    """Run the one command of a block in a folder, and return the block with its output."""
    command = block.partition("\n")[0].removeprefix("$ ")
    program, *arguments = shlex.split(command)
    assert program == "perseid"
    # The JVM of the shared session has another working directory, so paths are absolute.
    absolute = [str(folder / one) if (folder / one).exists() else one for one in arguments]
    done = invoked(*absolute, environment=TERMINAL)
    assert done.exit_code == 0, done.output
    printed = done.output.replace(f"{folder}/", "")
    return f"$ {command}\n" + "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


@pytest.mark.usefixtures("spark")
def test_first_job_runs_as_the_page_shows(tmp_path: Path) -> None:
    page = START / "first-job.md"
    text = page.read_text(encoding="utf-8")
    written, at, runs = "", 0, 0
    for number, block in enumerate(BLOCK.finditer(text)):
        head, _, body = block[2].partition("\n")
        if head.startswith(FILE):
            file = tmp_path / head.removeprefix(FILE)
            file.parent.mkdir(exist_ok=True)
            file.write_text(body, encoding="utf-8")
            os.utime(file, (number, number))  # the file source reads the oldest file first
        elif block[1] == "sh":
            printed = run_command(block[2], tmp_path)
            runs += 1
            if os.environ.get("PERSEID_REWRITE_GOLDEN"):
                written += text[at : block.start(2)] + printed
                at = block.end(2)
            else:
                assert printed == block[2]
    assert runs >= 6
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        page.write_text(written + text[at:], encoding="utf-8")
