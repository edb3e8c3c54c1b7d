"""Why a GPU was idle, and which sequences of launches a graph would replace."""
