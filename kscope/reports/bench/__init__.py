"""Results of a benchmark as text, Markdown, HTML, JUnit; JSON is the result itself."""
