"""``perseid check | explain | draw | try | why-not | doctor | inspect``: errors are sentences.

Exit status 1 is a wrong pattern, or executors that are wrong; 2 is a wrong call.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import perseid as ps
from perseid.lang.printer import print_duration
from perseid.semantics.evaluate import literal_value
from perseid.semantics.values import clock
from perseid.semantics.values import text as value_text

if TYPE_CHECKING:
    from perseid.spark.doctor import Report

app = typer.Typer(
    name="perseid",
    help="Complex event processing for Apache Spark, in Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PatternFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .perseid file; - reads standard input.")]
PatternFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Files of patterns, or folders of .perseid files; - reads standard input."),
]
PatternName = Annotated[str | None, typer.Option("--pattern", metavar="NAME", help="Only this pattern of the file.")]
EventFile = Annotated[
    Path,
    typer.Argument(metavar="EVENTS.jsonl", help="One JSON object an event, one a line; - reads standard input."),
]
TimeColumn = Annotated[str, typer.Option(help="The column with the time.")]
TypeColumn = Annotated[str, typer.Option(help="The column with the type.")]
IdColumns = Annotated[list[str] | None, typer.Option(help="A column of the event's identity.")]
OrderColumns = Annotated[list[str] | None, typer.Option(help="A column that orders events of one time.")]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "--bind", metavar="NAME=VALUE", help="A value for a parameter; again, or with commas, for a list."
    ),
]
RelationFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--relation",
        metavar="NAME=FILE",
        help="The rows of a relation: JSON lines, or CSV with a header (a column of only numbers holds numbers).",
    ),
]

_QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}
_UNBOUNDED = 1_000_000
_NARROW = 9
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perseid {ps.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Complex event processing for Apache Spark, in Python."""


def _load(path: Path) -> ps.PatternSet:
    if str(path) != "-":
        return ps.load(path)
    try:
        return ps.patterns(sys.stdin.buffer.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ps.PerseidError("Standard input is not UTF-8 text.") from None


def _fail(error: ps.PerseidError, path: Path | str, *hints: str) -> typer.Exit:
    """Say what is wrong with a file; what comes back is to be raised, unless other files are still to be read."""
    lines = [f"{path}: {type(error).__name__}: {error}", *(f"  = {hint}" for hint in hints)]
    typer.echo("\n".join(lines), err=True)
    return typer.Exit(1)


def _misuse(text: str) -> typer.Exit:
    typer.echo(text, err=True)
    return typer.Exit(2)


@app.command("check")
def check_command(files: PatternFiles) -> None:
    """Say whether the patterns of files are right, and if not, what to write instead.

    Example: perseid check rules.perseid more_rules/
    """
    wrong = None
    for file in files:
        try:
            for one in _pattern_files(file):
                wrong = _checked(one) or wrong
        except ps.PerseidError as error:
            wrong = _fail(error, file)
    if wrong is not None:
        raise wrong


def _pattern_files(path: Path) -> list[Path]:
    """The file itself, or what a folder has."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.perseid"))
    if not found:
        raise ps.PerseidError("The folder has no .perseid files.")
    return found


def _checked(file: Path) -> typer.Exit | None:
    """Say whether one file is right; what comes back says that it is not."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ps.PerseidWarning)
        try:
            loaded = _load(file).check()
        except ps.PerseidError as error:
            return _fail(error, file)
    count = len(loaded)
    typer.echo(f"{file}: {count} pattern{'' if count == 1 else 's'}, all right: {', '.join(loaded.names)}")
    for doubt in doubts:
        typer.echo(f"note: {doubt.message}", err=True)
    return None


def _chosen(rules: ps.PatternSet, name: str | None) -> ps.PatternSet:
    """One pattern where one is named, otherwise all."""
    if name is None:
        return rules
    try:
        return rules[name]
    except KeyError as error:
        raise _misuse(f"No pattern is called {error.args[0]}.") from None


@app.command("explain")
def explain_command(file: PatternFile, pattern: PatternName = None) -> None:
    """Say what the patterns mean and what running them takes.

    Example: perseid explain rules.perseid --pattern takeover
    """
    try:
        typer.echo(_chosen(_load(file), pattern).explain(), nl=False)
    except ps.PerseidError as error:
        raise _fail(error, file) from None


@app.command("draw")
def draw_command(
    file: PatternFile,
    form: Annotated[Form, typer.Option("--format", "-f", help="How to draw.")] = Form.text,
    pattern: PatternName = None,
) -> None:
    """Draw the automata of the patterns.

    Example: perseid draw rules.perseid --format mermaid
    """
    try:
        typer.echo(_chosen(_load(file), pattern).draw(form.value), nl=False)
    except ps.PerseidError as error:
        raise _fail(error, file) from None


@app.command("try")
def try_command(
    file: PatternFile,
    events: EventFile,
    time: TimeColumn = "ts",
    type: TypeColumn = "type",
    id: IdColumns = None,
    order_by: OrderColumns = None,
    values: Values = None,
    relation: RelationFiles = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a match, one a line.")] = False,
) -> None:
    """Run the patterns over events from a file, here, without a cluster.

    Example: perseid try rules.perseid events.jsonl --time at --type kind
    """
    loaded, relations = _given("try", file, events, relation)
    with _told(file, events, loaded):
        rules = loaded.bind(**_values(values or [], loaded))
        stream = _stream(events, time, type, id, order_by)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.PerseidWarning)  # it is among the notes
            found = rules.match(stream, relations=relations)
    if as_json:
        for row in found.to_dicts():
            typer.echo(json.dumps(_finite(row), default=_plain, ensure_ascii=False, allow_nan=False))
    else:
        # What is piped elsewhere is not wrapped: nobody knows how wide it will be shown.
        width = None if sys.stdout.isatty() else _UNBOUNDED
        _print(found, rules.names, Console(width=width, markup=False, emoji=False))
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


