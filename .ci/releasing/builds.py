"""Reproducible builds: two builds from clean checkouts of one commit give equal bytes."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from environments import ROOT, StepError, commit_time, git, run

# What differs between two machines: the folder, the umask, the time zone, the locale, the order of sets.
MACHINES = (
    ("first", 0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
    ("second/with/another/folder", 0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}),
)


def build_twice(python: Path, packages: Path) -> str:
    """Build wheel and sdist of HEAD twice and keep the first build in ``packages``. Returns the digests.

    Raises StepError if the builds differ. ``python`` has the packages build and hatchling.
    """
    commit = git("rev-parse", "HEAD")
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [build(python, commit, Path(scratch, name), umask, variables) for name, umask, variables in MACHINES]
        first, second = ({path.name: sha256(path) for path in sorted(output.iterdir())} for output in outputs)
        if first != second:
            raise StepError(f"the builds differ:\n{format_digests(first)}\n{format_digests(second)}")
        if sorted(Path(name).suffix for name in first) != [".gz", ".whl"]:
            raise StepError(f"expected one wheel and one sdist, built {', '.join(first)}")
        shutil.rmtree(packages, ignore_errors=True)
        shutil.copytree(outputs[0], packages)
    return f"two builds of {commit[:12]} are equal:\n{format_digests(first)}"


def build(python: Path, commit: str, folder: Path, umask: int, variables: dict[str, str]) -> Path:
    """Check ``commit`` out into ``folder`` and build it there. Returns the folder with wheel and sdist."""
    source, output = folder / "source", folder / "output"
    folder.mkdir(parents=True)
    run("git", "clone", "-q", "--no-checkout", ROOT, source, umask=umask)
    run("git", "-C", source, "-c", "advice.detachedHead=false", "checkout", "-q", commit, umask=umask)
    run(
        python, "-m", "build", "--no-isolation", "--outdir", output, source,
        umask=umask, SOURCE_DATE_EPOCH=commit_time(), PYTHONDONTWRITEBYTECODE="1", **variables,
    )  # fmt: skip
    return output


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def format_digests(digests: dict[str, str]) -> str:
    return "\n".join(f"{digest}  {name}" for name, digest in digests.items())
