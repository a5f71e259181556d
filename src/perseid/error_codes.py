"""Codes of errors, each with its causes and its fix: for ``perseid explain-error`` and for the page of error codes."""

from __future__ import annotations

from dataclasses import dataclass

from perseid.errors import PerseidError, nearest


@dataclass(frozen=True)
class ErrorCode:
    """One code: the class of its errors, why they occur and how to fix them."""

    code: str
    error: str
    """The path of the class."""
    cause: str
    fix: str

    @property
    def class_name(self) -> str:
        return self.error.rpartition(".")[2]

    def explain(self) -> str:
        """The code in a few lines, for a terminal."""
        return f"{self.code} ({self.error})\n\nCause: {self.cause}\n\nFix: {self.fix}\n"


CODES = (
    ErrorCode(
        "error",
        "perseid.errors.PerseidError",
        "An operation failed that has no code of its own, such as a file that cannot be read.",
        "Follow the message and its hint.",
    ),
    ErrorCode(
        "pattern",
        "perseid.errors.PatternError",
        "A pattern or metamodel is invalid.",
        "Fix the text at the position that the message shows.",
    ),
    ErrorCode(
        "pattern-syntax",
        "perseid.errors.PatternSyntaxError",
        "The text of a pattern, metamodel, subscription or tree pattern does not follow the grammar: a misspelled clause, an "
        "operator of SQL or of another language, an unclosed bracket or string.",
        "Change the text at the caret. docs/cheat-sheet.md has every clause and operator on one page.",
    ),
    ErrorCode(
        "unknown-name",
        "perseid.errors.UnknownNameError",
        "A name is not defined: a step, parameter, column, function, type, relation or event type that neither the pattern nor "
        "its schema has.",
        "Use the suggested name, declare the name, or add it to the schema.",
    ),
    ErrorCode(
        "scope",
        "perseid.errors.ScopeError",
        "A name is a duplicate, or it is not available at this position. Examples: a column without its step, an optional "
        "step that the match may not have, a later step, a step of a negation.",
        "Use another name, or move the condition to the step or clause that the hint names.",
    ),
    ErrorCode(
        "type-mismatch",
        "perseid.errors.TypeMismatchError",
        "An operator or function does not support the types of its operands, such as a comparison of text with a number, or "
        "the number of arguments is wrong.",
        "Convert one operand with cast(x as type), compare with a value of the same type, or pass the arguments that the "
        "message names.",
    ),
    ErrorCode(
        "semantic",
        "perseid.errors.SemanticError",
        "A pattern follows the grammar and cannot match, or its result is not defined: a 'not' without an end, a "
        "condition that is never true, steps that cannot occur together.",
        "Write what the hint proposes. docs/refusals.md lists these combinations with replacements.",
    ),
    ErrorCode(
        "limit",
        "perseid.errors.LimitError",
        "An input is larger or nested deeper than a limit that protects the parser or matcher.",
        "Split the input. docs/security.md lists all limits.",
    ),
    ErrorCode(
        "search-budget",
        "perseid.errors.SearchBudgetError",
        "The search of a pattern exceeded its budget of search steps, matches or memory for one key. Patterns with several "
        "unbounded repetitions and long windows can have exponentially many combinations. A job quarantines the pattern and "
        "continues with the others.",
        "Shorten within, add a condition to each repeated step, bound repetitions as in A{1,5}, use -> in place of ->> (this finds fewer matches), or "
        "raise max_steps or max_matches of ps.StreamOptions.",
    ),
    ErrorCode(
        "unsupported",
        "perseid.errors.UnsupportedError",
        "A pattern or declaration is valid, and the engine that the stream selects does not support it.",
        "Use the replacement in the hint. docs/refusals.md lists all unsupported combinations.",
    ),
    ErrorCode(
        "not-yet",
        "perseid.errors.NotYetError",
        "No engine runs this type of step.",
        "Write the pattern with event types, `_` for any event, and events of models. docs/refusals.md has alternatives.",
    ),
    ErrorCode(
        "binding",
        "perseid.errors.BindingError",
        "Values do not fit the declarations of a pattern: a missing or unknown parameter, a relation with another number of columns, or "
        "arguments of the wrong type.",
        "Give each declared parameter a value with bind(…), and each relation of 'in Name' its rows with relations={…}.",
    ),
    ErrorCode(
        "event-data",
        "perseid.errors.EventDataError",
        "Events or the options of a stream, ps.events(…), cannot be used: a column is missing, a time is unreadable, the value "
        "of an option is out of range.",
        "Name the columns in the declaration, ps.events(data, time=…, type=…, key=…), and fix the row that the message names.",
    ),
    ErrorCode(
        "document",
        "perseid.errors.DocumentError",
        "A document is not well formed, is nested too deeply or is too large.",
        "Fix the document at the line and column of the message, or ignore the document: its row has the reason in the column 'error'.",
    ),
    ErrorCode(
        "stalled-matcher",
        "perseid.errors.StalledMatcherError",
        "The tree matcher made no progress in a document. This is a bug of Perseid. The document counts as malformed and "
        "the query continues.",
        "Report it with the document and the pattern.",
    ),
    ErrorCode(
        "version-mismatch",
        "perseid.errors.VersionMismatchError",
        "Driver and executors run different versions of Perseid.",
        "Install the same version everywhere. perseid doctor shows the version of each executor.",
    ),
    ErrorCode(
        "state",
        "perseid.errors.StateError",
        "A checkpoint cannot be resumed: its state is damaged, has another layout, or belongs to another declaration of the "
        "stream or the pattern.",
        "Restore the declaration that the message names, or start with a new checkpoint.",
    ),
    ErrorCode(
        "missing-extra",
        "perseid.errors.MissingExtraError",
        "An optional dependency is not installed.",
        "Run the command in the hint, such as pip install 'perseid[jobs]'.",
    ),
    ErrorCode(
        "change",
        "perseid.semantics.graphs.ChangeError",
        "A change is invalid in the current state of a live graph, such as a link to a deleted node.",
        "Fix the order of changes, or create the node first. Rejected changes are counted.",
    ),
    ErrorCode(
        "settings",
        "perseid.errors.SettingsError",
        "A setting of a job, source or sink is invalid.",
        "Fix the key that the message names. perseid schema prints the JSON schema of job files.",
    ),
    ErrorCode(
        "job-file",
        "perseid.jobs.reading.JobFileError",
        "A job file cannot be read or has invalid settings. The message lists every problem with its key.",
        "Fix each key and run perseid check.",
    ),
    ErrorCode(
        "job",
        "perseid.jobs.job_plan.JobError",
        "A job ended because of a failure that a retry does not fix.",
        "Follow the message and its hint, and start the job again: it resumes from its checkpoint.",
    ),
    ErrorCode(
        "job-stopped",
        "perseid.jobs.job_plan.StoppedError",
        "A limit in the section limits of the job file stopped the job, such as the share of bad or late records.",
        "Fix the source, or raise the limit, and start the job again.",
    ),
    ErrorCode(
        "sink",
        "perseid.sinks.failures.SinkError",
        "A sink did not write a batch. Transient failures are retried for the time of retry_for.",
        "Restore the target of the sink and start the job again: the batch is written then.",
    ),
    ErrorCode(
        "restored-checkpoint",
        "perseid.sinks.failures.RestoredCheckpointError",
        "The checkpoint was restored from an older copy, and the target of a sink has rows of later batches.",
        "Follow the remedy in the message: restore the target too, or remove the later rows.",
    ),
    ErrorCode(
        "lost-staging",
        "perseid.sinks.postgres_tables.LostStagingError",
        "The PostgreSQL server restarted while the sink copied a batch. The restart emptied the staging table.",
        "Nothing: the sink copies the batch again.",
    ),
)
"""All codes, the most general first."""

_BY_CLASS = {code.class_name: code for code in CODES}


def find_code(name: str) -> ErrorCode:
    """Return a code by name or by class name; raise for an unknown one."""
    known = {**{code.code: code for code in CODES}, **_BY_CLASS}
    found = known.get(name.rpartition(".")[2])
    if found is None:
        codes = [code.code for code in CODES]
        raise PerseidError(
            f"Unknown error code {name!r}.", hint=f"Available: {', '.join(codes)}.", nearest=nearest(name, known)
        )
    return found
