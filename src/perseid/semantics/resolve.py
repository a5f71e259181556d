"""Convert a pattern's AST to its core form; patterns without meaning are rejected.

There are three passes: the structure (:mod:`perseid.semantics.structure`), predicate placement and name checks
(:mod:`perseid.semantics.placing`), and here the clauses and the final form.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from perseid.errors import LimitError, ScopeError, SemanticError, UnknownNameError, nearest
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr, print_pattern
from perseid.semantics import core as c
from perseid.semantics.names import References, references
from perseid.semantics.placing import Placing
from perseid.semantics.shape import check_shape
from perseid.semantics.structure import Draft, ElementContext, micros

_STRICTLY_LATER = {ast.Selection.FOLLOWED_BY: True, ast.Selection.SUCCESSOR: True, ast.Selection.SQL: False}


def semantic_hash(pattern: ast.PatternDefinition) -> str:
    """Hash the meaning of a pattern to 128 bits: bound parameters count; name, metadata and layout do not."""
    bare = replace(pattern, name="p", metadata=ast.Metadata(), parameters=())
    return hashlib.blake2b(print_pattern(bare).encode(), digest_size=16).hexdigest()


def resolve(pattern: ast.PatternDefinition) -> c.CorePattern:
    """Convert a pattern with bound parameters to its core form."""
    return _Resolver(pattern).resolve()


class _Resolver(Placing):
    """The third pass, and the final form."""

    def resolve(self) -> c.CorePattern:
        pattern = self.pattern
        lead, element = self._split_lead(pattern.match)
        first: list[c.Lead] = []
        for absence in lead:
            place = ElementContext(absence=self._next())
            body = self._convert(absence.element, None, place)
            first.append(c.Lead(body, micros(absence.duration)))
        self.lead_steps = len(self.drafts)
        body = self._convert(element, None, ElementContext())
        if len(self.drafts) > limits.MAX_STEPS:
            raise LimitError(f"The pattern has more than {limits.MAX_STEPS} steps.", span=pattern.span)
        self._check_names()
        for conjunct in ex.conjuncts(pattern.where):
            self._place_conjunct(conjunct)
        returns = self._returns()
        self._check_conditions()
        body = self._with_guards(body)
        core = c.CorePattern(
            name=pattern.name,
            steps=tuple(self._step(d) for d in self.drafts),
            body=body,
            lead=tuple(replace(x, body=self._with_guards(x.body)) for x in first),
            within=pattern.within,
            holds_for=None if pattern.holds_for is None else micros(pattern.holds_for),
            guards=tuple(self.guards),
            partition=pattern.partition_by,
            context=pattern.selection if pattern.selection and pattern.selection.is_context else None,
            skip=self._skip(),
            strictly_later=_STRICTLY_LATER.get(pattern.selection) if pattern.selection else None,
            report_timeouts=pattern.report_timeouts,
            returns=returns,
            evidence=pattern.evidence,
            suppress=pattern.suppress,
            unified=frozenset(self.binders),
            semantic_hash=semantic_hash(pattern),
        )
        check_shape(core, pattern)
        return core

    # clauses

    def _returns(self) -> tuple[tuple[str, ex.Expr], ...]:
        out: list[tuple[str, ex.Expr]] = []
        for output in self.pattern.returns:
            name = output.name
            if name is None:
                if not isinstance(output.expr, ex.Ref):
                    raise SemanticError(
                        "A computed column needs a name.",
                        span=output.span,
                        hint=f"Add a name: {print_expr(output.expr)} as total.",
                    )
                name = output.expr.parts[-1]
            if name in dict(out):
                raise ScopeError(
                    f"Duplicate column {name!r} in 'return'.", span=output.span, hint="Rename one with 'as'."
                )
            refs = references(output.expr)
            steps = self._steps_of(refs)
            self._check_bare_output(refs, steps)
            self._check_expr(output.expr, None)
            out.append((name, output.expr))
        suppress = self.pattern.suppress
        if suppress is not None:
            known = [n for n, _ in out] + [".".join(p.parts) for p in self.pattern.partition_by]
            for by in suppress.by:
                if by not in known:
                    raise UnknownNameError(
                        f"Column {by!r} of 'suppress by' is neither a returned nor a partition column.",
                        span=suppress.span,
                        nearest=nearest(by, known),
                        hint=f"Available: {', '.join(known) or 'none'}.",
                    )
        return tuple(out)

    def _check_bare_output(self, refs: References, steps: list[Draft]) -> None:
        """Reject a bare column of a repeated step: it is ambiguous over several events."""
        for ref, draft in zip(refs.plain, steps, strict=False):
            if ref.parts[0] not in self.by_name and ref.parts[0] not in self.unified and draft.loops:
                name = draft.name or "a"
                raise SemanticError(
                    "The step is repeated and can match several events.",
                    span=ref.span,
                    hint=f"Use last({name}.{ref.parts[0]}), first({name}.{ref.parts[0]}), or an aggregate.",
                )

    def _skip(self) -> ast.Skip:
        skip, selection = self.pattern.skip, self.pattern.selection
        if skip is None:
            return ast.Skip("past last") if selection is ast.Selection.SQL else ast.Skip("none")
        if selection is not None:
            already = "defines event consumption" if selection.is_context else "defines where matching resumes"
            raise SemanticError(
                f"'selection {selection.value}' already {already}; 'after match skip' conflicts with it.",
                span=skip.span or self.pattern.span,
                hint="Remove one of the two.",
            )
        if skip.step is not None:
            draft = self._named(ex.Ref((skip.step,), span=skip.span))
            if draft.negated:
                raise ScopeError(
                    f"{skip.step!r} is inside 'not': no match has this event.",
                    span=skip.span,
                    hint="Skip to a step that is not negated.",
                )
        return skip

    # finishing

    def _step(self, draft: Draft) -> c.CoreStep:
        source = draft.source
        return c.CoreStep(
            id=draft.id,
            name=source.name,
            kind=source.kind,
            unify=tuple((u.attribute, u.name) for u in source.unify),
            choose=tuple(draft.choose),
            must=tuple(ex.conjuncts(source.must)),
            negated=draft.negated,
            repeated=bool(draft.loops),
            span=source.span,
        )

    def _with_guards(self, core: c.Core) -> c.Core:
        match core:
            case c.Take():
                return core
            case c.Seq():
                return replace(core, items=tuple(map(self._with_guards, core.items)))
            case c.Alt():
                return replace(core, branches=tuple(map(self._with_guards, core.branches)))
            case c.All():
                return replace(
                    core,
                    members=tuple(map(self._with_guards, core.members)),
                    barred=tuple(map(self._with_guards, core.barred)),
                    guards=tuple(self.all_guards.get(core.id, ())),
                )
            case c.Loop():
                guards = tuple(self.loop_guards.get(core.id, ()))
                return replace(core, body=self._with_guards(core.body), guards=guards)
            case c.Absent() | c.Zone():
                return replace(core, body=self._with_guards(core.body))
