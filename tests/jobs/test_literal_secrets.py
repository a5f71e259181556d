"""Literal secrets in a job file are rejected with a correction, and never shown; ordinary values are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perseid.errors import SettingsError
from perseid.jobs.literal_secrets import literal_secret
from perseid.jobs.reading import JobFileError, read_job
from tests.jobs.test_job_files import WHOLE, written

SIGNATURE = "sv=2022-11-02&ss=b&sig=tQ9rVw2ZpLx8mN4k%2Bs6D%3D"
SLACK = "https://hooks.slack.com/services/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"
DISCORD = (
    "https://discord.com/api/webhooks/112233445566778899/kJ8h_2nM-pQ5rS7tU9vW1xY3zA5bC7dE9fG1hI3jK5lM7nO9pQ1rS3tU5v"
)
LITERALS: dict[str, tuple[str, Any, str]] = {
    "number": ("spark.my.password", 12345678, "a secret"),
    "number with a fraction": ("api_key", 1234.5678, "a secret"),
    "number as text": ("password", "12345678", "a secret"),
    "text": ("spark.hadoop.fs.s3a.secret.key", "wJalrXUtnFEMI", "a secret"),
    "authorization": ("Authorization", "q8Zk2LmN5pRs", "a secret"),
    "cookie": ("Cookie", "session=q8Zk2LmN5pRs", "a secret"),
    "bearer": ("X-Upstream", "Bearer q8Zk2LmN5pRs7TuV", "a header with a credential"),
    "basic": ("X-Upstream", "basic dXNlcjpwYXNz", "a header with a credential"),
    "whole header": ("header", "Authorization: Bearer q8Zk2LmN5pRs7TuV", "a header with a credential"),
    "SAS in an address": ("url", f"https://lake.blob.core.windows.net/c/b?{SIGNATURE}", "a signature"),
    "SAS alone": ("spark.hadoop.fs.azure.sas.c.lake.blob.core.windows.net", SIGNATURE, "a signature"),
    "presigned": ("url", "https://b.s3.amazonaws.com/k?X-Amz-Signature=9f8e7d6c5b4a", "a signature"),
    "query token": ("url", "https://example.com/hook?token=abc", "an address with a token in its query"),
    "query access_token": ("url", "https://example.com/hook?v=1&access_token=abc", "an address with a token in its query"),
    "query api_key": ("url", "https://example.com/hook?api_key=abc", "an address with a token in its query"),
    "query apiKey": ("url", "https://example.com/hook?apiKey=abc", "an address with a token in its query"),
    "query key": ("url", "https://example.com/hook?key=q8Zk2LmN5pRs7TuVwXy0", "an address with a token in its query"),
    "Slack": ("url", SLACK, "an address with a token in its path"),
    "Discord": ("url", DISCORD, "an address with a token in its path"),
    "Telegram": ("url", "https://api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage", "in its path"),
    "path with a random part": ("url", "https://example.com/in/q8Zk2LmN5pRs7TuVwXy0aBcD", "an address with a token in its path"),
    "hexadecimal part": ("url", "https://example.com/in/9f86d081884c7d659a2feaa0c55ad015", "an address with a token in its path"),
    "password in an address": ("url", "postgresql://me:hunter22@host/db", "an address with a password"),
    "password in a JDBC address": ("spark.x", "jdbc:postgresql://h/db?user=me&password=hunter22", "a password or a key"),
    "SQL Server address": ("spark.x", "jdbc:sqlserver://h:1433;user=me;password=hunter22", "a password or a key"),
    "connection string": ("spark.x", "Endpoint=sb://h/;SharedAccessKeyName=r;SharedAccessKey=q8Zk2LmN", "a password or a key"),
}  # fmt: skip
ORDINARY: dict[str, tuple[str, Any]] = {
    "number": ("rows", 12345678),
    "port": ("port", 5432),
    "shards": ("spark.sql.shuffle.partitions", "200"),
    "number of tokens": ("spark.max.tokens", 4096),
    "lifetime of a token": ("kafka.delegation.token.lifetime.ms", 86_400_000),
    "camel case": ("tokenLifetimeSeconds", "3600"),
    "switch": ("spark.security.credentials.kafka.enabled", "false"),
    "truth": ("spark.token.renew", True),
    "empty": ("password", ""),
    "address of tokens": ("spark.x.token.endpoint.url", "https://login.example.com/oauth2/token"),
    "address": ("url", "https://example.com/hooks/orders?source=perseid&version=2"),
    "long words": ("url", "https://example.com/customer-onboarding-notifications-2026/department_of_transportation"),
    "version": ("url", "https://example.com/api/v20261118/internationalization"),
    "id": ("url", "https://example.com/things/3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
    "numeric id": ("url", "https://example.com/things/123456789012345678901234"),
    "query words": ("url", "https://example.com/search?design=flat&tokenize=true&key=user"),
    "class": ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    "package": ("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1"),
    "hash in a lake": ("path", "s3a://lake/9f86d081884c7d659a2feaa0c55ad015/events"),
    "user without password": ("url", "postgresql://me@host:5432/db?sslmode=require"),
    "words": ("table", "bearer of news"),
    "mechanism": ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
    "fingerprint algorithm": ("kafka.ssl.endpoint.identification.algorithm", "https"),
    "column": ("key", "access_token"),
    "reference to a variable": ("spark.x", "jdbc:h2:mem;password=${PASSWORD}"),
}


@pytest.mark.parametrize("case", LITERALS)
def test_literal_secret_is_rejected_with_the_remedy_and_not_shown(case: str) -> None:
    name, value, why = LITERALS[case]
    said = literal_secret(name, value)
    assert said is not None
    assert why in said
    assert "{env: NAME} or {file: PATH}" in said
    assert not any(part in said for part in (str(value), "hunter22", "q8Zk2LmN", "12345678", "tQ9rVw2Z"))


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_value_is_accepted(case: str) -> None:
    assert literal_secret(*ORDINARY[case]) is None


FILES = {
    "number": "spark: {spark.my.password: 12345678}",
    "list": "dead_letters: {kafka: {servers: a, topic: t, options: {kafka.tokens: [abcdefgh]}}}",
    "SAS": f"spark: {{spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net: '{SIGNATURE}'}}",
    "query": "sinks: [{webhook: {url: 'https://example.com/hook?token=12345678'}}]",
    "path": f"sinks: [{{webhook: {{url: '{SLACK}'}}}}]",
    "bearer": "sinks: [{webhook: {url: 'https://example.com/', headers: {X-Upstream: 'Bearer 12345678'}}}]",
    "dead letters": f"dead_letters: {{webhook: {{url: '{DISCORD}'}}}}",
}


@pytest.mark.parametrize("case", FILES)
def test_file_with_a_literal_secret_is_a_typed_error_with_its_line(case: str, tmp_path: Path) -> None:
    text = FILES[case]
    kept = [line for line in WHOLE.splitlines() if line.split(":")[0] != text.split(":")[0]]
    with pytest.raises(JobFileError, match="must not be in the file") as raised:
        read_job(written(tmp_path, "\n".join([*kept, text])))
    (problem,) = raised.value.problems
    assert problem.line is not None
    shown = f"{raised.value!s}{raised.value!r}{raised.value.__cause__}"
    assert not any(part in shown for part in ("12345678", "abcdefgh", "q8Zk2LmN", "kJ8h_2nM", "tQ9rVw2Z"))


def test_rules_and_columns_may_name_anything(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "patterns: rules/", "patterns: {text: 'pattern p match A a [url = \"https://example.com/?token=1\"]'}"
    ).replace("format: parquet", "format: json, schema: 'token string'")
    assert read_job(written(tmp_path, text)).job


@pytest.mark.parametrize(
    "name", ["spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.driver.extraClassPath", "spark.ssl.keyStore"]
)  # fmt: skip
def test_secret_that_spark_would_put_on_a_command_line_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="on a command line, which every user of the machine can read"):
        read_job(written(tmp_path, WHOLE + f"spark: {{{name}: {{env: OPTIONS}}}}\n"))


@pytest.mark.parametrize(
    "name", ["spark.authenticate.secret", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.secret.key"]
)
def test_secret_that_spark_puts_on_no_command_line_is_accepted(name: str, tmp_path: Path) -> None:
    assert name in read_job(written(tmp_path, WHOLE + f"spark: {{{name}: {{env: KEY}}}}\n")).spark
