"""Tests of `teeny_async.store`."""