@app.command("why-not")
def why_not_command(
    file: PatternFile,
    events: EventFile,
    pattern: PatternName = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]VALUE",
            help="The partition in question; again where partition by has several. Quotes make a text: \"'7'\".",
        ),
    ] = None,
    time: TimeColumn = "ts",
    type: TypeColumn = "type",
    id: IdColumns = None,
    order_by: OrderColumns = None,
    values: Values = None,
    relation: RelationFiles = None,
) -> None:
    """Say how far attempts got and what ended them, where a match was expected and none came.

    Example: perseid why-not rules.perseid events.jsonl --pattern takeover --key ann
    """
    loaded, relations = _given("why-not", file, events, relation)
    if pattern is None and len(loaded) > 1:
        raise _misuse(f"{file} has several patterns: {', '.join(loaded.names)}. Choose one with --pattern.")
    with _told(file, events, loaded):
        rule = _chosen(loaded.bind(**_values(values or [], loaded)), pattern or loaded.names[0])
        stream = _stream(events, time, type, id, order_by)
        typer.echo(str(rule.why_not(stream, key=_key(key or [], rule), relations=relations)))


def _given(
    command: str, file: Path, events: Path, relation: list[str] | None
) -> tuple[ps.PatternSet, dict[str, list[tuple[object, ...]]]]:
    """The patterns and relations of a command that runs patterns over events."""
    files = [_named_file(setting) for setting in relation or []]
    if [str(file), str(events), *(str(path) for _, path in files)].count("-") > 1:
        raise _misuse("Only one thing can come from standard input.")
    try:
        loaded = _load(file)
    except ps.PerseidError as error:
        swapped = isinstance(error, ps.PatternError) and _holds_objects(file)
        hints = [f"{file} looks like events. Patterns come first: perseid {command} {events} {file}"] if swapped else []
        raise _fail(error, file, *hints) from None
    relations: dict[str, list[tuple[object, ...]]] = {}
    for name, path in files:
        relations.setdefault(name, []).extend(_relation(path))
    return loaded, relations


def _stream(events: Path, time: str, type: str, id: list[str] | None, order_by: list[str] | None) -> ps.Events:
    """The events of a file, as its columns were named."""
    return ps.events(list(_read(events)), time=time, type=type, id=id or (), order_by=order_by or ())


@contextmanager
def _told(file: Path, events: Path, loaded: ps.PatternSet) -> Iterator[None]:
    """Errors as sentences, each with the file that it is about."""
    try:
        yield
    except ps.EventDataError as error:
        raise _fail(error, events) from None
    except ps.BindingError as error:
        raise _fail(error, file, *_binding_hints(error, loaded)) from None
    except ps.PerseidError as error:
        raise _fail(error, file) from None


