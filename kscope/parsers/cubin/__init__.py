"""Machine code of any file to Programs: ELF, line tables, disassembly by NVIDIA's tools."""
