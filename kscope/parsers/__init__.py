"""The only place that knows a file format, NVIDIA's ncu_report, or a subprocess."""
