"""The process that a candidate lives in. Nothing here decides anything: it calls, and sends what came."""
