"""What several commands share: output, options, gates, completion, progress."""
