"""How params reach a kernel, and which sources read more than themselves."""

from __future__ import annotations

from typing import Any

import pytest

from teeny_async import CompileRequest, Kernel, RequestError
from teeny_async.lexing import segments
from teeny_async.source import files_read, render, unlisted


def request(
    source: str, language: str = "c", *, defines: dict[str, Any] | None = None, **params: Any
) -> CompileRequest:
    return CompileRequest(Kernel(name="k", source=source, language=language, defines=defines or {}), params=params)


def text(source: str, language: str = "rust", **params: Any) -> str:
    return render(request(source, language, **params)).text


# -- placeholders -------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["c", "cuda", "hip", "rust", "zig", "triton", "ttir"])
def test_placeholder_in_every_language(language: str) -> None:
    rendered = render(request("const N = `N`;", language, N=8))
    assert rendered.text == "const N = 8;"
    assert rendered.defines == ()


def test_default() -> None:
    source = "a `N=4` b `N=4` c `M=x y` d"
    assert text(source) == "a 4 b 4 c x y d"
    assert text(source, N=16) == "a 16 b 16 c x y d"
    assert text(source, M="") == "a 4 b 4 c  d"
    assert text("[`EMPTY=`]") == "[]"


@pytest.mark.parametrize(
    ("language", "value", "expected"),
    [
        ("rust", True, "true"),
        ("rust", False, "false"),
        ("zig", True, "true"),
        ("triton", True, "True"),
        ("c", True, "1"),
        ("cuda", False, "0"),
        ("rust", 0.5, "0.5"),
        ("rust", 1.0, "1.0"),
        ("rust", 1e-05, "1e-05"),
        ("rust", -3, "-3"),
        ("rust", "f32", "f32"),
        ("rust", "a`b`", "a`b`"),
        ("rust", r"\1\g<0>", r"\1\g<0>"),
    ],
)
def test_values(language: str, value: Any, expected: str) -> None:
    assert text("`V`", language, V=value) == expected


def test_comments_are_left_alone() -> None:
    source = "/// `N` rows of `M=2`, see `at`\nconst N: usize = `N=4`; // `N`\n/* `N` */"
    assert text(source, N=8) == source.replace("`N=4`", "8")


@pytest.mark.parametrize("source", ["/// `N` rows\nfn f() {}", "/* /* */ `N` */", "// `N=4`", "/* `N`"])
def test_a_placeholder_in_a_comment_reads_nothing(source: str) -> None:
    with pytest.raises(RequestError, match="nothing reads N"):
        render(request(source, "rust", N=1))


def test_a_name_in_a_comment_does_not_take_the_macro_away() -> None:
    rendered = render(request("/* `BLOCK` threads */\nint a[BLOCK];", BLOCK=64))
    assert rendered.defines == (("BLOCK", "64"),)
    assert "`BLOCK` threads" in rendered.text


def test_a_placeholder_in_a_string_is_filled() -> None:
    assert text('asm!("mov `R=eax`, 1 `unknown`")', R="ebx") == 'asm!("mov ebx, 1 `unknown`")'
    assert text('"/* `N` "', N=1) == '"/* 1 "'


def test_a_placeholder_in_the_code_needs_a_value() -> None:
    with pytest.raises(RequestError, match="kernel 'k': the placeholder `N` has no value and no default"):
        render(request("const N: u32 = `N`;", "rust", M=1))


@pytest.mark.parametrize("source", ["``", "`1`", "`a b`", "`a\n=1`", "`a", "`a-b`"])
def test_no_placeholder(source: str) -> None:
    assert text(source) == source


def test_a_default_may_hold_anything_but_a_backtick_and_a_line_end() -> None:
    assert text('`A="x"` `B=// y` `C=a=b` `D=\'`') == '"x" // y a=b \''


# -- macros -------------------------------------------------------------------------------------


def test_macros_of_params_and_defines() -> None:
    rendered = render(request("int a[N];", defines={"N": 1, "M": "x"}, N=2, B=True, F=1.5, OFF=False))
    assert rendered.defines == (("B", "1"), ("F", "1.5"), ("M", "x"), ("N", "2"), ("OFF", "0"))


