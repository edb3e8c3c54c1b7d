"""The command line. Nothing heavy is imported at module level: `kscope --help` must stay instant."""
