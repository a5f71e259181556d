"""Search the pinned dependencies of all extras for known vulnerabilities, with pip-audit."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

from environments import REQUIREMENTS, StepError

ACCEPTED = REQUIREMENTS / "accepted-vulnerabilities.toml"
"""Findings that are explained instead of fixed: a table [ID] with ``package`` and ``reason``."""


def audit(python: Path) -> str:
    """Return a summary. Raises StepError for a vulnerability, and for a package that was not audited."""
    done = subprocess.run(
        [python, "-m", "pip_audit", "-r", REQUIREMENTS / "constraints" / "all.txt", "--require-hashes", "--disable-pip",
         "--format", "json", "--progress-spinner", "off"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if not done.stdout.strip():
        raise StepError("pip-audit gave no result:\n" + "\n".join(done.stderr.splitlines()[-3:]))
    return summarize(json.loads(done.stdout), read_accepted())


def read_accepted() -> dict[str, dict[str, str]]:
    return tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))


def summarize(report: dict[str, list[dict[str, object]]], accepted: dict[str, dict[str, str]]) -> str:
    packages = report["dependencies"]
    if not packages:
        raise StepError("no package was audited")
    # pip-audit ends with success if it could not look a package up: that proves nothing.
    if skipped := [str(package["name"]) for package in packages if "skip_reason" in package]:
        raise StepError(f"not audited: {len(skipped)} of {len(packages)} packages, {', '.join(sorted(skipped))}")
    found = {(str(package["name"]), str(entry["id"])) for package in packages for entry in package["vulns"]}
    explained = {(entry["package"], name) for name, entry in accepted.items()}
    if open_ := sorted(found - explained):
        raise StepError("vulnerabilities: " + ", ".join(f"{name} {package}" for package, name in open_))
    if stale := sorted(explained - found):
        raise StepError("accepted, but no longer found: " + ", ".join(name for _, name in stale))
    return f"{len(packages)} packages audited; {len(explained)} accepted vulnerabilities"
