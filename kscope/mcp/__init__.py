"""`kscope mcp`: the analysis as tools of the Model Context Protocol, read-only, within the folders that were named."""
