"""The checklist of a release: one line for each check, OK or FAILED."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import audit
import builds
import constraints
import environments
import licenses
import sbom
import version
from environments import PACKAGES, ROOT, WORK, StepError, git
from environments import run as run_command


def run(tag: str | None) -> int:
    """Run all checks, also after one has failed, and return the exit code."""
    user = WORK / "user" / "bin" / "python"
    tools = WORK / "tools" / "bin" / "python"
    shutil.rmtree(PACKAGES, ignore_errors=True)
    shutil.rmtree(user.parents[1], ignore_errors=True)
    for earlier in WORK.glob("*.cdx.json"):
        earlier.unlink()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("version", lambda: version.check_version(tag)),
        ("changelog", version.check_changelog),
        ("citation", version.check_citation),
        ("clean tree", check_tree),
        ("tools", lambda: str(environments.make_tools().relative_to(ROOT))),
        ("two builds equal", lambda: builds.build_twice(tools, PACKAGES)),
        ("wheel installs", lambda: install(user)),
        ("constraints", lambda: check_constraints(tools, user)),
        ("perseid --version", lambda: check_command(user)),
        ("README example", lambda: check_readme(user)),
        ("licenses", lambda: run_command(user, licenses.__file__).strip()),
        ("SBOM", lambda: sbom.write(tools, user)),
        ("audit", lambda: audit.audit(tools)),
        ("checksums", write_checksums),
    ]
    failed = 0
    for name, check in checks:
        try:
            print(f"OK      {name}: {check()}", flush=True)
        except (StepError, OSError, ValueError) as error:
            failed += 1
            print(f"FAILED  {name}: {error}", flush=True)
    print(f"{len(checks) - failed} of {len(checks)} checks passed")
    return 1 if failed else 0


def check_tree() -> str:
    if changed := git("status", "--porcelain"):
        raise StepError(f"{len(changed.splitlines())} files are not committed")
    return git("rev-parse", "--short=12", "HEAD")


def install(user: Path) -> str:
    wheel = environments.find_wheel()
    environments.make_user(wheel)
    installed = len(list(environments.site_packages(user).glob("*.dist-info")))
    return f"{wheel.name} with all extras, {installed} packages, dependencies consistent"


def check_constraints(tools: Path, user: Path) -> str:
    run_command(tools, constraints.__file__, "--check", "--site", environments.site_packages(user))
    return f"{len(list(constraints.FOLDER.iterdir()))} files agree with pyproject.toml and requirements/dev.txt"


def check_command(user: Path) -> str:
    printed = run_command(user.with_name("perseid"), "--version").strip()
    if printed != f"perseid {version.read_version()}":
        raise StepError(f"printed {printed!r}")
    return printed


def check_readme(user: Path) -> str:
    """Run the first Python block of the README and compare the output with the text block that follows it."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    first = next((i for i, (language, _) in enumerate(blocks) if language == "python"), None)
    if first is None or [language for language, _ in blocks[first + 1 : first + 2]] != ["text"]:
        raise StepError("no Python example with its output")
    with tempfile.TemporaryDirectory() as scratch:
        # As in an activated environment: Spark starts its workers with the first python3 of the path.
        path = f"{user.parent}{os.pathsep}{os.environ['PATH']}"
        printed = run_command(user, "-c", blocks[first][1], cwd=Path(scratch), PATH=path)
    if printed.split() != blocks[first + 1][1].split():
        raise StepError(f"printed {printed!r}")
    return f"{len(printed.splitlines())} lines as printed on the page"


def write_checksums() -> str:
    files = sorted([*PACKAGES.iterdir(), *WORK.glob("*.cdx.json")])
    text = "".join(f"{builds.sha256(path)}  {path.name}\n" for path in files)
    (WORK / "SHA256SUMS").write_text(text, encoding="utf-8")
    return f"{len(files)} files in .ci/work/release/SHA256SUMS"
