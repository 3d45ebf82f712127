"""`Sharing`: what another process of this machine compiles already is waited for, not compiled again.

Only where results are both looked for and kept: otherwise nobody would see what the other has made. Nothing
is right or wrong by it; see `teeny_async.store.claims`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import anyio.to_thread

from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.rules import Rules
from teeny_async.pipeline.telling import Teller
from teeny_async.store.base import Store
from teeny_async.store.claims import Claim, ClaimedKey, Claims, Holder


class Sharing:
    """The claims of a session; without a folder for them, or a store that others can see, nobody is waited for.

    runtime: the folder in which the sessions of this user and machine meet.
    """

    def __init__(self, rules: Rules, teller: Teller, runtime: Path | None) -> None:
        self._rules = rules
        self._teller = teller
        self._runtime = runtime
        self._claims: Claims | None = None
        self._used = False
        self._has_company: Callable[[], bool] = lambda: False
        self._company_at = 0.0

    def opened(self, store: Store | None) -> None:
        """The store is open: those who write into the same folder are the ones to meet."""
        scope = getattr(store, "folder_identity", None)
        if self._runtime is not None and scope is not None and self._rules.shares:
            self._has_company = getattr(store, "has_company", self._has_company)
            self._has_company()  # who is there now is nothing new the next time
            self._claims = Claims(self._runtime, scope=scope, on_fault=self._teller.fault)

    def take(self, flight: Flight) -> ClaimedKey | Holder | None:
        """The key of a compile that is about to start, or who has it; None where there is nothing to claim."""
        if self._claims is None or flight.uncached is not None:
            return None
        self._used = True
        return self._claims.try_claim(flight.key.digest)

    def may_be_late(self, flight: Flight) -> bool:
        """Whether another process may have kept the result, and let go of the key, since it was looked up."""
        now = time.monotonic()
        if self._has_company():
            self._company_at = now
        return flight.queued_at <= self._company_at

    def wait(self, flight: Flight) -> AbstractAsyncContextManager[Claim]:
        """Have the key for a block once its holder has let go; or without it, when that takes too long."""
        assert self._claims is not None, "it was held by somebody"
        return self._claims.claim(
            flight.key.digest,
            patience=self._rules.wait_for_others,
            on_wait=lambda holder: self._teller.waiting(flight.request, flight.key.digest, holder.pid, holder.since),
        )

    async def aclose(self) -> None:
        """Remove what was ours in the folder, and what processes that were killed have left there."""
        if self._claims is not None and self._used:
            self._claims.close()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._claims.sweep)
