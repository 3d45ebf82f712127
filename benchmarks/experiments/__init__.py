"""Ideas that were measured and not built, each with the program that measures it."""
