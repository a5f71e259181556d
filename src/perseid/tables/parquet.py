"""Read Parquet files: whole if they fit into memory, otherwise in pieces of complete partitions."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from perseid.errors import EventDataError
from perseid.runtime.key_encoding import key_hashes
from perseid.runtime.progress import ProgressLine
from perseid.tables.arrow_streams import without_views

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_MOST_BUCKETS = 512  # a file is open for each
_BATCH = 65_536
_SAMPLED_FILES = 4
_ENDINGS = (".parquet", ".parq", ".pq")


def is_dataset(data: object) -> TypeGuard[ds.Dataset]:
    """Check for a dataset of Arrow without importing that module, which imports pandas."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def open_parquet(paths: Paths, coded: Sequence[str] = ()) -> ds.FileSystemDataset:
    """Open files, or folders of them as Spark writes them (``day=2024-01-01/part-0.parquet``), as one dataset.

    Columns of few texts, ``coded``, are read as codes and a dictionary, as the files store them.
    """
    import pyarrow.dataset as ds

    path_list = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not path_list:
        raise EventDataError("The list of input files is empty.", hint="Add the path of a Parquet file or folder.")
    parts = [_open(path, coded) for path in path_list]
    # Files of one stream may differ: a column is null in files that lack it.
    schemas = [part.schema for part in parts]
    fragments = [fragment for part in parts for fragment in part.get_fragments()]
    for fragment in fragments:
        with _readable(fragment.path):
            schemas.append(fragment.physical_schema)
    try:
        schema = pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise EventDataError(
            f"The Parquet files have incompatible schemas: {_reason(error)}.",
            hint="Use files with the same column types.",
        ) from error
    schema = pa.schema([column.with_type(without_views(column.type)) for column in schema])
    return ds.FileSystemDataset(fragments, schema, parts[0].format, parts[0].filesystem)


def partitioned(
    paths: Paths,
    key_columns: Sequence[str],
    needed: Collection[str] | None,
    memory_limit: int,
    coded: Sequence[str] = (),
    keep: Callable[[pa.Table], pa.Table] | None = None,
    progress: ProgressLine | None = None,
) -> Iterator[pa.Table]:
    """Yield tables with all rows of the keys in them; a single table if everything fits ``memory_limit`` bytes.

    Larger inputs are split by key in one pass through temporary files, and rows remain in the order of the files. A
    table exceeds the limit if a single key does. ``keep`` filters a single table as it is read; pieces are not
    filtered. ``progress`` shows which piece is read.
    """
    dataset = open_parquet(paths, coded)
    columns = _present(dataset, None if needed is None else {*needed, *key_columns})
    # A key column that no file has is null in every row: it splits nothing.
    keys = [name for name in dict.fromkeys(key_columns) if name in dataset.schema.names]
    size = _decoded_size(dataset, columns)
    if size <= memory_limit:
        with _readable("The Parquet files"):
            table = _read(dataset, columns, keep)
        yield table
        return
    if not keys:
        raise EventDataError(
            f"The events need about {_written(size)} of memory, the limit is {_written(memory_limit)}, "
            "and without a key they cannot be split.",
            hint="Add 'partition by' to the pattern, raise the memory limit, or run the pattern on Spark.",
        )
    yield from _split(open_parquet(paths), columns, keys, size, memory_limit, progress)


def _read(dataset: ds.Dataset, columns: list[str], row_filter: Callable[[pa.Table], pa.Table] | None) -> pa.Table:
    """Read all rows, a row group at a time on each core: rows that are dropped never leave the core's cache."""
    groups = [group for fragment in dataset.get_fragments() for group in fragment.split_by_row_group()]
    cores = min(len(groups), os.cpu_count() or 1)
    if row_filter is None or cores <= 1:
        table = dataset.to_table(columns=columns)
        return table if row_filter is None else row_filter(table)

    def read(group: ds.Fragment) -> pa.Table:
        return row_filter(group.to_table(schema=dataset.schema, columns=columns, use_threads=False))

    with ThreadPoolExecutor(cores) as pool:
        return pa.concat_tables(list(pool.map(read, groups)))


def _open(path: str | os.PathLike[str], coded: Sequence[str]) -> ds.Dataset:
    import pyarrow.dataset as ds

    form = ds.ParquetFileFormat(dictionary_columns=list(coded))
    name = os.fspath(path)
    if "://" in name:
        with _readable(name):
            return ds.dataset(name, format=form, partitioning="hive")
    found = Path(name)
    if not found.exists():
        raise EventDataError(
            f"File or folder {name!r} not found.",
            hint="Use the path of a Parquet file or folder, or of a .csv, .jsonl or .ndjson file.",
        )
    if found.is_dir():
        files = [inner for inner in sorted(found.rglob("*")) if inner.is_file() and not _hidden(inner, found)]
        files = [inner for inner in files if inner.suffix in _ENDINGS] or files
        if not files:
            raise EventDataError(f"No Parquet file found in the folder {name!r}.")
        base = found
    else:
        files, base = [found], found.parent
    for file in files:
        with _readable(str(file)), file.open("rb") as opened:
            if opened.read(4) != b"PAR1":
                raise pa.ArrowInvalid("the Parquet header is missing")
    with _readable(name):
        return ds.dataset([str(file) for file in files], format=form, partitioning="hive", partition_base_dir=str(base))


