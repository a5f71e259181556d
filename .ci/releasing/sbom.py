"""The software bill of materials (SBOM) of the wheel with all extras, in CycloneDX JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

from environments import ROOT, WORK, StepError, commit_time, run

SPEC_VERSION = "1.6"
VALIDATE = f"""
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.from_version("{SPEC_VERSION}")).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)
"""


def write(tools: Path, user: Path) -> str:
    """Write the SBOM of the environment of ``user``, with Perseid as its main component. Returns a summary.

    Raises StepError if the SBOM is not valid or lacks a package.
    """
    installed = dict(
        line.split("==")
        for line in run(tools, "-m", "pip", "--python", user, "freeze", "--all").split()
        if "==" in line
    )
    version = run(user, "-c", "import perseid; print(perseid.__version__)").strip()
    path = WORK / f"perseid-{version}.cdx.json"
    project = WORK / "pyproject.toml"
    # cyclonedx-bom reads a version only from pyproject.toml, where ours is dynamic.
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"'), encoding="utf-8")
    run(
        tools, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--short-PURLs", "--mc-type", "library",
        "--sv", SPEC_VERSION, "--pyproject", project, "-o", path, user,
        SOURCE_DATE_EPOCH=commit_time(),
    )  # fmt: skip
    remove_addresses(path)
    run(tools, "-c", VALIDATE, path)
    return summarize(json.loads(path.read_text(encoding="utf-8")), installed, version, path)


def remove_addresses(path: Path) -> None:
    """Remove the address that each package was installed from: it describes the machine, not the package."""
    sbom = json.loads(path.read_text(encoding="utf-8"))
    for component in [sbom["metadata"]["component"], *sbom["components"]]:
        kept = [entry for entry in component.get("externalReferences", []) if entry["type"] != "distribution"]
        component.pop("externalReferences", None)
        if kept:
            component["externalReferences"] = kept
    path.write_text(json.dumps(sbom, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def summarize(sbom: dict, installed: dict[str, str], version: str, path: Path) -> str:
    main = sbom["metadata"]["component"]
    if (main["name"], main.get("version")) != ("perseid", version):
        raise StepError(f"the SBOM describes {main['name']} {main.get('version')}, not perseid {version}")
    found = {normalize(component["name"]): component["version"] for component in sbom["components"]}
    wanted = {normalize(name): pinned for name, pinned in installed.items() if name != "perseid"}
    found.pop("perseid", None)
    if found != wanted:
        raise StepError(f"the SBOM and the environment differ: {sorted(found.items() ^ wanted.items())}")
    return (
        f"{path.relative_to(ROOT)}: valid CycloneDX {sbom['specVersion']}, perseid {version} and {len(found)} packages"
    )


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
