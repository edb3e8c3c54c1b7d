"""Several versions: `kscope diff A B C` and `kscope log trend`, as text, Markdown and a page."""
