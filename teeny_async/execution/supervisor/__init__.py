"""The supervisor: one small process that is the parent of every compiler of a session.

It talks to the session over the socket that is its standard input; it writes a job's files, starts its
compiler in a new session (and so process group), drains its output, watches its time, ends the whole
group, and sends back the exit, the usage and the outputs. Why another process:

* The peak memory that the kernel reports for a child starts at its parent's peak, carried over exec.
  Under a parent of 2 GB every compiler would seem to need 2 GB; this parent needs 12 MB.
* It outlives the session: when the socket ends, by a clean close or by kill -9, it kills every group
  and removes the scratch folder. PR_SET_PDEATHSIG cannot do that: it watches a thread, is not
  inherited by grandchildren, and has to be set between fork and exec.
* Neither spawning nor scratch files ever hold up the session's event loop.
* As a subreaper it adopts, counts and ends what a compiler leaves behind, in its group or out of it.

A compiler that is a library of Python is forked from an interpreter that has imported it (`forks`, `forker`).

The invariant: a reply for a job is sent only when its process group is empty (or could not be ended
within `REAP_DEADLINE`, which the reply says), and after its scratch folder was removed.

The package is run by itself, as the top-level package `supervisor` of a bare interpreter, and imports
nothing but the standard library, and little of that: each module costs its start-up and its memory, which
is the floor under every peak it reports. Hence the relative imports, the plain classes, and no `socket`.
"""
