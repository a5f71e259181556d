"""Folders, environments and subprocesses of a release."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".ci" / "work" / "release"
PACKAGES = WORK / "packages"
"""Wheel and sdist, and nothing else: the folder that is uploaded."""
REQUIREMENTS = ROOT / "requirements"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""What commands inherit. A source tree on the path would hide the installed wheel."""


class StepError(Exception):
    """A step of the release failed. The message says which and why."""


def run(*command: object, cwd: Path = ROOT, umask: int = -1, **variables: str) -> str:
    """Run a command and return its output. Raises StepError, with the end of the output, if the command fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**ENVIRONMENT, **variables},
        umask=umask,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        raise StepError(f"{words}\n" + "\n".join((done.stdout + done.stderr).splitlines()[-20:]))
    return done.stdout


def git(*words: str) -> str:
    return run("git", *words).strip()


def commit_time() -> str:
    """Return the time of the commit in seconds, the value of SOURCE_DATE_EPOCH."""
    return git("log", "-1", "--format=%ct")


def make_tools() -> Path:
    """Return the Python of the environment with build, cyclonedx-bom and pip-audit, from requirements/release.txt."""
    lock = REQUIREMENTS / "release.txt"
    folder = WORK / "tools"
    python = folder / "bin" / "python"
    stamp = folder / "lock.sha256"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r", lock)
    stamp.write_text(digest)
    return python


def make_user_without_wheel() -> Path:
    """Return the Python of a new environment with the dependencies of all extras, and without pip."""
    tools = make_tools()
    folder = WORK / "user"
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    lock = REQUIREMENTS / "constraints" / "all.txt"
    install(tools, python, "--no-deps", "--no-compile", "--require-hashes", "-r", lock)
    return python


def make_user(wheel: Path) -> Path:
    """Return the Python of a new environment with the wheel and the dependencies of all extras, and without pip."""
    python = make_user_without_wheel()
    tools = make_tools()
    install(tools, python, "--no-deps", wheel)
    run(tools, "-m", "pip", "--python", python, "check")
    return python


def install(tools: Path, python: Path, *what: object) -> None:
    run(tools, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check", *what)


def site_packages(python: Path) -> Path:
    return python.parents[1] / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def find_wheel() -> Path:
    wheels = sorted(PACKAGES.glob("*.whl"))
    if len(wheels) != 1:
        raise StepError(f"expected one wheel in {PACKAGES.relative_to(ROOT)}, found {len(wheels)}")
    return wheels[0]
