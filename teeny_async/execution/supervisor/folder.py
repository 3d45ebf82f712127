"""A job's scratch folder: laid out before its compiler starts, removed once it is gone.

The supervisor works in the folder that holds them all, and names them from there: short paths are cheap to walk.
"""

from __future__ import annotations

import os

from .job import Job
from .system import remove_tree, write_file


def lay_out(job: Job, inputs: list[bytes], data: list[bytes], mirror: bytes) -> None:
    """Make the folder and its files, and work in it. Raises OSError.

    mirror: a folder whose entries are linked beside the files, but for those of the same names.
    """
    os.mkdir(job.name, 0o700)
    os.chdir(job.name)
    for name, content in zip(inputs, data, strict=True):
        if b"/" in name:
            os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        job.written.append(name)
        write_file(name, content)
    if mirror:
        os.mkdir(b"tmp", 0o700)  # HOME: elsewhere that is the folder itself, here it would have the mirrored settings
        for name in os.listdir(mirror):
            if name != b"tmp" and name not in job.written:
                os.symlink(os.path.join(mirror, name), name)
                job.written.append(name)


def remove(job: Job) -> None:
    """Remove the folder: by name what we know of, by walking what we do not."""
    try:
        for name in {*job.written, *job.outputs}:
            try:
                os.unlink(b"%s/%s" % (job.name, name))
            except FileNotFoundError:
                pass
        os.rmdir(job.name)
    except OSError:
        remove_tree(job.name)
