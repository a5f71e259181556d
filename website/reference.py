"""Write the pages of the reference from the code: ``python -m website.reference``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import typer

import perseid as ps
from perseid.cli.app import app
from perseid.jobs.metrics import JobMetrics
from perseid.jobs.schema import job_schema

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
GENERATED = "\n<!-- This page is generated from the code: python -m website.reference -->\n"
Schema: TypeAlias = Mapping[str, Any]


def public_names() -> dict[str, list[str]]:
    """Return the public names by module, the top level first."""
    modules = [name for name in dir(ps) if isinstance(getattr(ps, name), ModuleType)]
    top = [name for name in dir(ps) if not name.startswith("_") and name not in modules]
    return {"perseid": top, **{f"perseid.{name}": sorted(getattr(ps, name).__all__) for name in modules}}


def python_page() -> str:
    """Return the page of the Python API: one directive for each public name."""
    lines = [
        "# Python API",
        "",
        "The code on this site imports the package as `ps`: `import perseid as ps`. Every name of this page is public. "
        "Names that are not on this page can change without notice.",
    ]
    written: set[object] = set()
    for module, names in public_names().items():
        lines += ["", f"## `{module}`", ""]
        if module != "perseid":
            lines += [(inspect.getdoc(getattr(ps, module.partition(".")[2])) or "").partition("\n")[0], ""]
        for name in names:
            value = getattr(ps if module == "perseid" else getattr(ps, module.partition(".")[2]), name)
            if value in written:
                continue
            written.add(value)
            path = f"{value.__module__}.{value.__qualname__}"
            lines += [f"::: {path}", "    options:", f"      heading: {module}.{name}", ""]
    return "\n".join(lines).rstrip() + "\n" + GENERATED


def metrics_page() -> str:
    """Return the page of the metrics that a job exports."""
    rows = []
    for metric in JobMetrics("job").registry.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        rows.append(f"| `{name}` | {metric.type} | {metric.documentation} |")
    return "\n".join([
        "# Metrics",
        "",
        "A job with `metrics` exports these metrics in the format of Prometheus. "
        "[Metrics and status](../guides/operations.md#metrics-and-status) describes how to export them.",
        "",
        "| metric | type | content |",
        "|---|---|---|",
        *rows,
    ]) + "\n" + GENERATED  # fmt: skip


def command_page() -> str:
    """Return the page of the command line."""
    lines = [
        "# Command line",
        "",
        "[The guide](../guides/command-line.md) shows the commands at work. `perseid COMMAND --help` prints the same texts.",
    ]
    root = typer.main.get_command(app)
    for path, command in [("perseid", root), *((f"perseid {name}", one) for name, one in commands().items())]:
        lines += ["", f"## `{path}`", "", _text(command.help), ""]
        rows = [_parameter(one) for one in command.params if not getattr(one, "hidden", False)]
        if rows:
            lines += ["| parameter | content | default |", "|---|---|---|", *rows]
        else:
            lines.pop()
    return "\n".join(lines) + "\n" + GENERATED


def commands() -> dict[str, Any]:
    """Return the commands by name; Typer has no public type for them."""
    found = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {name: one for name, one in sorted(found.items()) if not one.hidden}


def _parameter(parameter: Any) -> str:
    names = [parameter.name.upper()] if parameter.param_type_name == "argument" else parameter.opts
    value = parameter.default
    shown = "" if not isinstance(value, str | int | float) or value is False or value == "" else f"`{value}`"
    names = ", ".join(f"`{name}`" for name in names)
    return f"| {names} | {_text(getattr(parameter, 'help', None))} | {'required' if parameter.required else shown} |"


def _text(help_text: str | None) -> str:
    return " ".join((help_text or "").replace("\b", "").replace("``", "`").split()).replace("|", "\\|")


def job_page() -> str:
    """Return the page of the keys of job files."""
    lines = [
        "# Job file",
        "",
        "[Jobs](../guides/jobs.md) shows a whole file. `docs/job.schema.json` in the repository is the JSON Schema of these "
        "keys for editors. A key that is not on this page is an error.",
    ]
    schema = job_schema()
    for path, one in _objects("", schema, schema):
        title = f"`{path}`" if path else "Top level"
        lines += ["", f"## {title.replace(' of kind ', '` of kind `')}", ""]
        if one.get("description") and path:
            lines += [_text(one["description"]), ""]
        if one["properties"]:
            lines += ["| key | type | content | default |", "|---|---|---|---|"]
        else:
            lines.pop()
        required = one.get("required", ())
        for key, value in one["properties"].items():
            lines.append(_key(key, _resolve(value, schema), key in required, schema))
    return "\n".join(lines) + "\n" + GENERATED


def _resolve(value: Schema, schema: Schema) -> Schema:
    if "$ref" in value:
        found = schema["$defs"][value["$ref"].rpartition("/")[2]]
        return {**found, **{name: text for name, text in value.items() if name != "$ref"}}
    return value


def _objects(path: str, one: Schema, schema: Schema, seen: set[str] | None = None) -> Iterator[tuple[str, Schema]]:
    """Yield each object of the schema once, with the keys that lead to it."""
    seen = set() if seen is None else seen
    one = _resolve(one, schema)
    if "properties" in one:
        digest = json.dumps(one["properties"], sort_keys=True)
        if digest in seen:
            return
        seen.add(digest)
        kind = one["properties"].get("kind", {}).get("const")
        if not _is_choice(one, schema):
            yield (f"stream of kind {kind}" if kind and path == "stream" else path), one
        for key, value in one["properties"].items():
            yield from _objects(f"{path}.{key}" if path else key, value, schema, seen)
        return
    for choice in (*one.get("anyOf", ()), *one.get("oneOf", ())):
        yield from _objects(path, choice, schema, seen)
    for items in ("items", "additionalProperties"):
        if isinstance(one.get(items), Mapping):
            yield from _objects(path, one[items], schema, seen)


def _is_choice(one: Schema, schema: Schema) -> bool:
    """True for an object with one key that names its kind, as in ``{kafka: {…}}``."""
    keys = list(one["properties"])
    return len(keys) == 1 and "properties" in _resolve(one["properties"][keys[0]], schema)


def _key(key: str, value: Schema, required: bool, schema: Schema) -> str:
    default = value.get("default")
    shown = "required" if required else "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"
    return f"| `{key}` | {_type(value, schema)} | {_text(value.get('description'))} | {shown} |"


def _type(value: Schema, schema: Schema) -> str:
    value = _resolve(value, schema)
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    choices = (*value.get("anyOf", ()), *value.get("oneOf", ()))
    if choices:
        return " or ".join(dict.fromkeys(_type(one, schema) for one in choices))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}), schema)}"
    return str(value.get("type", "value"))


PAGES = {"python.md": python_page, "metrics.md": metrics_page, "cli.md": command_page, "job-file.md": job_page}


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
