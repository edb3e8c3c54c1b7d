"""What agents are given: `kscope mcp` and `kscope skill`."""
