"""What the options of a command line say to the session that compiles: the same for `compile`, `sweep` and `tune`."""

from __future__ import annotations

from typing import Any

from teeny_async.api import DEFAULT_TIMEOUT, WAIT_FOR_OTHERS
from teeny_async.cli.options import Options
from teeny_async.pipeline.retry import RetryPolicy


def session_options(options: Options) -> dict[str, Any]:
    """The keyword arguments of `Compiler`. "mode" is there only when it was asked for."""
    found: dict[str, Any] = {
        "store": options.cache_dir,
        "shared_caches": options.shared_cache or None,
        "remote": options.remote,
        "remote_read_only": options.remote_read_only or None,
        "jobs": options.jobs,
        "retry": RetryPolicy() if options.retries is None else RetryPolicy(max_attempts=options.retries + 1),
        "memory_limit": options.memory,
        "timeout": options.timeout or DEFAULT_TIMEOUT,
        "cpu_timeout": options.cpu_timeout,
        "wait_for_others": WAIT_FOR_OTHERS if options.wait_for_others is None else options.wait_for_others,
        "retry_failed": options.retry_failed,
        "unkeyable": options.unkeyable,
    }
    return found if options.mode == "normal" else {**found, "mode": options.mode}