def test_a_param_with_a_placeholder_is_no_macro() -> None:
    rendered = render(request("int a[`N=2`]; int b[M];", N=3, M=4))
    assert rendered.text == "int a[3]; int b[M];"
    assert rendered.defines == (("M", "4"),)


@pytest.mark.parametrize("language", ["rust", "zig", "ttir"])
def test_unread_param_is_refused(language: str) -> None:
    with pytest.raises(RequestError, match=r"kernel 'k': nothing reads A, B; .* placeholder `A`"):
        render(request("const C: u32 = `C=1`;", language, B=1, A=2, C=3))


def test_defines_of_a_language_without_macros_are_refused() -> None:
    with pytest.raises(RequestError, match="nothing reads N"):
        render(request("", "rust", defines={"N": 1}))


@pytest.mark.parametrize("name", ["1A", "A B", "", "A=1", "A(x)", "A\n"])
def test_macro_names(name: str) -> None:
    with pytest.raises(RequestError, match="cannot be a macro"):
        render(CompileRequest(Kernel(name="k", source="", language="c"), params={name: 1}))


def test_a_macro_is_one_line() -> None:
    with pytest.raises(RequestError, match="a macro is one line"):
        render(request("", N="1\n#include <x>"))


# -- lexing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "source", "kinds"),
    [
        ("c", "a // b\nc", "code comment code"),
        ("c", "a // b \\\n still \nc", "code comment code"),
        ("c", "a /* b // */ c", "code comment code"),
        ("c", "a /* no end", "code comment"),
        ("c", '"/*" x', "string code"),
        ("c", r'"\"/*" x', "string code"),
        ("c", "'\"' /* */", "string code comment"),
        ("c", "1'000 /* ' */", "code comment"),
        ("c", "1'0, '\"', \"/*\"", "code string code string"),
        ("c", "#error don't\n/* */", "code string code comment"),
        ("cuda", 'R"(" /* )" /* */', "string code comment"),
        ("cuda", 'R"x()" /* )x" /* */', "string code comment"),
        ("rust", "/* /* */ still */ code", "comment code"),
        ("rust", "fn f<'a>(x: &'a u8) { '\"' } // \"", "code string code comment"),
        ("rust", r"'\'' '\u{1F600}' '\x41' /* */", "string code string code string code comment"),
        ("rust", 'r#" /* "x" "# /* */', "string code comment"),
        ("rust", "r#type // c", "code comment"),
        ("rust", '"a\n// b" c', "string code"),
        ("rust", 'b"//" br"\\" c"/*" x', "code string code string code string code"),
        ("c", "`A=//` x", "code"),
    ],
)
def test_segments(language: str, source: str, kinds: str) -> None:
    found = list(segments(language, source))
    assert "".join(piece for _, piece in found) == source
    assert " ".join(kind for kind, _ in found) == kinds


# -- what a source reads ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        '#include "a.h"',
        "#include <a.h>",
        "int x;\n  #  include <a.h>",
        '#inc\\\nlude "a.h"',
        '#\\\ninclude "a.h"',
        '#inc\\  \r\nlude "a.h"',
        '#inc??/\nlude "a.h"',
        '%:include "a.h"',
        '??=include "a.h"',
        '#/**/include "a.h"',
        '/* */ #include "a.h"',
        '/* \n */ #include "a.h"',
        '\f\v#include "a.h"',
        'int x;\r#include "a.h"',
        '// c\r#include "a.h"',
        "#include_next <a.h>",
        "#import <a.h>",
        "#embed <a.bin>",
        "#if __has_include(<a.h>)\n#endif",
        "#if __has_embed(<a.h>)\n#endif",
        "#define X __has_include_next(<a.h>)",
        'asm(".incbin \\"a\\"");',
        'asm(".inc" "bin \\"a\\"");',
        'asm(".include \\"a.s\\"");',
        "const char *when = __DATE__;",
        "__TIME__",
        "__TIMESTAMP__",
        '// glob: src/*.c\n#include "a.h"\n/* */',
        'char *s = "/*";\n#include "a.h"\n// */',
        'int n = 1\'0, q = \'"\';\nchar *s = "/*";\n#include "a.h"\n/* */',
        '#error don\'t /*\n#include "a.h"\n/* */',
        'char *s = R"(/*)";\n#include "a.h"\n// */',
    ],
)
@pytest.mark.parametrize("language", ["c", "cuda", "hip"])
def test_c_that_reads_files(source: str, language: str) -> None:
    assert files_read(language, source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "int include;",
        "#define A 1\n#pragma once\n#pragma unroll\n#if A\n#endif\n#line 3\n",
        '// #include "a.h"',
        '/*\n#include "a.h"\n*/',
        '// c \\\n#include "a.h"\n',
        '#error use #include "a.h"',
        'char *s = "#include <a.h>";',
        'x = y # include "a.h"',
        "// __DATE__ and .incbin",
        "/* __has_include(<a.h>) */",
        "int __DATE;",
        "#includes",
        "struct s { int include; } x; int f() { return x.include; }",
    ],
)
def test_c_that_reads_nothing(source: str) -> None:
    assert files_read("c", source) is None


