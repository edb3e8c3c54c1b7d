"""Graph algorithms over small directed graphs given as successor lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Edges = Sequence[Sequence[int]]


def reached(starts: Iterable[int], ahead: Callable[[int], Iterable[int]], ends: Iterable[int] = ()) -> set[int]:
    """Nodes that some nodes reach, they and the `ends`, behind which the way does not go on, among them."""
    seen = set(ends)
    work = list(starts)
    while work:
        node = work.pop()
        if node not in seen:
            seen.add(node)
            work += ahead(node)
    return seen


def reverse_postorder(out: Edges, into: Edges) -> tuple[list[int], list[int]]:
    """Nodes in reverse postorder, and the roots: node 0, every node without predecessors, and one node of each
    component that none of these reaches."""
    n = len(out)
    seen = [False] * n
    roots: list[int] = []
    parts: list[list[int]] = []
    first = [0] if n else []
    candidates = first + [v for v in range(1, n) if not any(p != v for p in into[v])] + list(range(n))
    for root in candidates:
        if seen[root]:
            continue
        roots.append(root)
        seen[root] = True
        post: list[int] = []
        stack = [(root, 0)]
        while stack:
            node, place = stack.pop()
            if place < len(out[node]):
                stack.append((node, place + 1))
                follower = out[node][place]
                if not seen[follower]:
                    seen[follower] = True
                    stack.append((follower, 0))
            else:
                post.append(node)
        parts.append(post[::-1])
    # A later root may enter what an earlier one reached: it must come first in a reverse postorder.
    return [node for part in reversed(parts) for node in part], roots


def dominators(out: Edges, into: Edges, order: Sequence[int], roots: Sequence[int]) -> list[int | None]:
    """Immediate dominators (None for roots and for nodes that several roots reach). Cooper, Harvey, Kennedy 2001."""
    n = len(out)
    virtual = n
    rank = [0] * (n + 1)
    for place, node in enumerate(order):
        rank[node] = place + 1
    idom: list[int] = [-1] * (n + 1)
    idom[virtual] = virtual
    for root in roots:
        idom[root] = virtual
    fixed = set(roots)

    def common(a: int, b: int) -> int:
        while a != b:
            while rank[a] > rank[b]:
                a = idom[a]
            while rank[b] > rank[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in order:
            if node in fixed:
                continue
            best = -1
            for p in into[node]:
                if idom[p] >= 0:
                    best = p if best < 0 else common(p, best)
            if best >= 0 and idom[node] != best:
                idom[node], changed = best, True
    return [None if d in (virtual, -1) else d for d in idom[:n]]


def retreating_edges(out: Edges, order: Sequence[int]) -> list[tuple[int, int]]:
    """Edges that go against the order (tail, head), self-loops included: the back edges of a reducible graph."""
    rank = {node: place for place, node in enumerate(order)}
    return [(node, s) for node in order for s in out[node] if rank[s] <= rank[node]]
