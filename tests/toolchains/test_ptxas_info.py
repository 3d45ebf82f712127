"""The text of `ptxas -v`, recorded from ptxas 13.0."""

from __future__ import annotations

import pytest

from teeny_async.toolchains.ptxas_info import metrics, read

from .samples import samples

SM_75 = """\
ptxas info    : Overriding maximum register limit 256 for 'k2' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem, 256 bytes cmem[3]
ptxas info    : Compiling entry function 'k2' for 'sm_75'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 22 registers, used 1 barriers, 512 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 8.729 ms
ptxas info    : Function properties for _Z1gf
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'k1' for 'sm_75'
ptxas info    : Function properties for k1
    880 bytes stack frame, 1228 bytes spill stores, 1252 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 896 bytes cumulative stack size, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 21.438 ms
"""
SM_90 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 34 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 6.912 ms
"""


def test_module() -> None:
    assert metrics(SM_75) == {
        "registers": 32,
        "barriers": 1,
        "stack": 896,
        "spill_stores": 1236,
        "spill_loads": 1256,
        "shared": 512,
        "constant": 256 + 368,
    }


def test_one_entry() -> None:
    assert metrics(SM_75, "k2") == {
        "registers": 22,
        "barriers": 1,
        "stack": 0,
        "spill_stores": 0,
        "spill_loads": 0,
        "shared": 512,
        "constant": 256 + 364,
    }


def test_an_entry_that_is_not_there_means_the_module() -> None:
    assert metrics(SM_75, "nope") == metrics(SM_75)


def test_no_constant_bank_from_sm_90_on() -> None:
    assert metrics(SM_90) == {
        "registers": 34,
        "barriers": 1,
        "stack": 400,
        "spill_stores": 0,
        "spill_loads": 0,
        "shared": 512,
    }


@pytest.mark.parametrize("text", ["", "ptxas info    : 0 bytes gmem\n", "k.cu(1): warning #177-D: Used 5 registers\n"])
def test_nothing_to_read(text: str) -> None:
    assert metrics(text) == {}


def test_other_lines_do_no_harm() -> None:
    warning = 'k.cu(1): warning #39-D: division by zero\n    a[0] = 1/0; // "400 bytes stack frame"\n\n'
    assert metrics(warning + SM_90) == metrics(SM_90)


def test_an_old_ptxas_without_barriers() -> None:
    text = (
        "ptxas info    : Compiling entry function 'k' for 'sm_70'\n"
        "ptxas info    : Used 8 registers, 16+8 bytes smem, 352 bytes cmem[0]\n"
    )
    assert metrics(text)["registers"] == 8
    assert metrics(text)["barriers"] == 0


def test_functions_in_order() -> None:
    module = read(SM_75)
    assert [function.name for function in module.functions] == ["k2", "_Z1gf", "k1"]
    assert [function.name for function in module.entries] == ["k2", "k1"]
    assert module.entries[0].arch == "sm_75"


@pytest.mark.parametrize("name", ["ptxas/OK-v.txt", "nvcc/OK-ptxas-v.txt"])
def test_recorded(name: str) -> None:
    sample = next(each for each in samples() if each.file == name)
    found = metrics(sample.data.decode())
    assert found["registers"] > 0
    assert found["spill_stores"] == 0
