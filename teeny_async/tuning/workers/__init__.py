"""Programs that run kernels and time them, each in a process of its own that may be killed at any moment."""
