"""Arranges rooms on a grid so that doors join adjacent rooms: a straight corridor, and rooms attached to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cell = tuple[int, int]
"""Column and row, counted from the top left."""


def floor_cells(count: int, doors: Sequence[tuple[int, int]]) -> list[Cell]:
    """Assign a cell to each room; rooms without doors fill a block at the bottom."""
    neighbors: dict[int, list[int]] = {room: [] for room in range(count)}
    for one, other in doors:
        neighbors[one].append(other)
        neighbors[other].append(one)
    cells: dict[int, Cell] = {}
    alone = [room for room in range(count) if not neighbors[room]]
    below = 0
    for room in range(count):
        if room not in cells and neighbors[room]:
            part = _part(room, neighbors)
            top = min(row for _, row in part.values())
            cells |= {own: (column, row - top + below) for own, (column, row) in part.items()}
            below = 1 + max(row for _, row in cells.values())
    wide = max([2, round((2 * len(alone)) ** 0.5), *(1 + column for column, _ in cells.values())])
    cells |= {room: (i % wide, below + i // wide) for i, room in enumerate(alone)}
    left = min((column for column, _ in cells.values()), default=0)
    return [(cells[room][0] - left, cells[room][1]) for room in range(count)]


def _part(room: int, neighbors: Mapping[int, Sequence[int]]) -> dict[int, Cell]:
    """Lay out one connected component: its longest shortest path in a row, each other room near a neighbor."""
    corridor = max((_longest(start, neighbors) for start in sorted(_walked(room, neighbors))), key=len)
    cells = {room_of_queue: (column, 0) for column, room_of_queue in enumerate(corridor)}
    occupied = set(cells.values())
    queue = list(corridor)
    for room_of_queue in queue:
        for other in neighbors[room_of_queue]:
            if other not in cells:
                cells[other] = _free(cells[room_of_queue], occupied)
                occupied.add(cells[other])
                queue.append(other)
    return cells


def _walked(room: int, neighbors: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Breadth-first search: the reachable rooms, nearest first, each with its predecessor."""
    before = {room: room}
    queue = [room]
    for current in queue:
        for other in neighbors[current]:
            if other not in before:
                before[other] = current
                queue.append(other)
    return before


def _longest(start: int, neighbors: Mapping[int, Sequence[int]]) -> list[int]:
    """The longest of the shortest paths from a room; of equals, the one to the first room."""
    before = _walked(start, neighbors)
    paths = {start: [start]}
    for room in before:
        paths[room] = paths[before[room]] + [room] if room != start else [start]
    return max((paths[room] for room in sorted(paths)), key=len)


def _free(cell: Cell, occupied: set[Cell]) -> Cell:
    """The nearest free cell, by increasing distance: above first, then below."""
    column, row = cell
    distance = 1
    while True:
        ring = [
            (column + right, row + down)
            for down in range(-distance, distance + 1)
            for right in range(-distance, distance + 1)
            if abs(right) + abs(down) == distance
        ]
        free = [one for one in ring if one not in occupied]
        if free:
            return min(free, key=lambda one: (abs(one[0] - column), one[1] > row, one))
        distance += 1
