"""teenygrad's own cache folder: export to it, import from it, verify what is in it.

    export           artifacts of teenyc, from a store, so that a teenygrad program finds them
    import_kernels   the sources that such a program left there, as kernels
    verify           which of its artifacts are not what their source, compiler and target give now

The first name and id that an artifact was asked for under is in its entry; all later ones are notes of the cache
folder of the machine that asked. An archive (`teeny-async cache export`) carries these, a remote does not. So where
kernels come from a remote, export behind a sweep of them on the same machine: it notes them, and compiles nothing.

Its key knows neither the source nor the prelude nor the compiler, so it is a folder format here, never a cache.
"""

from __future__ import annotations

from teeny_async.upstream.exporting import ExportReport, export
from teeny_async.upstream.importing import Found, find_kernels, import_kernels
from teeny_async.upstream.verifying import Verdict, VerifyReport, verify

__all__ = ["ExportReport", "Found", "Verdict", "VerifyReport", "export", "find_kernels", "import_kernels", "verify"]
