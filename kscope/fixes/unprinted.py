"""Why a finding has no code beside it: what would have to be proved and cannot be. One line a rule; said where somebody
asks for the change (`kscope fix`), not beside every finding."""

from __future__ import annotations

SOURCE = "the kernel's text is not here, or its idiom is none that is read: no line of it can be changed with a proof"
REASONS: dict[str, str] = {
    "MEM114": "a sum behind a pointer: that no load between its stores reads the same place is not in the code; "
    "a local variable, or __restrict__, where it does not",
    "MEM101": (
        "no exchange of indices, no other order of elements, no wider load, no row a warp and no record through shared"
        " memory brings the lanes side by side: the data must be laid out anew, and who else uses them is not in the"
        " code"
    ),
    "MEM102": (
        "the loads are not neighbours at addresses whose alignment follows from the code, or other accesses "
        "of the same index would have to change with them"
    ),
    "MEM106": (
        "the text shows no row that loops of one head pass over twice, or the row that was counted is longer than a "
        "thread's registers hold: what else stays on the chip depends on the order of the blocks"
    ),
    "MEM109": (
        "no table in shared memory takes what is added to the first places of an array: the counters show no few "
        "places that take most of it, or the sums are of floats or of eight bytes, what the atomics return is used, "
        "threads meet in the kernel, or the adds are too few for each place; and neither do threads of a block all "
        "come to one address, nor do blocks add a row each to places that an index says"
    ),
    "MEM107": (
        "memory is at its limit: only fewer bytes help, and which of them are needed the code does not say. Eviction "
        "policies (__ldcs and __stcs, evict_first in Triton) ask L2 to keep what is used again; how much of it L2 then "
        "keeps follows from no counter"
    ),
    "MEM112": (
        "played on numbers, the kernel makes no product of two square matrices, and no instance of its template that "
        "makes more a thread comes out the same; nor is it each row with each column, nor the extreme of a window "
        "around each element, nor do all threads of a block read whole rows alike: a larger tile of anything else "
        "takes the bounds and the layout of the data, which the code does not hold"
    ),
    "MEM115": "a stride in memory is the data's layout: who else uses it is not in the code",
    "MEM117": "the tile's shape is spread over the whole kernel: no single line of it can be changed with a proof",
    "MEM118": (
        "the outer loop taken by several rounds at once needs the number of rounds to divide by them, and its"
        " sums apart: neither follows from the code; nor is it a search for what grows from round to round as the text"
        " reads, which could go on where it has ended"
    ),
    "CMP201": (
        "played on numbers, the kernel makes no product of two matrices of two-byte numbers whose sides are whole "
        "tiles: what else tensor cores could take is another kernel, of which the code of this one proves nothing"
    ),
    "CMP202": (
        "played on numbers, the kernel makes no product of two matrices of two-byte numbers whose sides are whole "
        "tiles: wgmma takes layouts by descriptors and warps by groups of four, and what else could be made of them "
        "the code does not say; nor does a loop make the same product in each round"
    ),
    "CMP204": (
        "the kernel's text is not here, or its functions have no faster form whose error a table gives; nor is an angle"
        " only sorted into eighths of a turn, which comparisons would find"
    ),
    "CMP207": "the kernel's text is not here, or the formats are the data's: which may be others the code does not say",
    "CMP208": "a pipe is full with the work itself, and no loop makes the same product of matrices in each round: what "
    "of it could go the code does not say",
    "CMP210": "registers are the assembler's: no line of the source decides their banks",
    "CMP213": "when the tensor pipe idles is a matter of the whole pipeline, not of a line",
    "LAT302": (
        "which loads could be on their way together follows from what they depend on: rounds that only data "
        "join cannot be reordered with a proof; nor are they rounds that whole warps go through with one index, long "
        "enough for a lane to load for each of 32"
    ),
    "LAT303": (
        "a round of the chain is not one factor, the same in all of them, and a term: several chains instead of one "
        "compute something else, and only who knows what they are for can say that the result may differ"
    ),
    "LAT304": (
        "a barrier less is right only if no thread uses what another has written meanwhile, and it is neither a tree of"
        " sums, nor one thread's walk along them, nor steps along a diagonal in which each thread needs its left"
        " neighbour alone: the change is another algorithm, of which the code of this one proves nothing"
    ),
    "LAT305": (
        "threads meet, or no switch, if or test of the kernel's own statements tells their ways apart: that their "
        "elements may change places does not follow from the code"
    ),
    "LAT306": (
        "the code is as long as its cases or rounds, and these are not the same statements with other numbers: fewer "
        "of them is another algorithm, of which the code of this one proves nothing"
    ),
    "LAT307": (
        "the copy's rounds are neither a ring whose groups can be counted in the code nor, in the text, a plain copy"
        " and its use between two barriers"
    ),
    "LAT309": "that a barrier orders nothing holds for the lanes that were run, not for every launch",
    "LAT310": (
        "one thread asks for the whole tile only if its pieces lie one behind the other, which neither the lanes' "
        "addresses nor the text say"
    ),
    "GRD401": (
        "more blocks do the same work only in a loop over the grid, where rounds need nothing of each other, where "
        "each thread sums up alone, or where it goes along a sequence with a factor and a term for each step, and this "
        "kernel has none of which that can be told: "
        "its blocks share the work in another way"
    ),
    "GRD402": (
        "the number of a block says what it computes: another grid computes something else, its threads meet, or "
        "smaller blocks would leave as many waves of them, its threads carry no chains that lanes could share, and no "
        "number of a template is seen to halve its tile"
    ),
    "GRD403": (
        "how much work each piece takes is in the data, and it is neither a run of rows a block nor a sum that blocks"
        " could add up in parts: dealing it out anew is another algorithm, of which the code of this one proves nothing"
    ),
    "GRD404": "the kernel's own indices hold the shape of its block",
    "GRD405": "how much a thread does has no name in the code that a launch could change",
    "ASY501": "how far ahead a pipeline starts is spread over its roles: no single line holds it",
    "ASY502": (
        "the copies are no rounds of one lane that could be its warp's, no barrier of the block is one that mbarriers "
        "are seen to make needless, and no statement waits for the clock alone: which role is short of warps or copies "
        "follows from the whole pipeline, no single line of it"
    ),
    "ASY503": (
        "its stores are not seen to be pairs that four lanes could exchange for sixteen bytes each, and an epilogue "
        "beside the next tile's products needs a second accumulator and its own warps: another kernel"
    ),
    "ASY505": "where a proxy fence belongs is where the data are handed over, which the source's author knows",
}


def unprinted(code: str) -> str:
    """Why a finding of a rule has no change in code."""
    return REASONS.get(code, SOURCE)
