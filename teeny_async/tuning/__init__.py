"""Search spaces."""
