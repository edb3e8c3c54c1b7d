"""Changes of the order in which elements are worked on: who takes which, and when their data are asked for."""
