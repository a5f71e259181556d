"""The guide to the command line shows the actual output of its commands.

PERSEID_REWRITE_GOLDEN=1 rewrites the output in the page.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from pathlib import Path

from perseid.cli.app import app
from tests.cli.calling import invoked

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TERMINAL = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
FILE = "-- file: "


def run_command(command: str, status: int) -> tuple[str, int]:
    """Run one shell line and return its output and exit status: `perseid …`, `perseid … | head -n N`, `perseid … > FILE`,
    `cd`, `echo $?`.
    """
    if command == "echo $?":
        return f"{status}\n", 0
    words, _, file = command.partition(" > ")
    words, _, head = words.partition(" | head -n ")
    program, *arguments = shlex.split(words)
    if program == "cd":
        os.chdir(arguments[0])
        return "", 0
    assert program == "perseid", f"the page runs an unknown program: {command}"
    done = invoked(*arguments, environment=TERMINAL)
    if file:
        Path(file).write_text(done.stdout, encoding="utf-8")
        return done.stderr, done.exit_code
    printed = done.stdout + done.stderr
    return "".join(printed.splitlines(keepends=True)[: int(head) if head else None]), done.exit_code


def run_shell(block: str) -> str:
    """Run the commands of a shell block and return the block with their output."""
    out, status = "", 0
    for command in re.findall(r"^\$ (.+)$", block, re.MULTILINE):
        printed, status = run_command(command, status)
        out += f"$ {command}\n" + "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return out


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown: list[str] = []
    printed: list[str] = []
    written, at = "", 0
    with contextlib.chdir(tmp_path):
        for block in BLOCK.finditer(text):
            head, _, body = block[2].partition("\n")
            if head.startswith(FILE):
                Path(head.removeprefix(FILE)).write_text(body, encoding="utf-8")
            elif block[1] == "sh":
                shown.append(block[2])
                printed.append(run_shell(block[2]))
                written += text[at : block.start(2)] + printed[-1]
                at = block.end(2)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        PAGE.write_text(written + text[at:], encoding="utf-8")
        return
    assert (tmp_path / "abroad.svg").read_text(encoding="utf-8").startswith("<svg ")
    assert len(printed) >= 8
    assert printed == shown


def test_page_names_every_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [one.name for one in app.registered_commands if f"`{one.name}" not in page] == []
