"""Drawing of a tree pattern as its transducer: steps are states, edges are axes, and each SiblingFA has a box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from perseid.engines.trees.siblings import END_OF_RUN, PASS, SiblingEdge
from perseid.engines.trees.transducer import (
    MAX_RULES_SHOWN,
    SiblingState,
    State,
    StepState,
    Transducer,
    print_condition,
    print_step,
    translate,
)
from perseid.errors import PerseidError
from perseid.lang import tree_patterns as tp
from perseid.viz.draw import Format, _dot, _mermaid, _state
from perseid.viz.graph import MATCH, START, DrawnGraph, Edge
from perseid.viz.svg_drawing import draw_svg

_IN_MERMAID = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": "<br/>"})
_IN_DOT = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class Box:
    """The states of one SiblingFA."""

    title: str
    states: tuple[int, ...]


@dataclass(slots=True)
class TreeGraph(DrawnGraph):
    boxes: list[Box] = field(default_factory=list)


def draw(pattern: tp.TreePattern, form: Format = "text", name: str = "match") -> str:
    """Draw the transducer of a tree pattern as text, Mermaid, DOT or SVG; ``name`` labels the match state."""
    transducer = translate(pattern)
    match form:
        case "text":
            return _text(transducer, name)
        case "mermaid":
            graph = tree_graph(transducer)
            return _mermaid(name, graph) + "".join(_mermaid_boxes(graph))
        case "dot":
            graph = tree_graph(transducer)
            return _dot(name, graph).removesuffix("}\n") + "".join(_dot_boxes(graph)) + "}\n"
        case "svg":
            return draw_svg(name, tree_graph(transducer))
    raise PerseidError(f"Unsupported drawing format {form!r}.", hint="Use text, mermaid, dot or svg.")


def tree_graph(transducer: Transducer) -> TreeGraph:
    """Return the graph: steps by number, then the states of sibling automata, numbered after the last step."""
    graph = TreeGraph({}, footer=_footer(transducer))
    free = 1 + max(state.step for state in transducer.states if isinstance(state, StepState))
    for state in transducer.states:
        source = state.parent or START
        match state:
            case StepState():
                graph.steps[state.step] = "\n".join([f"{state.name} {print_step(state.node)}", *_print_request(state)])
                graph.edges.append(Edge(source, state.step, f"{_axis(state)}\n{_delivers(state)}"))
            case SiblingState():
                shown = state.automaton.states[:MAX_RULES_SHOWN]
                graph.edges.append(Edge(source, free, f"{_axis(state)}\n{_delivers(state)}"))
                for number, edges in enumerate(shown):
                    graph.steps[free + number] = f"{state.name}.{number}" + (", over" if _may_be_over(edges) else "")
                    graph.edges += [
                        Edge(free + number, free + edge.state, _transition_label(state, edge))
                        for edge in edges
                        if 0 <= edge.state < len(shown)
                    ]
                graph.boxes.append(Box(f"{state.name} {_title(state)}", tuple(range(free, free + len(shown)))))
                free += len(shown)
    first = transducer.states[1]
    ends = [1]
    if isinstance(first, SiblingState):
        over = map(_may_be_over, first.automaton.states)
        ends = [number for number, is_over in zip(graph.boxes[0].states, over, strict=False) if is_over]
    graph.edges += [Edge(end, MATCH, _delivers(first)) for end in ends]
    return graph


def _axis(state: State) -> str:
    """Return the axis from the parent state: plain along a path, in ``[ ]`` or, for siblings, in ``( )``."""
    axis = state.node.axis.value if isinstance(state, StepState) else ""
    if state.by == "T3-2":
        return f"({axis})"
    if state.by == "T2-3":
        return f"[{axis or ' '}]"
    return axis or "( )"


def _delivers(state: State) -> str:
    """Describe the output to the parent state: a mark, or nodes by name."""
    match state:
        case StepState():
            names = tp.return_names(tp.TreePattern(state.node))
        case SiblingState():
            names = tp.return_names(tp.TreePattern(state.expr))
        case _:
            names = ()
    if not names:
        return "mark"
    return ("runs of " if isinstance(state, SiblingState) else "result ") + ", ".join(names)


def _print_request(state: StepState) -> list[str]:
    return [f"if {print_condition(one)}" for one in state.conditions]


def _transition_label(state: SiblingState, edge: SiblingEdge) -> str:
    return "pass over" if edge.item == PASS else state.items[edge.item]


def _may_be_over(edges: tuple[SiblingEdge, ...]) -> bool:
    return any(edge.item == END_OF_RUN for edge in edges)


def _title(state: SiblingState) -> str:
    more = len(state.automaton.states) - MAX_RULES_SHOWN
    text = tp.print_tree(tp.TreePattern(state.expr))
    return (
        text + (", may be empty" if state.automaton.nullable else "") + (f", {more:,} more states" if more > 0 else "")
    )


def _footer(transducer: Transducer) -> str:
    mended = transducer.corrected
    return f"corrected rules: {', '.join(mended)}" if mended else ""


def _mermaid_boxes(graph: TreeGraph) -> Iterator[str]:
    for number, box in enumerate(graph.boxes, 1):
        inside = "".join(f"    {_state(state)}\n" for state in box.states)
        yield f'  subgraph box{number}["{box.title.translate(_IN_MERMAID)}"]\n{inside}  end\n'


def _dot_boxes(graph: TreeGraph) -> Iterator[str]:
    for number, box in enumerate(graph.boxes, 1):
        inside = "".join(f" {_state(state)};" for state in box.states)
        yield f'  subgraph cluster_{number} {{ label="{box.title.translate(_IN_DOT)}";{inside} }}\n'


# text drawing


def _text(transducer: Transducer, name: str) -> str:
    below: dict[int, list[State]] = {}
    members: dict[str, State] = {}
    for state in transducer.states[1:]:
        if state.by == "T3-2":
            members[state.name] = state
        elif isinstance(state, StepState | SiblingState):
            below.setdefault(state.parent, []).append(state)
    lines = ["(document)", *_branches(below[0], below, members)]
    footer = _footer(transducer)
    lines.append(f"(({name}))  {_delivers(transducer.states[1])}" + (f", {footer}" if footer else ""))
    # A string literal in a comparison may have several lines.
    return "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"


def _branches(states: list[State], below: dict[int, list[State]], members: dict[str, State]) -> Iterator[str]:
    for state in states:
        last = state is states[-1]
        stem = "  " if last else "│ "
        lead = "└ " if last else "├ "
        if isinstance(state, SiblingState):
            yield f"{lead}{_axis(state)} {state.name}: {_delivers(state)}"
            yield from (f"{stem}{line}" for line in _box(state))
            inner = [members[item] for item in state.items]
        else:
            assert isinstance(state, StepState)
            yield f"{lead}{_written(state)}: {_delivers(state)}"
            yield from (f"{stem}  {request}" for request in _print_request(state))
            inner = below.get(state.step, [])
        yield from (f"{stem}{line}" for line in _branches(inner, below, members))


def _written(state: StepState) -> str:
    step = print_step(state.node)
    return f"{state.name} " + {"T3-2": f"({step})", "T2-3": f"[{step}]"}.get(state.by or "", step)


def _box(state: SiblingState) -> Iterator[str]:
    yield f"┌ {_title(state)}"
    for number, edges in enumerate(state.automaton.states[:MAX_RULES_SHOWN]):
        transitions = [
            "over" if edge.item == END_OF_RUN else f"{_transition_label(state, edge)} → {edge.state}" for edge in edges
        ]
        yield f"│ {number}: {', '.join(transitions)}"
    yield "└"
