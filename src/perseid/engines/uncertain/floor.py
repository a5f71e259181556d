"""Arranges rooms on a grid so that doors join adjacent rooms: a straight corridor, and rooms attached to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cell = tuple[int, int]
"""Column and row, counted from the top left."""


def floor_cells(count: int, doors: Sequence[tuple[int, int]]) -> list[Cell]:
    """Assign a cell to each room; rooms without doors fill a block at the bottom."""
    beside: dict[int, list[int]] = {room: [] for room in range(count)}
    for one, other in doors:
        beside[one].append(other)
        beside[other].append(one)
    found: dict[int, Cell] = {}
    alone = [room for room in range(count) if not beside[room]]
    below = 0
    for room in range(count):
        if room not in found and beside[room]:
            part = _part(room, beside)
            top = min(row for _, row in part.values())
            found |= {own: (column, row - top + below) for own, (column, row) in part.items()}
            below = 1 + max(row for _, row in found.values())
    wide = max([2, round((2 * len(alone)) ** 0.5), *(1 + column for column, _ in found.values())])
    found |= {room: (i % wide, below + i // wide) for i, room in enumerate(alone)}
    left = min((column for column, _ in found.values()), default=0)
    return [(found[room][0] - left, found[room][1]) for room in range(count)]


def _part(room: int, beside: Mapping[int, Sequence[int]]) -> dict[int, Cell]:
    """Lay out one connected component: its longest shortest path in a row, each other room near a neighbor."""
    corridor = max((_longest(start, beside) for start in sorted(_walked(room, beside))), key=len)
    cells = {own: (column, 0) for column, own in enumerate(corridor)}
    taken = set(cells.values())
    wanted = list(corridor)
    for own in wanted:
        for other in beside[own]:
            if other not in cells:
                cells[other] = _free(cells[own], taken)
                taken.add(cells[other])
                wanted.append(other)
    return cells


def _walked(room: int, beside: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Breadth-first search: the reachable rooms, nearest first, each with its predecessor."""
    before = {room: room}
    wanted = [room]
    for own in wanted:
        for other in beside[own]:
            if other not in before:
                before[other] = own
                wanted.append(other)
    return before


def _longest(start: int, beside: Mapping[int, Sequence[int]]) -> list[int]:
    """The longest of the shortest paths from a room; of equals, the one to the first room."""
    before = _walked(start, beside)
    ways = {start: [start]}
    for room in before:
        ways[room] = ways[before[room]] + [room] if room != start else [start]
    return max((ways[room] for room in sorted(ways)), key=len)


def _free(cell: Cell, taken: set[Cell]) -> Cell:
    """The nearest free cell, by increasing distance: above first, then below."""
    column, row = cell
    far = 1
    while True:
        ring = [
            (column + right, row + down)
            for down in range(-far, far + 1)
            for right in range(-far, far + 1)
            if abs(right) + abs(down) == far
        ]
        free = [one for one in ring if one not in taken]
        if free:
            return min(free, key=lambda one: (abs(one[0] - column), one[1] > row, one))
        far += 1
