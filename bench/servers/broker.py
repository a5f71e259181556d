"""A Kafka broker of one node, in its own folder."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.servers.jars import HERE, jars_of
from bench.servers.processes import free_port, is_listening, stop, wait_for

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Broker:
    """Started by ``with``; it can be stopped and restarted without loss of data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._controller = free_port(), free_port()
        self._classpath = os.pathsep.join(map(str, jars_of(HERE / "kafka" / "pom.xml", transitive=True)))
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._properties = folder / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(port=self.port, controller=self._controller, data=folder / "data")
        )
        # With a leading zero byte: otherwise one id in 64 would begin with a dash, and be parsed as an option.
        cluster = urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        made = ["kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(self._properties)]
        subprocess.run(["java", "-cp", self._classpath, *made], check=True, capture_output=True, timeout=60)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        log = self.folder / "broker.log"
        options = ["-Xms256m", "-Xmx768m", "-XX:+UseSerialGC"]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["java", *options, "-cp", self._classpath, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        wait_for(self._is_ready, self._process, log)

    def _is_ready(self) -> bool:
        from confluent_kafka.admin import AdminClient

        if not is_listening(self.port):
            return False
        quiet = {"bootstrap.servers": self.servers, "log_level": 0}
        try:
            return bool(AdminClient(quiet).list_topics(timeout=2).brokers)
        except Exception:
            return False

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
