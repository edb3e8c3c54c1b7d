"""The dataset: its tables and columns, each with its meaning (docs/fleet.md is checked against this). Columns are only
added; a reader of VERSION 1 reads all that are called so."""

from __future__ import annotations

from msgspec import Struct

VERSION = 1
NAME = f"kscope.fleet/{VERSION}"


class Column(Struct, frozen=True):
    """type: string, int, float, bool, time (microseconds, UTC), labels (text to text) or strings."""

    name: str
    type: str
    means: str


def _columns(text: str) -> tuple[Column, ...]:
    rows = (line.split(None, 2) for line in text.splitlines() if line.strip())
    return tuple(Column(name, kind, means.strip()) for name, kind, means in rows)


_FROM = """
input        string  content of the input, as hexadecimal blake2b of its bytes
recorded_at  time    when it was recorded
job          string  label `job`
model        string  label `model`
commit       string  label `commit`
"""

INPUTS = _columns("""
input        string  content, as hexadecimal blake2b of its bytes; null where it could not be read
url          string  where it was found; members of archives behind a !
state        string  ingested, copy (its content is in the dataset under another url) or refused
kind         string  ncu, nsys, kineto or cubin; null where it was refused
bytes        int     size as it was found, packed or not
fingerprint  string  size and time of change, by which it is known without being read
tool_version string  of the profiler, where the input says so
kscope       string  version that read it
recorded_at  time    when it was recorded
recorded_by  string  what says so: label, report or file (time of change)
job          string  label `job`
model        string  label `model`
commit       string  label `commit`
labels       labels  all labels: of --label, and of folders called NAME=VALUE
""")
KERNELS = _columns(_FROM + """
kernel       string  number of the kernel in its input
name         string  as the profiler calls it
demangled    string  with its parameters
code         string  hash of its normalised machine code; null where the report has none
instructions int     of the machine code
chip         string  name of the GPU
cc           string  compute capability
sms          int     multiprocessors
grid         string  blocks, as XxYxZ
block        string  threads of a block
cluster      string  blocks of a cluster
registers    int     of a thread
shared_bytes int     of a block, static and dynamic
waves        float   of blocks
launches     int     identical launches in this input that are one row
duration_us  float   of one launch, the median
min_us       float   of the fastest launch
max_us       float   of the slowest
total_us     float   of all launches
regime       string  compute, memory or overhead
limiter      string  what binds it
confidence   float   of the verdict, 0..1
sentence     string  the verdict
headroom     float   largest speed-up that the roofline allows
bounded_by   string  what bounds it
pct_of_roof  float   of the roofline
flops_per_s  float   of the main precision
bytes_per_s  float   of device memory
next         string  stop, go_on, change_algorithm or measure
next_words   string  the next step as a line
next_code    string  code of the rule to follow
gain         float   speed-up that the best finding promises, capped; 1 where none pays
cause        string  code of that finding; null where none pays
sm_clock_hz  float   while it was profiled
dram_clock_hz float  while it was profiled
nvtx         strings ranges around it
""")
FINDINGS = _columns(_FROM + """
kernel       string  number of the kernel in its input; null for a timeline or a program
timeline     int     number of the timeline in its input
function     string  function of a program
code         string  of the rule, as MEM103
rule         string  its name
title        string  what was found
regime       string  compute, memory or overhead
severity     string  critical, major, minor or info
rank         int     place among those of its kernel, the best is 0
speedup      float   that is promised, capped; null where nobody knows
low          float   bound of it
high         float   bound of it
capped_by    string  what caps it
kind         string  measured or modelled
confidence   float   0..1
file         string  source of the first place
line         int     of that file
pc           int     bytes from the entry
sass         string  instruction there
evidence     string  figures as JSON: [{metric, value, unit, note}]
fix          string  what to do
""")
TIMELINES = _columns(_FROM + """
timeline     int     number of the timeline in its input
span_us      float   window
gpu_busy_pct float   of the window
kernels_pct  float   of the window
regime       string  compute, memory or overhead; null where nothing can be said
limiter      string  what binds it
sentence     string  the verdict, or why there is none
rank         int     of the process, where the recording says so
steps        int     of the program
step_us      float   median
operations   int     of the GPU
""")
GAPS = _columns(_FROM + """
timeline     int     number of the timeline in its input
cause        string  why the GPU was idle
idle_us      float   in all gaps of this cause
pct          float   of the window
gaps         int     how many
during       strings what the host was in
""")
PROGRAMS = _columns(_FROM + """
arch         string  target
member       string  name inside a container
name         string  of the function, mangled
demangled    string  with its parameters
code         string  hash of its normalised machine code
instructions int     of the machine code
registers    int     of a thread
stack        int     bytes of a thread
shared       int     bytes of a block, static
spill_stores int     instructions
spill_loads  int     instructions
""")
REFUSED = _columns("""
url          string  where it was found
input        string  content; null where it could not be read
what         string  input, or the part of one that was left out
code         string  machine-readable reason
message      string  the reason
hint         string  what to do
""")

TABLES: dict[str, tuple[Column, ...]] = {
    "kernels": KERNELS, "findings": FINDINGS, "timelines": TIMELINES, "gaps": GAPS, "programs": PROGRAMS,
    "inputs": INPUTS, "refused": REFUSED,
}  # fmt: skip
"""Every table also has `ingest`, the run that added a row, as the folder that its file lies in."""