@pytest.mark.parametrize(
    "source",
    [
        'include!("a.rs");',
        'const A: &str = include_str!("a");',
        'include_bytes ! ("a")',
        "use core::include_str as text;",
        "use core::{include as i, env as e};",
        "mod x;",
        "pub(crate) mod r#type ;",
        "mod /* c */ x;",
        "mod // c\n x;",
        "macro_rules! m { ($n:ident) => { mod $n; } }",
        "macro_rules! m { ($a:tt) => { $a x; } } m!(mod);",
        '#[path = "a.rs"] mod x { }',
        '#![path = "a"]',
        '#[cfg_attr(all(), path = "a.rs")] mod x { }',
        'env!("HOME")',
        'core :: env ! ("HOME")',
        'env /* c */ !("HOME")',
        "use core::env as e;",
        'option_env!("HOME")',
        "#[rustc_builtin_macro(env)] macro e($x:expr) {}",
        'asm!(".incbin \\"a\\"")',
        'global_asm!(r#".include "a.s""#)',
        'const S: &str = "/*"; mod x; // */',
        "const C: char = '\"'; mod x; // \"",
        "/* /* */ */ mod x; /* */",
        "fn f<'a>(q: &'a u8) {} mod x; fn g(c: char) { '\\''; }",
    ],
)
def test_rust_that_reads_files(source: str) -> None:
    assert files_read("rust", source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "// mod x; and include!",
        "/* mod x; /* env!() */ include_str! */",
        "/// See [`include_str!`] and mod x;\nfn f() {}",
        "mod x { pub fn f() {} }",
        "pub mod r#type{}",
        "macro_rules! m { ($n:ident) => { mod $n { } } }",
        "let path = 1; fn environment() {} struct Mode; let modulo = 2;",
        "#[no_mangle] fn f(env: u32) -> u32 { env }",
        "#[allow(internal_features)] fn f() {}",
        'const S: &str = "mod x;";',
    ],
)
def test_rust_that_reads_nothing(source: str) -> None:
    assert files_read("rust", source) is None


def test_other_languages() -> None:
    assert files_read("zig", 'const std = @import("std"); const b = @import( "builtin" );') is None
    assert files_read("zig", 'const a = @import("a.zig");') == "@import"
    assert files_read("zig", 'const a = @embedFile("std");') == "@embedFile"
    assert files_read("zig", "const a = 1; // #include") is None
    assert files_read("ttir", "include mod x; #include") is None


def test_every_part_is_looked_at_and_named() -> None:
    assert files_read("rust", "", "fn f() {}", "mod  x ;") == "mod x ;"
    assert files_read("c", "#  include <a.h>\n", "int x;") == "# include"


@pytest.mark.parametrize(
    "parts",
    [
        ('asm!(".incbin \\"a\\"")',),
        ('asm!(concat!(".", "incbin \\"a\\""))',),
        ("macro_rules! m { ($($p:literal),*) => { asm!(concat!($($p),*)) } }", 'm!(".", "include \\"a\\"");'),
    ],
)
def test_assembly_that_reads_files_is_seen_in_whatever_pieces(parts: tuple[str, ...]) -> None:
    assert unlisted("rust", *parts)
    assert unlisted("c", *parts)


def test_a_word_like_it_is_no_assembly_that_reads_files() -> None:
    assert unlisted("rust", "// .incbin and concat!", 'let a = ".increment"; fn include() {}') is None
