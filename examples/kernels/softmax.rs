// softmax: out[r][c] = exp(input[r][c] - max of row r) / sum of those exponentials over row r
//
// Arguments: input, out: rows of cols floats, row-major, cols > 0.
// Launch: rows blocks of 32 threads: one warp for each row, whose lanes combine by shuffles.
#![feature(no_core, lang_items, intrinsics, abi_ptx, link_llvm_intrinsics)]
#![allow(internal_features)]
#![no_core]

// The parts of core that are used here.
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "legacy_receiver"] pub trait Receiver {}
#[lang = "copy"] pub trait Copy {}
#[lang = "add"] pub trait Add<R = Self> { type Output; fn add(self, right: R) -> Self::Output; }
#[lang = "mul"] pub trait Mul<R = Self> { type Output; fn mul(self, right: R) -> Self::Output; }
#[lang = "sub"] pub trait Sub<R = Self> { type Output; fn sub(self, right: R) -> Self::Output; }
#[lang = "div"] pub trait Div<R = Self> { type Output; fn div(self, right: R) -> Self::Output; }
#[lang = "partial_ord"] pub trait PartialOrd<R = Self> { fn lt(&self, right: &R) -> bool; }
impl<T: PointeeSized> Receiver for &T {}
impl<T> Copy for *const T {}
impl<T> Copy for *mut T {}
impl Copy for isize {}
impl Copy for i32 {}
impl Copy for u32 {}
impl Copy for f32 {}
impl Add for i32 { type Output = i32; #[inline(always)] fn add(self, right: i32) -> i32 { self + right } }
impl Mul for i32 { type Output = i32; #[inline(always)] fn mul(self, right: i32) -> i32 { self * right } }
impl Add for f32 { type Output = f32; #[inline(always)] fn add(self, right: f32) -> f32 { self + right } }
impl Mul for f32 { type Output = f32; #[inline(always)] fn mul(self, right: f32) -> f32 { self * right } }
impl Sub for f32 { type Output = f32; #[inline(always)] fn sub(self, right: f32) -> f32 { self - right } }
impl Div for f32 { type Output = f32; #[inline(always)] fn div(self, right: f32) -> f32 { self / right } }
impl PartialOrd for i32 { #[inline(always)] fn lt(&self, right: &i32) -> bool { *self < *right } }
impl PartialOrd for f32 { #[inline(always)] fn lt(&self, right: &f32) -> bool { *self < *right } }

#[rustc_intrinsic] const unsafe fn arith_offset<T>(pointer: *const T, count: isize) -> *const T;
#[inline(always)] unsafe fn at(array: *const f32, i: i32) -> *mut f32 { arith_offset(array, i as isize) as *mut f32 }

extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"] fn thread() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"] fn block() -> i32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.f32"] fn shuffle_xor(threads: u32, value: f32, lanes: i32, clamp: i32) -> f32;
    #[link_name = "llvm.nvvm.ex2.approx.f"] fn exp2(x: f32) -> f32;
}

#[inline(always)] fn max(a: f32, b: f32) -> f32 { if a < b { b } else { a } }

#[inline(always)] unsafe fn warp_max(mut v: f32) -> f32 {
    v = max(v, shuffle_xor(0xffff_ffff, v, 16, 31));
    v = max(v, shuffle_xor(0xffff_ffff, v, 8, 31));
    v = max(v, shuffle_xor(0xffff_ffff, v, 4, 31));
    v = max(v, shuffle_xor(0xffff_ffff, v, 2, 31));
    max(v, shuffle_xor(0xffff_ffff, v, 1, 31))
}

#[inline(always)] unsafe fn warp_sum(mut v: f32) -> f32 {
    v = v + shuffle_xor(0xffff_ffff, v, 16, 31);
    v = v + shuffle_xor(0xffff_ffff, v, 8, 31);
    v = v + shuffle_xor(0xffff_ffff, v, 4, 31);
    v = v + shuffle_xor(0xffff_ffff, v, 2, 31);
    v + shuffle_xor(0xffff_ffff, v, 1, 31)
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn softmax_entry_point(input: *const f32, out: *mut f32, rows: i32, cols: i32) {
    if block() < rows {
        let row = at(input, block() * cols);
        let result = at(out, block() * cols);

        let mut top = *row;
        let mut c = thread();
        while c < cols {
            top = max(top, *at(row, c));
            c = c + 32;
        }
        top = warp_max(top);

        let mut sum = 0.0;
        c = thread();
        while c < cols {
            let e = exp2((*at(row, c) - top) * 1.442_695); // exp(x) = 2^(x log2 e)
            *at(result, c) = e;
            sum = sum + e;
            c = c + 32;
        }
        let scale = 1.0 / warp_sum(sum);

        c = thread();
        while c < cols {
            *at(result, c) = *at(result, c) * scale;
            c = c + 32;
        }
    }
}
