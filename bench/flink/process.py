"""Flink in its own process for each query and each form: SQL and CEP."""

from __future__ import annotations

from pathlib import Path

from bench.flink.queries import DELAY_MS, SQL, CepForm, table
from bench.java import Program, build
from bench.workload import Query

HERE = Path(__file__).parent
# Heap for the buffered state; the parallel collector was faster than G1. Flink reads the opened packages by reflection.
HEAP = "4g"
JVM = ("-XX:+UseParallelGC",)
OPENED = (
    "--add-opens", "java.base/java.util=ALL-UNNAMED",
    "--add-opens", "java.base/java.lang=ALL-UNNAMED",
)  # fmt: skip


class Flink:
    """The compiled Java side and the command lines of its processes."""

    def __init__(self, program: Program, scratch: Path, parallelism: int, heap: str = HEAP) -> None:
        self._program, self._scratch, self._parallelism, self._heap = program, scratch, parallelism, heap

    def sql(self, query: Query, lanes: Path) -> list[str]:
        """Command line of the process that runs a query in SQL over a folder of Parquet files."""
        return self._command("sql", table(query, str(lanes)), SQL[query.name])

    def cep(self, form: CepForm, lanes: Path) -> list[str]:
        """Command line of the process that runs a query as a pattern of Flink CEP."""
        return self._command(
            "cep",
            str(lanes),
            form.query,
            str(form.window_ms),
            str(DELAY_MS),
            form.types,
            "read-v" if form.reads_v else "no-v",
            "long-keys" if form.long_keys else "int-keys",
        )

    def _command(self, *args: str) -> list[str]:
        folder = f"-Djava.io.tmpdir={self._scratch}"  # temporary files of a killed process
        java = [
            self._program.java,
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            *JVM,
            *OPENED,
            folder,
            "-cp",
            self._program.classpath,
        ]
        return [*java, "FlinkRounds", str(self._parallelism), *args]


def compile_flink(folder: Path, scratch: Path, parallelism: int, heap: str = HEAP) -> Flink:
    """Flink, compiled into a folder."""
    return Flink(build(HERE, folder), scratch, parallelism, heap)
