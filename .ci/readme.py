"""Run the examples of the README: Python blocks in one namespace, shell blocks in a scratch folder.

A Python block followed by a ``text`` block must print exactly that text. In a shell block, lines that start with
``$`` are commands, and the other lines must be their output.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main(path: Path) -> None:
    # As in an activated environment: Spark starts its workers with the first python3 of the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "readme"}
    ran = 0
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for i, (language, body) in enumerate(blocks):
            following = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
            if language == "python":
                printed = run_python(body, namespace)
            elif language == "console":
                printed = None
                run_console(body)
            elif language in ("perseid", "jsonl") and body.startswith("-- file: "):
                write_file(body)
                continue
            else:
                continue
            ran += 1
            if printed is not None and following[0] == "text":
                expect(printed, following[1])
    print(f"{ran} README blocks ran as printed")
    if ran == 0:
        sys.exit("the README has no example")


def run_python(body: str, namespace: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, "README.md", "exec"), namespace)
    return out.getvalue()


def run_console(body: str) -> None:
    """Run the lines that start with ``$`` and compare the output with the lines after them."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        if command.startswith("pip "):
            continue  # the current environment is already the result of this line
        command = command.replace("python ", f"{sys.executable} ", 1)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})
        if done.returncode != 0:
            sys.exit(f"$ {command}\n{done.stdout}{done.stderr}")
        expect(done.stdout, printed)


def write_file(body: str) -> None:
    head, _, text = body.partition("\n")
    Path(head.removeprefix("-- file: ").strip()).write_text(text, encoding="utf-8")


def expect(printed: str, wanted: str) -> None:
    if [line.rstrip() for line in printed.rstrip().splitlines()] != [
        line.rstrip() for line in wanted.rstrip().splitlines()
    ]:
        sys.exit(f"printed:\n{printed}\nthe README says:\n{wanted}")


main(Path(sys.argv[1]).resolve())
