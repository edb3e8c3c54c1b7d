"""Whether other threads can share the rounds that each thread walks, in words: what GRD401 says beside more blocks."""

from __future__ import annotations

from kscope.features.facts import Facts, Pieces

SHARED = 1.5  # threads that can share the work of one, from which splitting it is a way
SHARE = "more threads share the loop that each one walks"
_FREE = "which need nothing of each other"
_EXCHANGED = "which load and change one array"
_MET = "a round begins with what the block found in the one before (in shared memory)"
_CARRIED = {
    frozenset({"sum"}): "which carry nothing but sums",
    frozenset({"choice"}): "which carry nothing but the best so far",
    frozenset({"sum", "choice"}): "which carry nothing but sums and the best so far",
    frozenset({"count"}): "which carry nothing but how many were found, the place of the next",
}
_JOINED = {
    frozenset({"sum"}): "whose sums are added up behind (split-K)",
    frozenset({"choice"}): "and the best of their results is taken behind",
    frozenset({"sum", "choice"}): "whose sums are added up behind, and the best result taken",
    frozenset({"count"}): "whose counts a scan adds up before what each found is stored in its place",
}
_SCANNED = (
    "which carry sums and store them on the way", "each with the total of its rounds first, then the values (a scan)"
)
_RECURRENCE = ("which carry what a scan can join", "whose parts a scan joins behind")


def rounds_in_words(facts: Facts, divided: Pieces | None, chain: tuple[int, ...]) -> str:
    """A sentence on the rounds of a thread: what makes them one chain (`chain`), or what they carry where they can be
    shared; empty where there is no loop, or nobody knows."""
    if divided is None or facts.code is None:
        return ""
    if not chain:
        rounds = _counted(facts, divided)
        return f" Each thread walks {rounds}, {_carry(facts, divided)[0]}." if rounds else ""
    opcode = facts.code[chain[0]].opcode
    carries = {"BRA": "its data decide the rounds", "LDS": _MET}.get(opcode, f"its loop carries what {opcode} computes")
    why = f" Each thread runs one chain, round after round, for {carries}."
    return f"{why} {divided.most:.0f} threads could share the rounds around it." if divided.most >= SHARED else why


def dealing_out(facts: Facts, divided: Pieces) -> str:
    """What more threads have to do to share the work of one."""
    rounds = _counted(facts, divided)
    return f"more threads share the {rounds} of each one, {_carry(facts, divided)[1]}" if rounds else SHARE


def _counted(facts: Facts, divided: Pieces) -> str:
    """Rounds of the loops around the heaviest part, outermost first, and the elements of one where these are more than
    its rounds (rounds that are written out behind each other); empty where nothing can be dealt out."""
    trips = [facts.patterns.trips(n) for n in divided.loops] if divided.most >= SHARED else []
    rounds = " x ".join(f"{x:,.0f}" for x in trips if x >= SHARED)
    if not rounds:
        return ""
    return f"{rounds} rounds of {divided.each} elements" if divided.each > trips[-1] else f"{rounds} rounds"


def _carry(facts: Facts, divided: Pieces) -> tuple[str, str]:
    """What the rounds carry, and what is to be done about it."""
    joined = frozenset[str]().union(*(facts.patterns.joined(n) for n in divided.loops))
    if any(facts.patterns.searches(n) for n in divided.loops):
        return "a search that nearly always goes through to the end", "and each one tells what it has found"
    if not joined and any(facts.addresses.exchanges(n) for n in divided.loops):
        return _EXCHANGED, (
            "where no round reads what another one changes (of exchanges: first where each element ends, then one move)"
        )
    if not joined:
        return _FREE, "each with rounds of its own"
    if joined == {"sum"} and divided.twice:
        return _SCANNED
    return _CARRIED.get(joined, _RECURRENCE[0]), _JOINED.get(joined, _RECURRENCE[1])
