"""Valid and invalid job files."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from perseid.errors import SettingsError
from perseid.jobs.reading import JobFileError, read_job
from perseid.jobs.stream_kinds.events import EventStream
from perseid.jobs.stream_kinds.settings_by_kind import settings_by_kind
from perseid.jobs.texts import MAX_BYTES
from perseid.settings import Secret

FILES = Path(__file__).parent / "files"
GOOD = sorted([*FILES.glob("*.yaml"), *FILES.glob("*.toml")])
HIDDEN = "hunter2-Xq9"

WHOLE = """\
job: takeover
stream:
  source: {files: {path: in, format: parquet}}
  lateness: 10 minutes
patterns: rules/
sinks: [console]
checkpoint: state
"""


def written(folder: Path, text: str, name: str = "job.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_valid_file_survives_a_round_trip(path: Path) -> None:
    job = read_job(path)
    # Round trip: the dump of a job file is read as the same job.
    assert type(job).model_validate(json.loads(job.model_dump_json(by_alias=True, exclude_unset=True))) == job


def test_the_files_have_all_kinds() -> None:
    assert {type(read_job(path).stream) for path in GOOD} == set(settings_by_kind().values())


def test_settings_are_parsed() -> None:
    job = read_job(FILES / "events.yaml")
    assert isinstance(job.stream, EventStream)
    assert (job.job, job.trigger, job.stream.lateness, job.stream.id) == (
        "takeover",
        "5 seconds",
        "10 minutes",
        "position",
    )
    assert job.bind == {"threshold": 20000}
    assert job.limits.bad is not None
    assert (job.limits.bad.share, job.limits.policy, job.metrics.port) == (0.05, "dead_letter", 9108)


def test_relative_paths_are_resolved_from_the_file() -> None:
    job = read_job(FILES / "events.yaml")
    assert job.patterns == [FILES / "rules"]
    assert job.checkpoint == str(FILES / "state/takeover")
    assert getattr(job.sinks[1], "path", None) == str(FILES / "out/matches")
    assert job.metrics.log == FILES / "state/takeover.jsonl"


def test_urls_and_absolute_paths_are_unchanged(tmp_path: Path) -> None:
    text = WHOLE.replace("checkpoint: state", "checkpoint: hdfs://lake/state").replace("path: in", "path: /data/in")
    job = read_job(written(tmp_path, text))
    assert job.checkpoint == "hdfs://lake/state"
    assert getattr(job.stream.source, "path", None) == "/data/in"


def test_secrets_of_the_session_are_references(tmp_path: Path) -> None:
    text = WHOLE + "spark: {spark.hadoop.fs.s3a.secret.key: {file: key.txt}}\n"
    assert read_job(written(tmp_path, text)).spark == {
        "spark.hadoop.fs.s3a.secret.key": Secret(file=tmp_path / "key.txt")
    }


BROKEN = {
    "unknown word": ("metric: {}", "metric: unknown key. Did you mean 'metrics'?", 8),
    "no name": (("job: takeover\n", ""), "job: missing setting; add job: … (the job's name", None),
    "a name with spaces": (("takeover", "my job"), "job: expected a letter, then up to 62 letters, digits, _ or -", 1),
    "no stream": (("stream:", "strem:"), "strem: unknown key. Did you mean 'stream'?", 2),
    "no kind of stream": (
        ("stream:\n", "stream:\n  kind: uncertian\n"),
        "stream.kind: unknown kind 'uncertian' of stream. Did you mean 'uncertain'? Available: events, documents",
        3,
    ),
    "stream is a text": (
        (re.compile(r"stream:\n.*\n.*\n"), "stream: kafka\n"),
        "stream: expected a mapping with the settings of a stream, such as kind: events",
        2,
    ),
    "no source": (
        ("  source: {files: {path: in, format: parquet}}\n", ""),
        "stream: expected exactly one of source: {…} and sources:",
        2,
    ),
    "both sources": (
        ("  lateness", "  sources: {A: {files: {path: a, format: parquet}}}\n  lateness"),
        "stream: expected exactly one of source: {…} and sources:",
        2,
    ),
    "unknown source": (("{files:", "{fils:"), "stream.source: unknown source 'fils'. Did you mean 'files'?", 3),
    "an unknown type in the schema": (
        ("format: parquet", "format: parquet, schema: 'ts timestamp, amount dubble'"),
        "stream.source.files.schema: column 2 'amount': unknown type 'dubble'. Did you mean 'double'? Available: ",
        3,
    ),
    "a type of another language in the schema": (
        ("format: parquet", "format: parquet, schema: 'ts datetime'"),
        "stream.source.files.schema: column 1 'ts': unknown type 'datetime'. Did you mean 'timestamp'?",
        3,
    ),
    "a column without a type": (
        ("{files: {path: in, format: parquet}}", "{kafka: {servers: s, topic: t, schema: 'ts timestamp, amount'}}"),
        "stream.source.kafka.schema: column 2 'amount' has no type. Use columns as in SQL",
        3,
    ),
    "two in one source": (
        ("{files: {path: in, format: parquet}}", "{files: {path: in, format: parquet}, kafka: {}}"),
        "stream.source: expected one source, got 2 keys",
        3,
    ),
    "a word of the source": (
        ("path: in", "pth: in"),
        "stream.source.files.pth: unknown key. Did you",
        3,
    ),
    "a missing word of the source": (("path: in, ", ""), "stream.source.files.path: missing setting", 3),
    "a format that nobody reads": (("format: parquet", "format: parqet"), "Did you mean 'parquet'?", 3),
    "no lateness": (("  lateness: 10 minutes\n", ""), "add lateness: 10 minutes", 2),
    "arrival without lateness": (("  lateness: 10 minutes\n", "  order: arrival\n"), "add lateness: 10 minutes", 2),
    "lateness is a number": (("10 minutes", "600"), "stream.lateness: expected a duration such as '10 minutes'", 4),
    "lateness in no unit": (
        ("10 minutes", "10 mintes"),
        "stream.lateness: Unknown unit 'mintes'. Did you mean minutes? Available: ",
        4,
    ),
    "arrival and disorder": (
        ("  lateness", "  order: arrival\n  disorder: early\n  lateness"),
        "order: arrival expects records in order",
        2,
    ),
    "unknown strategy": (
        ("  lateness", "  disorder: erly\n  lateness"),
        "unknown strategy 'erly'. Did you mean 'early'?",
        4,
    ),
    "a setting of a strategy": (
        ("  lateness", "  disorder: {adaptive: {loss: 1}}\n  lateness"),
        "stream.disorder.adaptive.loss: expected a number below 1",
        4,
    ),
    "position of files": (("  lateness", "  id: position\n  lateness"), "use id: content, or columns", 2),
    "a column is a number": (
        ("  lateness", "  time: 7\n  lateness"),
        "stream.time: expected a string, got a number; put it in quotes",
        4,
    ),
    "a column is yes": (("  lateness", "  time: yes\n  lateness"), "put it in quotes", 4),
    "time by type of one source": (
        ("  lateness", "  time: {A: ts}\n  lateness"),
        "time by event type needs sources by event type",
        2,
    ),
    "shards of nothing": (
        ("  lateness", "  shards: 0\n  lateness"),
        "stream.shards: expected a number of at least 1",
        4,
    ),
    "shards in words": (("  lateness", "  shards: many\n  lateness"), "stream.shards: expected an integer", 4),
    "no patterns": (("patterns: rules/\n", ""), "add patterns: rules/", None),
    "no sinks": (("[console]", "[]"), "sinks: empty; add at least one value", 6),
    "sinks is a text": (("[console]", "console"), "sinks: expected a list", 6),
    "unknown sink": (
        ("[console]", "[console, consol]"),
        "sinks[1]: unknown sink 'consol'. Did you mean 'console'?",
        6,
    ),
    "a bare sink that needs words": (("[console]", "[parquet]"), "sinks[0].parquet.path: missing setting", 6),
    "a sink of no words": (("[console]", "[[console]]"), "sinks[0]: expected a sink; use {", 6),
    "no checkpoint": (("checkpoint: state\n", ""), "checkpoint: missing setting; add checkpoint: …", None),
    "trigger": ("trigger: 5 secnds", "trigger: ", 8),
    "removed retries": ("retries: 5", "retries: this key was removed; use retry_for: 10 minutes", 8),
    "removed tries of a webhook": (
        ("[console]", "[{webhook: {url: 'https://host/', tries: 5}}]"),
        "sinks[0].webhook.tries: this key was removed; use retry_for: 10 minutes",
        6,
    ),
    "retry_for is a number": ("retry_for: 600", "retry_for: expected a duration such as '10 minutes'", 8),
    "retry_for without end": ("retry_for: 2 days", "retry_for: expected a duration from 0 seconds", 8),
    "trigger is a number": ("trigger: 5", "such as 5 seconds, or available_now", 8),
    "share": ("limits: {bad: {share: 5}}", "limits.bad.share: expected a number below 1", 8),
    "policy": ("limits: {policy: drop}", "limits.policy: expected fail or dead_letter or drop_oldest", 8),
    "dead letters nowhere": ("limits: {policy: dead_letter}", "add dead_letters: {…}", None),
    "port": ("metrics: {port: 99999}", "metrics.port: expected a number of at most 65535", 8),
    "a relation without a file": (
        "relations: {Blocked: blocked.csv}",
        "relations.Blocked: expected a mapping",
        8,
    ),
    "a setting of Spark is no text": ("spark: {spark.ui.enabled: off}", "put it in quotes", 8),
    "a value that is a table": ("bind: {threshold: {a: 1}}", "bind.threshold: ", 8),
}


@pytest.mark.parametrize("name", BROKEN)
def test_error_has_a_position_and_a_message(name: str, tmp_path: Path) -> None:
    change, said, line = BROKEN[name]
    if isinstance(change, str):
        text = WHOLE + change + "\n"
    else:
        old, new = change
        text = re.sub(old, new, WHOLE) if isinstance(old, re.Pattern) else WHOLE.replace(old, new)
        assert text != WHOLE
    path = written(tmp_path, text)
    with pytest.raises(JobFileError) as raised:
        read_job(path)
    assert said in str(raised.value)
    mine = next(problem for problem in raised.value.problems if said in str(problem))
    assert mine.line == line or line is None
    assert str(path) in str(raised.value)
    assert "pydantic" not in str(raised.value)
    assert "validation error" not in str(raised.value)


def test_all_errors_of_a_file_are_reported_together(tmp_path: Path) -> None:
    text = WHOLE.replace("path: in", "pth: in").replace("[console]", "[consol]")
    with pytest.raises(JobFileError, match=r"job\.yaml: 3 errors\.") as raised:
        read_job(written(tmp_path, text))
    assert [problem.at for problem in raised.value.problems] == [
        "stream.source.files.path",
        "stream.source.files.pth",
        "sinks[0]",
    ]


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


HOSTILE = {
    "a billion laughs": (bomb(), "more than 20000 keys and values"),
    "an alias of itself": ("job: &a [*a]", "nested more than 40 levels deep"),
    "a tower": ("job: " + "[" * 20_000, "nested more than 40 levels deep|invalid YAML"),
    "an object of Python": ("job: !!python/object/apply:os.system ['true']", r"line 1: unsupported tag \(!…\)"),
    "a tag of its own": ("job: !secret x", r"unsupported tag \(!…\)"),
    "a word twice": ("job: a\njob: b", "line 2: duplicate key 'job'"),
    "a merge": ("a: &a {b: 1}\njob: {<<: *a}", "unsupported merge key <<"),
    "a tab": ("job: a\n\tstream: b", "indent with spaces|invalid YAML"),
    "two documents": ("job: a\n---\njob: b", "invalid YAML"),
    "an unknown alias": ("job: *nothing", "line 1, column 6: invalid YAML: found undefined alias\\."),
    "yes before the colon": ("on: a", "expected a string as the key, got true or false. YAML reads on"),
    "a list before the colon": ("? [a]\n: b", "expected a plain key before the colon, got a list or a mapping"),
    "no date": ("job: 2026-13-45", "put it in quotes"),
    "nothing": ("", "is empty"),
    "a text": ("hello", "expected a mapping with the settings of a job"),
    "too much": ("# " + "x" * MAX_BYTES, "is larger than the limit of"),
    "signs that no text has": ("job: \x07", "invalid YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_files_are_rejected(name: str, tmp_path: Path) -> None:
    text, said = HOSTILE[name]
    with pytest.raises(SettingsError, match=said):
        read_job(written(tmp_path, text))


BEYOND_LIMITS = {
    "date-key.yaml": ("job: j\n2026-13-45: c\n", "line 2: invalid date or number"),
    "zone-key.yaml": ("2026-01-01T00:00:00+99:99: c\n", "line 1: invalid date or number"),
    "digits.yaml": (f"job: j\nbind: {'1' * 100_000}\n", "line 2: a number has more than 100 characters"),
    "sexagesimal.yaml": (f"job: 1{':1' * 50_000}\n", "line 1: a number has more than 100 characters"),
    "surrogate.yaml": ('job: j\n"\\ud800": 1\n', "line 2: unexpected lone surrogate"),
    "control.yaml": ("job: j\nbind: \0\n", "line 2, column 7: invalid YAML: special characters"),
    "brackets.yaml": (f"job: j\nbind: {'[' * 20_000}{']' * 20_000}\n", "line 2: nested more than 40 levels deep"),
    "braces.yaml": ("{a: " * 20_000 + "}" * 20_000, "line 1: nested more than 40 levels deep"),
    "dashes.yaml": ("- " * 20_000 + "x\n", "line 1: nested more than 40 levels deep"),
    "blocks.yaml": ("\n".join(" " * n + "a:" for n in range(700)), "line 41: nested more than 40 levels deep"),
    "list.yaml": (f"job: [{'x, ' * 80_000}]\n", "line 1: more than 10000 keys and values"),
    "keys.yaml": ("".join(f"a{n}: 1\n" for n in range(25_000)), "line 5000: more than 10000 keys and values"),
    "digits.toml": (f"job = 'j'\nx = {'1' * 100_000}\n", "line 2: a number has more than 100 characters"),
    "hexadecimal.toml": (f"x = 0x{'f' * 200_000}\n", "line 1: a number has more than 100 characters"),
    "dotted.toml": (".".join("a" * 20_000) + " = 1\n", "line 1: nested more than 40 levels deep"),
    "quoted.toml": ("job = 'j'\n" + " . ".join(['"a"'] * 20_000) + " = 1\n", "line 2: nested more than 40 levels"),
    "header.toml": (f"[{'.'.join('a' * 20_000)}]\n", "line 1: nested more than 40 levels deep"),
    "brackets.toml": (f"\na = {'[' * 20_000}{']' * 20_000}\n", "line 2: nested more than 40 levels deep"),
    "dotted-tables.toml": (
        "a = " + f"{{{'.'.join('a' * 39)} = " * 30 + "1" + "}" * 30,
        "nested more than 40 levels deep",
    ),
    "tables.toml": ("[[a]]\n" * 43_000, "more than 20000 keys and values"),
    "escaped-quotes.toml": ('a = """ ' + '\\""" ' * 50_000, "invalid TOML"),
}


@pytest.mark.parametrize("name", BEYOND_LIMITS)
def test_file_beyond_limits_is_a_typed_error_within_two_seconds(name: str, tmp_path: Path) -> None:
    text, said = BEYOND_LIMITS[name]
    path = written(tmp_path, text, name)
    begun = time.thread_time()
    with pytest.raises(SettingsError, match=said) as caught:
        read_job(path)
    assert time.thread_time() - begun < 2
    assert str(path) in str(caught.value)


BRACKETS_IN_STRINGS = (
    r"""
