"""The stages a request goes through, and the session that owns them."""
