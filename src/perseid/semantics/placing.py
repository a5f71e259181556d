"""Predicate placement, the second pass over a pattern.

Each conjunct of ``where`` moves to the place that decides it; every name is checked against the bindings available
where it is used.
"""

from __future__ import annotations

from perseid.errors import ScopeError, SemanticError, UnknownNameError, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.semantics import core as c
from perseid.semantics.names import References, references
from perseid.semantics.structure import Draft, Structure


class Placing(Structure):
    """Places conditions on the drafts of the first pass."""

    lead_steps = 0
    """Number of drafts in leading absences."""

    # where

    def _place_conjunct(self, conjunct: ex.Expr) -> None:
        refs = references(conjunct)
        plain = {d.id for d in self._steps_of(refs)}
        many = {d.id for d in self._aggregated(refs)}
        shared = {ref.parts[0] for ref in refs.plain if ref.parts[0] in self.unified}
        if shared and self._place_on_binders(conjunct, refs, shared):
            return
        if not plain and not many:
            first = next(d for d in self.drafts if not d.negated)
            first.choose.append(c.Condition(conjunct))
            return
        last = self.drafts[max(plain | many)]
        self._check_branches([self.drafts[i] for i in sorted(plain | many)], conjunct)
        negated = [self.drafts[i] for i in plain | many if self.drafts[i].negated]
        if negated:
            last = negated[-1]
            self._check_owner(refs, last)
        together = {i for i in plain | many if i == last.id or self._in_any_order(self.drafts[i], last)}
        if len(together) > 1:
            number = self._common_conjunction([self.drafts[i] for i in together])
            self.all_guards.setdefault(number, []).append(conjunct)
            if not many & together:
                for i in together:
                    self.drafts[i].choose.append(c.Condition(conjunct, tuple(sorted(together - {i}))))
        elif last.id in plain:
            last.choose.append(c.Condition(conjunct))
        elif last.repeats:
            number = last.loops[0] if last.loops else last.repeats[-1]
            self.loop_guards.setdefault(number, []).append(conjunct)
        else:
            self.guards.append(conjunct)

    @staticmethod
    def _check_branches(drafts: list[Draft], conjunct: ex.Expr) -> None:
        branch_of: dict[int, tuple[int, Draft]] = {}
        for draft in drafts:
            for number, branch in draft.branches:
                if number in branch_of and branch_of[number][0] != branch:
                    raise ScopeError(
                        f"{branch_of[number][1].name!r} and {draft.name!r} are in different branches: no match has both.",
                        span=conjunct.span,
                        hint="Add a condition to each branch.",
                    )
                branch_of[number] = (branch, draft)

    def _place_on_binders(self, conjunct: ex.Expr, refs: References, shared: set[str]) -> bool:
        """Place a condition on a unified name that several steps may bind first on every step that binds it.

        Return True if it is placed. Conditions that mix such a name with others are rejected, as it may be unbound.
        """
        loose = [n for n in shared if self.drafts[self.unified[n]].optional or self.drafts[self.unified[n]].branches]
        if not loose:
            return False
        alone = len(shared) == 1 and len({ref.parts for ref in refs.plain}) == 1 and not refs.aggregated
        if not alone or refs.steps:
            ref = next(r for r in refs.plain if r.parts[0] in loose)
            raise ScopeError(
                f"{ref.parts[0]!r} can be bound by several steps, or by none of them.",
                span=ref.span,
                hint="Put the condition in square brackets after each step that binds it.",
            )
        for draft in self.binders[loose[0]]:
            if not draft.negated:
                draft.choose.append(c.Condition(conjunct))
        return True

    def _check_owner(self, refs: References, last: Draft) -> None:
        """Reject a bare column of another step on ``last``: it would be read as a column of ``last``."""
        for ref in refs.plain:
            head = ref.parts[0]
            if head not in self.by_name and head not in self.unified and self._only_step(ref) is not last:
                owner = self._only_step(ref).name or "a"
                hint = f"Name the step and use {owner}.{head}."
                raise ScopeError(f"Column {head!r} needs a step name.", span=ref.span, hint=hint)

    def _steps_of(self, refs: References) -> list[Draft]:
        """Return the steps that the plain names of a conjunct of ``where`` refer to."""
        found = []
        for ref in refs.plain:
            head = ref.parts[0]
            if head in self.by_name:
                if len(ref.parts) == 1:
                    raise self._whole_event(ref)
                found.append(self.by_name[head])
            elif head in self.unified:
                found.append(self.drafts[self.unified[head]])
            else:
                found.append(self._only_step(ref))
        for _, ref in refs.steps:
            found.append(self._named(ref))
        return found

    def _aggregated(self, refs: References) -> list[Draft]:
        if refs.nested is not None:
            raise SemanticError(
                "An aggregate of an aggregate is unsupported.",
                span=refs.nested.span,
                hint=f"Use one of the two: {print_expr(refs.nested)}.",
            )
        for call, ref in refs.aggregated:
            if len(ref.parts) == 1 and ref.parts[0] not in self.by_name:
                raise self._not_of_a_step(call, ref)
        return [self._named(ref) for _, ref in refs.aggregated]

    def _not_of_a_step(self, call: ex.Call, ref: ex.Ref) -> ScopeError:
        """Return the error for ``sum(amount)``: an aggregate needs the name of a step."""
        name = ref.parts[0]
        names = [n for n, d in self.by_name.items() if d.loops and not d.negated] or list(self.by_name)
        return ScopeError(
            f"Column {name!r} needs a step name.",
            span=ref.span,
            hint=f"Use {call.name}({names[0]}.{name})."
            if names
            else f"Name the step, as in Transfer+ t, and use {call.name}(t.{name}).",
        )

    def _steps_hint(self) -> str:
        if not self.by_name:
            return "Name a step to use its columns: Login a."
        return f"Available: {', '.join(self.by_name)}."

    def _named(self, ref: ex.Ref) -> Draft:
        head = ref.parts[0]
        if head not in self.by_name:
            raise UnknownNameError(
                f"Unknown step {head!r}.",
                span=ref.span,
                nearest=nearest(head, self.by_name),
                hint=self._steps_hint(),
            )
        return self.by_name[head]

    def _only_step(self, ref: ex.Ref) -> Draft:
        """Return the step of a bare column in ``where`` or ``return``; an error unless only one step can have it."""
        positive = [d for d in self.drafts if not d.negated]
        head = ref.parts[0]
        if len(positive) == 1 and (len(ref.parts) == 1 or nearest(head, self.by_name) is None):
            return positive[0]
        if len(ref.parts) > 1:
            raise UnknownNameError(
                f"Unknown step {head!r}.",
                span=ref.span,
                nearest=nearest(head, self.by_name),
                hint=self._steps_hint(),
            )
        names = [d.name for d in positive if d.name]
        near = nearest(head, [*self.by_name, *self.unified])
        choices = " or ".join(f"{name}.{head}" for name in names[:3])
        hint = f"Use {choices}." if names else f"Name a step and use its column: Login a … a.{head}."
        raise ScopeError(f"Column {head!r} needs a step name.", span=ref.span, nearest=near, hint=hint)

    def _whole_event(self, ref: ex.Ref) -> ScopeError:
        name = ref.parts[0]
        return ScopeError(
            f"Expected a value, got the event {name!r}.",
            span=ref.span,
            hint=f"Use one of its columns, as in {name}.COLUMN, or its time, time({name}).",
        )

    @staticmethod
    def _in_any_order(a: Draft, b: Draft) -> bool:
        members = dict(a.members)
        return any(number in members and members[number] != member for number, member in b.members)

    @staticmethod
    def _common_conjunction(drafts: list[Draft]) -> int:
        for number, _ in drafts[0].members:
            if len({dict(d.members).get(number) for d in drafts}) > 1:
                return number
        raise AssertionError("steps in any order share a conjunction")

    # names

    def _check_names(self) -> None:
        for name in self.unified:
            if name in self.by_name:
                raise ScopeError(
                    f"Duplicate name {name!r}: it is a step and a value that steps share.",
                    span=self.by_name[name].source.span,
                    hint="Use another name.",
                )
        for name, binders in self.binders.items():
            for draft in binders:
                if draft.negated:
                    self._check_negated_binder(name, draft)

    def _check_negated_binder(self, name: str, draft: Draft) -> None:
        """Reject a unified name under 'not' if its binding step may match later; a leading 'not' has the first step."""
        first = self.unified.get(name)
        if first is None:
            return
        binder = self.drafts[first]
        in_lead = draft.id < self.lead_steps
        if (first != self._first_step() if in_lead else first > draft.id) or self._in_any_order(binder, draft):
            raise ScopeError(
                f"{name!r} is not bound yet when this 'not' is evaluated.",
                span=draft.source.span,
                hint="Bind it in a step before the 'not', or put the condition on the step after it.",
            )

    def _check_conditions(self) -> None:
        for draft in self.drafts:
            for condition in draft.choose:
                self._check_expr(condition.expr, draft)
            for conjunct in ex.conjuncts(draft.source.must):
                if draft.negated:
                    raise SemanticError(
                        "'not' has no event that 'must' could test.",
                        span=draft.source.span,
                        hint=f"Use square brackets for the events that must not occur: [{print_expr(conjunct)}].",
                    )
                self._check_expr(conjunct, draft)
        for guards in (*self.loop_guards.values(), self.guards):
            for guard in guards:
                self._check_expr(guard, None)
        for number, guards in self.all_guards.items():
            for guard in guards:
                self._check_expr(guard, None, self.all_loops[number])

    def _check_expr(self, expr: ex.Expr, at: Draft | None, loops: tuple[int, ...] = ()) -> None:
        refs = references(expr)
        self._aggregated(refs)
        for ref in refs.plain:
            draft = self.by_name.get(ref.parts[0])
            if draft is None:
                continue
            if len(ref.parts) == 1:
                raise self._whole_event(ref)
            self._check_visible(draft, ref, at)
            self._check_single(draft, ref, at, loops)
        for _, ref in refs.steps:
            draft = self._named(ref)
            self._check_visible(draft, ref, at)
            self._check_single(draft, ref, at, loops)
        for call, ref in refs.aggregated:
            draft = self._named(ref)
            self._check_visible(draft, ref, at)
            self._check_repeated(draft, call, at)

    def _check_visible(self, draft: Draft, ref: ex.Ref, at: Draft | None) -> None:
        name = ref.parts[0]
        if draft.negated and (at is None or at.absence != draft.absence):
            raise ScopeError(
                f"{name!r} is inside 'not': no match has this event.",
                span=ref.span,
                hint="Use a step that is not negated; put conditions on this one in square brackets after it.",
            )
        if at is not None and at.negated and not draft.negated and self._in_any_order(draft, at):
            raise ScopeError(
                f"{name!r} may match before or after the negated step, whose condition cannot use it.",
                span=ref.span,
                hint="Use steps before the '&', or write the steps in order.",
            )
        if at is None or draft is at or self._in_any_order(draft, at):
            return
        if at.id < self.lead_steps:
            if draft.id > self._first_step():
                raise ScopeError(
                    f"{name!r} is bound later; a leading 'not' can use only the first step.",
                    span=ref.span,
                    hint="Remove the condition, or use a column of the first step.",
                )
            return
        if draft.id > at.id:
            step_name = at.name or "this step"
            raise ScopeError(
                f"{name!r} matches after {step_name}, so it has no event yet.",
                span=ref.span,
                hint=f"Put the condition on {name}, or in 'where'.",
            )
        if dict(draft.branches).keys() & dict(at.branches).keys():
            branches = dict(at.branches)
            if any(branches.get(number, branch) != branch for number, branch in draft.branches):
                raise ScopeError(
                    f"{name!r} is in another branch: no match has both steps.",
                    span=ref.span,
                    hint="Use a step of the same branch, or one before the |.",
                )

    def _first_step(self) -> int:
        return next(d.id for d in self.drafts if not d.negated)

    def _check_single(self, draft: Draft, ref: ex.Ref, at: Draft | None, loops: tuple[int, ...]) -> None:
        enclosing_loops = loops if at is None else at.loops
        if draft is at or draft.loops == enclosing_loops[: len(draft.loops)]:
            return
        name, column = ref.parts[0], ".".join(ref.parts[1:])
        inside = f"{name}.{column}" if column else name
        raise SemanticError(
            f"{name!r} is repeated and can match several events.",
            span=ref.span,
            hint=f"Use last({inside}), first({inside}), or an aggregate such as sum({inside}), count({name}).",
        )

    def _check_repeated(self, draft: Draft, call: ex.Call, at: Draft | None) -> None:
        if call.name == "prev" and draft is not at:
            raise SemanticError(
                "prev(…) refers to the previous iteration and is allowed only in the condition of the repeated step.",
                span=call.span,
                hint=f"Write it in the square brackets after {draft.name}.",
            )
        cumulative = self.pattern.selection is ast.Selection.CUMULATIVE
        if not draft.loops and not draft.optional and not cumulative:
            raise SemanticError(
                f"{call.name}(…) expects a repeated step, and {draft.name!r} is a single event.",
                span=call.span,
                hint=f"Use the column itself, or repeat the step: {_kind_text(draft)}+ {draft.name}.",
            )


def _kind_text(draft: Draft) -> str:
    kind = draft.source.kind
    return kind.name if isinstance(kind, ast.EventType) else "any"
