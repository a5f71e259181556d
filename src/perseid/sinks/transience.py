"""Classify failures: transient ones may pass on a retry, all others end a job at once.

An error is transient only if it is recognized: errors of the network and of disks, lost connections to databases and
brokers, HTTP 408, 425, 429 and 5xx, and lost workers or executors of Spark. Errors of tasks arrive as text, so they are
recognized by the names of the exceptions in it.
"""

from __future__ import annotations

import re

from perseid.errors import PerseidError

LOST_CONNECTION = "lost connection to the server"
"""Text with which a task marks a failure of its connection; the type of the error does not reach the driver."""
_PERMANENT_OS = (
    FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError, ProcessLookupError,
)  # fmt: skip
_PYTHON_NAME = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit)\b)(?=:|$)", re.MULTILINE)
"""The last line of a Python traceback: the type of the error."""
_JVM_PACKAGES = ("org.", "java.", "javax.", "scala.", "com.", "io.")
_TRANSIENT_PYTHON = frozenset({
    "OSError", "IOError", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError",
    "TimeoutError", "InterruptedError", "BlockingIOError", "gaierror", "herror", "EOFError", "IncompleteRead", "RemoteDisconnected",
})  # fmt: skip
_TRANSIENT_TEXT = re.compile(
    r"""
      java\.net\.\w*(?:Connect|Socket|UnknownHost|NoRouteToHost|PortUnreachable)\w*Exception
    | java\.(?:io\.InterruptedIO|nio\.channels\.ClosedChannel|util\.concurrent\.Timeout)Exception
    | \w*(?:Socket|Connect|Connection|Read|Request|Rpc|Call)Timeout\w*Exception
    | org\.apache\.kafka\.common\.errors\.(?:
        Timeout|Network|Disconnect|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|NotLeaderForPartition|NotCoordinator|NotController
        |CoordinatorNotAvailable|CoordinatorLoadInProgress|NotEnoughReplicas\w*|RebalanceInProgress|ReplicaNotAvailable|KafkaStorage|FencedLeaderEpoch
        |UnknownLeaderEpoch|FetchSessionTopicId|OffsetNotAvailable|ThrottlingQuotaExceeded)Exception
    | org\.apache\.hadoop\.ipc\.(?:Standby|Retriable)Exception
    | PYTHON_WORKER_\w*EXITED | Python\ worker\ (?:exited\ unexpectedly|failed\ to\ connect\ back)
    | ExecutorLostFailure | FetchFailed | MetadataFetchFailed | Executor\ heartbeat\ timed\ out | Lost\ executor | UNAVAILABLE: | DEADLINE_EXCEEDED
    | java\.io\.IOException:\ (?:Stream|Socket|Pipe|Connection)\ (?:is\ )?(?:closed|broken) | Premature\ EOF | Could\ not\ obtain\ block
    | Connection\ (?:refused|reset|timed\ out|closed) | Broken\ pipe | No\ route\ to\ host | Network\ is\ unreachable
    | No\ space\ left\ on\ device | Disk\ quota\ exceeded | File\ too\ large | Input/output\ error
    | (?:Status\ Code|status\ code|HTTP\ status|HTTP/1\.1)[:=\s]+(?:408|425|429|5\d\d)\b
    """,
    re.VERBOSE,
)
_TRANSIENT_SQLSTATES = ("08", "40", "53", "57", "58", "55P03")
"""PostgreSQL error classes: connection, rollback, resources, operator, system error; and lock not available."""


def is_transient(error: BaseException | None) -> bool:
    """True if a retry may succeed after this error."""
    if error is None:
        return False
    if isinstance(error, PerseidError):
        return bool(getattr(error, "transient", False))
    if isinstance(error, OSError | EOFError):
        return not isinstance(error, _PERMANENT_OS)
    if is_lost_database(error):
        return True
    # A JVM that ended cannot restart in this process.
    of_spark = type(error).__module__.startswith(("pyspark.", "py4j.")) and type(error).__name__ != "Py4JNetworkError"
    return of_spark and _is_transient_text(str(error))


def is_lost_database(error: BaseException) -> bool:
    """True if PostgreSQL is unreachable or stopped: an ``OperationalError`` without a state or in a transient class."""
    names = {one.__name__ for one in type(error).__mro__ if one.__module__.startswith("psycopg")}
    if not names & {"OperationalError", "InterfaceError", "InternalError"}:
        return False
    state = getattr(error, "sqlstate", None)
    return "InternalError" not in names if state is None else str(state).startswith(_TRANSIENT_SQLSTATES)


def _is_transient_text(text: str) -> bool:
    """Classify an error text of Spark; for errors that Python raised, only the types of Python's errors count."""
    if LOST_CONNECTION in text:
        return True
    names = _PYTHON_NAME.findall(text) if "Traceback (most recent" in text else []
    raised = [name for name in names if not name.startswith(_JVM_PACKAGES)]
    if raised:
        return raised[-1].rpartition(".")[2] in _TRANSIENT_PYTHON
    return _TRANSIENT_TEXT.search(text) is not None
