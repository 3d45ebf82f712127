"""Compilers on the machines of a Dask cluster; the client's side and the workers'."""