def _key(settings: list[str], rule: ps.PatternSet) -> object:
    """``--key ann`` in the order of ``partition by``, or ``--key user=ann``: read as ``--set`` reads its values."""
    if not settings:
        return None
    names = {".".join(path.parts) for pattern in rule.tree.patterns for path in pattern.partition_by}
    parts = [setting.partition("=") for setting in settings]
    named = [(name, text) for name, sign, text in parts if sign and name in names]
    if len(named) == len(settings):
        return {name: _constant(text, set()) for name, text in named}
    if named:
        raise _misuse("Give --key with a name each time, or never.")
    return tuple(_constant(setting, set()) for setting in settings)


@app.command("doctor")
def doctor_command(
    master: Annotated[str | None, typer.Option(metavar="URL", help="The cluster, as spark-submit knows it.")] = None,
    remote: Annotated[str | None, typer.Option(metavar="URL", help="A Spark Connect server.")] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of the session, as spark-submit takes it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Ask the executors of a cluster which Python and perseid they have, and say what is wrong.

    Example: perseid doctor --master spark://10.0.0.1:7077 --conf spark.submit.pyFiles=perseid.zip
    """
    if master is not None and remote is not None:
        raise _misuse("Give --master or --remote, not both.")
    settings = [setting.partition("=") for setting in conf or []]
    for name, sign, value in settings:
        if not (name and sign):
            raise _misuse(f"--conf takes NAME=VALUE, not {name + value!r}.")
    report = _examined(master, remote, {name: value for name, _, value in settings})
    typer.echo(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else str(report))
    if not report.ok:
        raise typer.Exit(1)


def _examined(master: str | None, remote: str | None, settings: Mapping[str, str]) -> Report:
    """What the executors of a session have."""
    _needs_spark("doctor")
    from perseid.spark.doctor import examine

    with _session("doctor", master, remote, settings) as spark:
        return examine(spark)


def _needs_spark(command: str) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise _misuse(f"perseid {command} needs pyspark.\nInstall it with: pip install 'perseid[spark]'") from None


@contextmanager
def _session(command: str, master: str | None, remote: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """The session that is there, or else one that lasts as long as the question."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(f"perseid {command}")
    if master is not None:
        builder = builder.master(master)
    if remote is not None:
        builder = builder.remote(remote)
    # The report says what went wrong; logs of Java would bury it. They can be had back with --conf.
    quiet = {} if remote or "SPARK_REMOTE" in os.environ else _QUIET
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Java, the network and Spark each have their own.
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        typer.echo(f"No Spark session: {first}", err=True)
        raise typer.Exit(1) from None
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


@app.command("inspect")
def inspect_command(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The checkpointLocation of a stream.")],
    master: Annotated[str | None, typer.Option(metavar="URL", help="The cluster, as spark-submit knows it.")] = None,
    remote: Annotated[str | None, typer.Option(metavar="URL", help="A Spark Connect server.")] = None,
) -> None:
    """Say what a stream keeps in its checkpoint: how many events, of which keys, and which attempts are open.

    Example: perseid inspect /data/checkpoints/takeover
    """
    if master is not None and remote is not None:
        raise _misuse("Give --master or --remote, not both.")
    _needs_spark("inspect")
    from perseid.spark.inspection import inspect

    with _session("inspect", master or (None if remote else "local[1]"), remote, {}) as spark:
        try:
            typer.echo(str(inspect(spark, checkpoint)))
        except ps.PerseidError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None


def _holds_objects(path: Path) -> bool:
    """Whether a file that is no pattern begins as JSON lines do."""
    try:
        return str(path) != "-" and path.read_bytes()[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    except OSError:
        return False


def _declared(rules: ps.PatternSet) -> dict[str, set[str]]:
    """The types under which the patterns declare each parameter."""
    out: dict[str, set[str]] = {}
    for pattern in rules.tree.patterns:
        for parameter in pattern.parameters:
            out.setdefault(parameter.name, set()).add(parameter.type)
    return out


def _binding_hints(error: ps.BindingError, rules: ps.PatternSet) -> list[str]:
    """What the command line calls that which is missing or does not fit."""
    asked = re.search(r"the relation '([^']+)'", error.message)
    if asked:
        return [f"On the command line: --relation {asked[1]}=FILE"]
    named = [n for n in _declared(rules) if re.search(rf"(:|[Pp]arameter ){re.escape(n)}\b", error.message)]
    return [f"On the command line: --set {name}=…" for name in named]


def _values(settings: list[str], rules: ps.PatternSet) -> dict[str, Any]:
    """``--set threshold=5``: the value is read as a constant of the language, otherwise as text."""
    declared = _declared(rules)
    out: dict[str, Any] = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        if not sign or not name:
            raise ps.BindingError(f"--set takes NAME=VALUE, not {setting!r}.")
        types = declared.get(name, set())
        if any(kind.startswith(("list of ", "array<")) for kind in types):
            kinds = {kind.removeprefix("list of ").removeprefix("array<").removesuffix(">") for kind in types}
            items = re.findall(r"(?:'(?:[^']|'')*'|[^,])+", text)
            out.setdefault(name, []).extend(_constant(item.strip(), kinds) for item in items)
        elif name in out:
            raise ps.BindingError(
                f"--set gives {name} twice, and it is not a list." if types else f"--set gives {name} twice."
            )
        else:
            out[name] = _constant(text, types)
            if types == {"duration"} and not isinstance(out[name], dt.timedelta):
                raise ps.BindingError(
                    f"Parameter {name} is a length of time, and {text!r} is none.",
                    hint="Write a number and a unit: '10 minutes'.",
                )
    return out


def _constant(text: str, types: set[str]) -> object:
    """A value as the declared types would have it: for a string, digits are text as well."""
    from perseid.lang.expressions import Literal, Unary
    from perseid.lang.parser import parse_expression

    try:
        parsed = parse_expression(text)
    except ps.PatternError:
        return text
    if isinstance(parsed, Literal) and (parsed.kind == "string" or "string" not in types):
        return literal_value(parsed)
    if isinstance(parsed, Unary) and parsed.op == "-" and "string" not in types and isinstance(parsed.operand, Literal):
        value: Any = literal_value(parsed.operand)
        return text if value is None or isinstance(value, (str, bool, dt.date)) else -value
    return text


def _named_file(setting: str) -> tuple[str, Path]:
    name, sign, file = setting.partition("=")
    if not (name and sign and file):
        raise _misuse(f"--relation takes NAME=FILE, not {setting!r}.")
    return name, Path(file)


def _relation(path: Path) -> list[tuple[object, ...]]:
    """The rows of a file as tuples, in the order of its columns."""
    try:
        text = _text(path)
        if not text.lstrip().startswith(("{", "[")) and path.suffix not in (".json", ".jsonl", ".ndjson"):
            return _csv_rows(text)
        objects = list(_objects(text, path))
    except ps.EventDataError as error:
        raise _fail(ps.BindingError(error.message, hint=error.hint), path) from None
    columns = list(dict.fromkeys(column for row in objects for column in row))
    return [tuple(row.get(column) for column in columns) for row in objects]


def _csv_rows(text: str) -> list[tuple[object, ...]]:
    try:
        header, *rows = [row for row in csv.reader(text.splitlines(keepends=True), strict=True) if row] or [[]]
    except csv.Error as error:
        raise ps.EventDataError(f"The file is not CSV: {error}.") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ps.EventDataError(f"Row {number} has {len(row)} cells, and the header has {len(header)}.")
    columns = [_column([row[place] for row in rows]) for place in range(len(header))]
    return list(zip(*columns, strict=True))


def _column(cells: list[str]) -> list[object]:
    """A column of only numbers holds numbers; nothing is null."""
    for form, read in ((_INTEGER, int), (_NUMBER, float)):
        if all(form.fullmatch(cell) for cell in cells if cell):
            return [read(cell) if cell else None for cell in cells]
    return [cell or None for cell in cells]


def _text(path: Path) -> str:
    """The text of a file or of standard input; what is no UTF-8 text is called by its name."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise ps.EventDataError(f"The file cannot be read: {error.strerror}.") from None
    if data.startswith(b"\x1f\x8b"):
        way = "Put gunzip before it in the pipe." if str(path) == "-" else f"Unpack it first: gunzip -k {path}"
        raise ps.EventDataError("This looks like gzip, not text.", hint=way)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:4]:
        raise ps.EventDataError(
            "This looks like UTF-16, and UTF-8 is read.",
            hint=f"Turn it into UTF-8: iconv -f UTF-16 -t UTF-8 {path}",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ps.EventDataError(f"This is not UTF-8 text: line {line} has a byte that does not belong.") from None


def _read(path: Path) -> Iterator[dict[str, Any]]:
    return _objects(_text(path), path)


def _objects(text: str, path: Path) -> Iterator[dict[str, Any]]:
    # Not splitlines(): JSON strings may hold other signs that end a line.
    first = True
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            if first:
                _name_other_forms(text, line, path)
            where = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise ps.EventDataError(f"Line {number} is not JSON: {where}.") from None
        if not isinstance(row, dict):
            if first:
                _name_other_forms(text, line, path)
            raise ps.EventDataError(f"Line {number} is not a JSON object.")
        first = False
        yield row


def _name_other_forms(text: str, line: str, path: Path) -> None:
    """Where the first line is not an object: say what the file seems to be, and the way out."""
    if line.lstrip().startswith("["):
        raise ps.EventDataError(
            "This is a JSON array; what is read is one JSON object a line.",
            hint=f"Make lines of it: jq -c '.[]' {path}",
        )
    if line.lstrip().startswith("{"):
        try:
            _, end = json.JSONDecoder().raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            return
        if "\n" not in text.lstrip()[:end]:
            return
        raise ps.EventDataError(
            "This is JSON over several lines; what is read is one JSON object a line.",
            hint=f"Make lines of it: jq -c . {path}",
        )
    if re.search(r"[^,;\t][,;\t]", line):
        raise ps.EventDataError(
            "This looks like CSV; what is read is one JSON object a line.",
            hint=f"Make lines of it: mlr --icsv --ojsonl cat {path} (or in Python: ps.events(pandas.read_csv(…))).",
        )


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _plain(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.timedelta):
        micros = value // dt.timedelta(microseconds=1)
        return ("-" if micros < 0 else "") + (print_duration(abs(micros)) if micros else "0 seconds")
    if isinstance(value, (list, tuple, Mapping)):
        return json.dumps(_finite(value), default=_plain, ensure_ascii=False)
    shown = value_text(value)
    return str(value) if shown is None else shown


def _print(found: ps.Matches, names: Sequence[str], console: Console) -> None:
    for name in dict.fromkeys(match.pattern for match in found):
        mine = [match for match in found if match.pattern == name]
        title = f"{name}: {len(mine)} match{'' if len(mine) == 1 else 'es'}"
        keys = list(dict.fromkeys(k for m in mine for k in m.key))
        columns = list(dict.fromkeys(k for m in mine for k in m.values))
        reports = any(m.kind != "match" for m in mine)
        headers = [*keys, "start", "end", "events", *columns, *(["kind"] if reports else [])]
        rows = [
            [
                *(_cell(m.key.get(k)) for k in keys),
                *(clock(m.start), _end(m), _events(m)),
                *(_cell(m.values.get(k)) for k in columns),
                *([m.kind] if reports else []),
            ]
            for m in mine
        ]
        _print_rows(title, headers, rows, console)
    some = {match.pattern for match in found}
    for name in names:
        if name not in some:
            console.print(f"{name}: no matches")
    if found.suppressed:
        console.print(f"{found.suppressed} suppressed")
    if found.capped:
        console.print(f"{found.capped} attempts given up: too many open without a bound")


def _print_rows(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """A table; where the terminal is too narrow for one, a block of lines a match."""
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in ("start", "end"))
    for row in rows:
        table.add_row(*row)
    natural = console.measure(table, options=console.options.update(max_width=_UNBOUNDED)).maximum
    if natural <= console.width or console.width >= _least(headers, rows):
        console.print(table)
        return
    console.print(title)
    for row in rows:
        console.print()
        for header, cell in zip(headers, row, strict=True):
            console.print(f"{header}: {cell}", soft_wrap=True)


def _least(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The width under which a table of these columns is no longer readable; times are never broken."""
    frame = 3 * len(headers) + 1
    times = sum(max(len(row[i]) for row in rows) for i, h in enumerate(headers) if h in ("start", "end"))
    return frame + times + (_NARROW - 3) * sum(h not in ("start", "end") for h in headers)


def _end(match: ps.Match) -> str:
    """The end, without the date where it is the day of the start."""
    start, end = clock(match.start), clock(match.end)
    return end.partition(" ")[2] if " " in end and end[:10] == start[:10] else end


def _events(match: ps.Match) -> str:
    """Which steps have events, and how many: ``a b t×2``."""
    return " ".join(name if len(found) == 1 else f"{name}×{len(found)}" for name, found in match.bindings.items())


def _cell(value: object) -> str:
    return "" if value is None else _plain(value)