def _hidden(path: Path, folder: Path) -> bool:
    """True for files of Spark and Hive: ``_SUCCESS``, ``.crc`` and the contents of folders such as ``_temporary``."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.relative_to(folder).parts)


@contextmanager
def _readable(subject: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        shown = subject if subject.startswith("The ") else repr(subject)
        raise EventDataError(
            f"{shown} cannot be read as Parquet: {_reason(error)}.",
            hint="Use Parquet files or folders, or .csv, .jsonl and .ndjson files; read other formats with pandas or "
            "pyarrow, and pass the table.",
        ) from error


def _reason(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0].rstrip(". ")


def _present(dataset: ds.Dataset, needed: Collection[str] | None) -> list[str]:
    names = dataset.schema.names
    return [name for name in dict.fromkeys(names) if needed is None or name in needed]


def _decoded_size(dataset: ds.Dataset, columns: list[str]) -> int:
    """Estimate the bytes that the columns take in memory.

    The sizes in the files are those of encoded values, far too small if a dictionary represents long strings. So rows
    are counted, and columns of variable width are estimated from a few batches.
    """
    fixed = [name for name in columns if _is_fixed(dataset.schema.field(name).type)]
    width = sum(dataset.schema.field(name).type.bit_width / 8 for name in fixed)
    columns = [name for name in columns if name not in fixed]
    rows, sampled_rows, sampled_bytes = 0, 0, 0
    with _readable("The Parquet files"):
        for number, fragment in enumerate(dataset.get_fragments()):
            rows += fragment.metadata.num_rows
            if number < _SAMPLED_FILES and columns:
                batch = fragment.scanner(dataset.schema, columns=columns, **_bounded()).head(_BATCH)
                sampled_rows += batch.num_rows
                sampled_bytes += batch.nbytes
    sampled = -(-rows * sampled_bytes // sampled_rows) if sampled_rows else 0
    return int(rows * width) + sampled


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _bounded() -> dict[str, int | ds.FragmentScanOptions]:
    """Options that keep a scan from reading far ahead of who consumes it."""
    import pyarrow.dataset as ds

    return {
        "batch_size": _BATCH,
        "batch_readahead": 2,
        "fragment_readahead": 1,
        "fragment_scan_options": ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True),
    }


def _split(
    dataset: ds.Dataset,
    columns: list[str],
    keys: list[str],
    size: int,
    memory_limit: int,
    progress: ProgressLine | None,
) -> Iterator[pa.Table]:
    # Twice as many buckets as for keys of equal size, which they never are.
    count = min(_MOST_BUCKETS, -(-2 * size // max(1, memory_limit)))
    with tempfile.TemporaryDirectory(prefix="perseid-") as folder:
        files = [Path(folder, f"{bucket}.arrows") for bucket in range(count)]
        used = _spill(dataset, columns, keys, files, memory_limit)
        for number, bucket in enumerate(used, 1):
            if progress is not None:
                progress.begin_piece(number, len(used))
            with pa.OSFile(str(files[bucket]), "rb") as source, pa.ipc.open_stream(source) as reader:
                table = reader.read_all()
            files[bucket].unlink()
            yield table


def _spill(dataset: ds.Dataset, columns: list[str], keys: list[str], files: list[Path], memory_limit: int) -> list[int]:
    """Write every row to the file of its bucket, in one pass; return the buckets that have rows."""
    writers: dict[int, pa.RecordBatchWriter] = {}
    with ExitStack() as stack:

        def write(pending: list[pa.RecordBatch]) -> None:
            table = pa.Table.from_batches(pending)
            hashes = key_hashes([table.column(name) for name in keys], table.num_rows)
            bucket = (hashes % np.uint64(len(files))).astype(np.int64)
            order = np.argsort(bucket, kind="stable")
            starts = np.searchsorted(bucket[order], np.arange(len(files) + 1))
            for number in np.flatnonzero(np.diff(starts)).tolist():
                if number not in writers:
                    sink = stack.enter_context(pa.OSFile(str(files[number]), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_stream(sink, table.schema))
                writers[number].write_table(table.take(pa.array(order[starts[number] : starts[number + 1]])))

        pending: list[pa.RecordBatch] = []
        pending_bytes = 0
        for batch in _batches(dataset, columns):
            pending.append(batch)
            pending_bytes += batch.nbytes
            if pending_bytes >= memory_limit // 4:
                write(pending)
                pending, pending_bytes = [], 0
        if pending:
            write(pending)
    return sorted(writers)


def _batches(dataset: ds.Dataset, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with _readable("The Parquet files"):
        for batch in dataset.scanner(columns=columns, **_bounded()).to_batches():
            if batch.num_rows:
                yield batch


def _written(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1_000:
            return f"{size:.3g} {unit}"
        size /= 1_000
    return f"{size:,.1f} GB"