a = "[[[ \" . . . " # [[[
b = '''
[[[ '''
c = '{{{'
""".replace("[[[", "[" * 100)
    .replace(". . .", "." * 100)
    .replace("{{{", "{" * 100)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.yaml", f"job: {'[' * 39}1{']' * 39}\n"),
        ("deep.toml", f"job = {'[' * 39}1{']' * 39}\n"),
        ("dotted.toml", f"{'.'.join('a' * 40)} = 1\n"),
        ("strings.toml", BRACKETS_IN_STRINGS),
        ("number.toml", f"a = [{'1' * 100}, -1.5, 1979-05-27T07:32:00.5Z]\n"),
        ("number.yaml", f"a: [{'1' * 100}, -1.5, 1979-05-27T07:32:00.5Z]\n"),
    ],
)
def test_file_within_limits_is_parsed(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(JobFileError):  # its keys are not keys of a job
        read_job(written(tmp_path, text, name))


def test_missing_and_unreadable_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_job(tmp_path / "none.yaml")
    with pytest.raises(SettingsError, match="is not a job file"):
        read_job(written(tmp_path, WHOLE, "job.json"))
    (tmp_path / "bytes.yaml").write_bytes(b"job: \xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_job(tmp_path / "bytes.yaml")


@pytest.mark.parametrize(
    "text",
    [
        f'job = "{HIDDEN}',
        f"job = {HIDDEN}",
        f'a = 1\na = "{HIDDEN}"',
        f'["{HIDDEN}"]\nb = 1\n["{HIDDEN}"]',
        "a = [" * 5000,
    ],
)
def test_invalid_toml_is_reported_without_its_content(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"invalid TOML|nested") as raised:
        read_job(written(tmp_path, text, "job.toml"))
    assert HIDDEN not in str(raised.value)


SECRETS = [
    "sinks: [{vault: {table: t, password: %s}}]",
    "sinks: [{vault: {table: t, password: {env: P}, passwd: %s}}]",
    "sinks: [{vault: {table: [%s], password: {env: P}}}]",
    "sinks: [{vault: {table: t, password: {env: P, file: %s}}}]",
    "sinks: [{vault: {table: t, password: [%s]}}]",
    "sinks: ['postgres://me:%s@host/db']",
    "sinks: [%s]",
    "sinks: [{vault: %s}]",
    "sinks: [console]\nstream: {source: {kafka: {servers: a, topic: t, options: {kafka.sasl.jaas.config: %s}}}}",
    "sinks: [console]\nspark: {spark.hadoop.fs.s3a.secret.key: %s}",
    "sinks: [console]\ntrigger: [%s]",
    "sinks: [console]\nlimits: {policy: %s}",
    "sinks: [console]\nmetrics: {port: %s}",
    "sinks: [console\npassword: %s",
    "sinks: [console]\npassword: '%s",
    "sinks: [console]\nmetrics: !x %s",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_message_shows_a_secret(text: str, tmp_path: Path) -> None:
    body = "job: a\npatterns: rules/\ncheckpoint: state\n" + text % HIDDEN
    if "stream:" not in body:
        body = WHOLE.replace("sinks: [console]\n", "") + text % HIDDEN
    with pytest.raises(SettingsError) as raised:
        read_job(written(tmp_path, body))
    shown = str(raised.value) + repr(raised.value) + str(raised.value.__cause__) + str(raised.value.hint)
    assert HIDDEN not in shown


def test_a_secret_is_a_reference_and_shown_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_OF_TABLE", HIDDEN)
    (tmp_path / "key").write_text(HIDDEN)
    text = WHOLE.replace("[console]", "[{vault: {table: t, password: {env: PASSWORD_OF_TABLE}}}]")
    job = read_job(written(tmp_path, text + "spark: {spark.some.token: {file: key}}\n"))
    assert getattr(job.sinks[0], "password", None) == Secret(env="PASSWORD_OF_TABLE")
    secret = job.spark["spark.some.token"]
    assert isinstance(secret, Secret)
    assert secret.reveal() == HIDDEN
    for shown in (repr(job), str(job), job.model_dump_json(), str(job.model_dump())):
        assert HIDDEN not in shown
        assert "PASSWORD_OF_TABLE" in shown


def test_values_that_resemble_secrets_are_accepted(tmp_path: Path) -> None:
    text = (
        WHOLE
        + "spark: {spark.security.credentials.kafka.enabled: 'false', spark.x.token.endpoint.url: 'https://a/b'}\n"
    )
    assert len(read_job(written(tmp_path, text)).spark) == 2
