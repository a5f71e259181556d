"""Facts about the machine and the checkout that the report states."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path


def machine_facts() -> dict[str, str | int | float]:
    """Processor, cores, memory, system and Java of this machine."""
    cpu = _first_match(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)") or platform.processor() or "unknown"
    memory = _first_match(Path("/proc/meminfo"), r"MemTotal:\s*(\d+) kB")
    return {
        "processor": cpu,
        "cores": os.cpu_count() or 1,
        "memory_gb": round(int(memory) / 2**20, 1) if memory else 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java_version(),
    }


def commit() -> str:
    """Commit of the checkout, with ``+`` if files differ from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def load() -> float:
    """Average number of runnable processes in the last minute."""
    return round(os.getloadavg()[0], 2)


def _git(*words: str) -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return "none"
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"


def _first_match(path: Path, pattern: str) -> str:
    try:
        found = re.search(pattern, path.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1].strip() if found else ""
