"""The questions of the report, in SQL that anybody can use: `kscope fleet sql DATASET "..."`, docs/fleet.md."""

from __future__ import annotations

SAVED = "coalesce(total_us * (1 - 1 / greatest(gain, 1)), 0)"
"""Time that a kernel's best finding would save: its time times its capped gain."""

TOTALS = f"""
WITH lost AS (SELECT DISTINCT input FROM inputs WHERE state = 'refused' AND input IS NOT NULL)
SELECT (SELECT count(*) FROM inputs WHERE state = 'ingested') AS inputs,
       (SELECT count(*) FROM inputs ANTI JOIN lost USING (input) WHERE state = 'copy') AS copies,
       (SELECT count(*) FROM inputs WHERE state = 'refused')
         + (SELECT count(*) FROM inputs SEMI JOIN lost USING (input) WHERE state = 'copy')
         + (SELECT count(*) FROM refused ANTI JOIN inputs USING (url) WHERE what = 'input') AS refused,
       (SELECT count(*) FROM kernels) AS kernels,
       (SELECT count(*) FROM timelines) AS timelines,
       (SELECT count(*) FROM programs) AS programs,
       (SELECT min(recorded_at) FROM inputs) AS first,
       (SELECT max(recorded_at) FROM inputs) AS last,
       (SELECT coalesce(sum(total_us), 0) FROM recent) AS gpu_us,
       (SELECT coalesce(sum({SAVED}), 0) FROM recent) AS saved_us
"""

CAUSES = f"""
SELECT cause AS code, coalesce(any_value(rules.title), 'nothing that is known would pay') AS title,
       count(*) AS kernels, coalesce(sum(total_us), 0) AS gpu_us, sum({SAVED}) AS saved_us
FROM recent LEFT JOIN (SELECT code, min(rule) AS title FROM findings GROUP BY code) AS rules ON cause = rules.code
GROUP BY cause ORDER BY saved_us DESC, gpu_us DESC, code
"""

SHARES = """
SELECT coalesce({column}, '(none)') AS name, count(*) AS kernels, coalesce(sum(total_us), 0) AS gpu_us,
       sum({saved}) AS saved_us
FROM recent GROUP BY 1 ORDER BY gpu_us DESC, name
"""

KERNELS = f"""
SELECT code, list_sort(list_distinct(list(demangled))) AS names, chip, count(DISTINCT (grid, block)) AS shapes,
       arg_max(grid, total_us) AS grid, arg_max(block, total_us) AS block, count(*) AS "rows",
       coalesce(sum(total_us), 0) AS gpu_us, sum({SAVED}) AS saved_us,
       arg_max(coalesce(gain, 1), total_us) AS gain, arg_max(coalesce(cause, ''), total_us) AS cause,
       arg_max(regime, total_us) AS regime, arg_max(limiter, total_us) AS limiter,
       arg_max(coalesce(next_words, ''), total_us) AS next, arg_max(sentence, total_us) AS sentence,
       max(recorded_at) AS seen, arg_max(input, total_us) AS example
FROM recent GROUP BY code, coalesce(code, demangled), chip ORDER BY saved_us DESC, gpu_us DESC, names
"""

SERIES = """
SELECT demangled AS name, grid, block, chip, job, model, recorded_at, duration_us, total_us, input, kernel, code,
       "commit", limiter, sm_clock_hz
FROM kernels WHERE duration_us > 0 AND recorded_at IS NOT NULL
ORDER BY chip, job NULLS FIRST, model NULLS FIRST, grid, block, name, recorded_at, input, kernel
"""

SIGHTINGS = """
SELECT demangled AS name, code, chip, grid, block, min(recorded_at) AS first, max(recorded_at) AS last
FROM kernels WHERE code IS NOT NULL AND recorded_at IS NOT NULL GROUP BY ALL ORDER BY first, name
"""

FOUND = """
SELECT code, speedup, low, high FROM findings
WHERE input = ? AND kernel = ? AND severity <> 'info' ORDER BY rank
"""

CLUSTERS = f"""
SELECT cause AS code, any_value(rules.title) AS title, limiter,
       count(DISTINCT coalesce(recent.code, demangled)) AS kernels,
       list_sort(list_distinct(list(demangled))) AS names, coalesce(sum(total_us), 0) AS gpu_us,
       sum({SAVED}) AS saved_us
FROM recent LEFT JOIN (SELECT code, min(rule) AS title FROM findings GROUP BY code) AS rules ON cause = rules.code
WHERE cause IS NOT NULL GROUP BY cause, limiter HAVING count(DISTINCT coalesce(recent.code, demangled)) > 1
ORDER BY saved_us DESC, code, limiter
"""

RENAMED = """
SELECT code, list_sort(list_distinct(list(demangled))) AS names FROM kernels WHERE code IS NOT NULL
GROUP BY code HAVING count(DISTINCT demangled) > 1 ORDER BY code
"""

IDLE = """
SELECT cause, count(DISTINCT (input, timeline)) AS timelines, sum(idle_us) AS idle_us FROM gaps
GROUP BY cause ORDER BY idle_us DESC, cause
"""

REFUSALS = """
SELECT code, count(*) AS count, min(message) AS message, min(url) AS example FROM refused WHERE what = 'input'
GROUP BY code ORDER BY count DESC, code
"""

COVERAGE = """
SELECT (SELECT count(*) FROM kernels WHERE code IS NULL) AS without_code,
       (SELECT count(*) FROM kernels WHERE duration_us IS NULL) AS without_time,
       (SELECT count(*) FROM refused WHERE what <> 'input') AS parts_left_out
"""

KINDS = "SELECT kind, count(*) AS count FROM inputs WHERE state = 'ingested' GROUP BY kind ORDER BY kind"
