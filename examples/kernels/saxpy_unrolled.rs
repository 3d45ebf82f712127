// saxpy_unrolled: y[i] = alpha * x[i] + y[i], UNROLL elements for each thread
//
// Arguments: alpha: a scalar; x, y: n floats each, y is updated in place.
// Launch: ceil(n / (threads * UNROLL)) blocks of any number of threads.
// Tunables: UNROLL, a placeholder (name and default between backticks) to be replaced by a number, such as 1, 2, 4 or 8,
//           before this file is Rust.
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
#[lang = "partial_ord"] pub trait PartialOrd<R = Self> { fn lt(&self, right: &R) -> bool; }
impl<T: PointeeSized> Receiver for &T {}
impl<T> Copy for *const T {}
impl<T> Copy for *mut T {}
impl Copy for isize {}
impl Copy for i32 {}
impl Copy for f32 {}
impl Add for i32 { type Output = i32; #[inline(always)] fn add(self, right: i32) -> i32 { self + right } }
impl Mul for i32 { type Output = i32; #[inline(always)] fn mul(self, right: i32) -> i32 { self * right } }
impl Add for f32 { type Output = f32; #[inline(always)] fn add(self, right: f32) -> f32 { self + right } }
impl Mul for f32 { type Output = f32; #[inline(always)] fn mul(self, right: f32) -> f32 { self * right } }
impl PartialOrd for i32 { #[inline(always)] fn lt(&self, right: &i32) -> bool { *self < *right } }

#[rustc_intrinsic] const unsafe fn arith_offset<T>(pointer: *const T, count: isize) -> *const T;
#[inline(always)] unsafe fn at(array: *const f32, i: i32) -> *mut f32 { arith_offset(array, i as isize) as *mut f32 }

extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"] fn thread() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"] fn threads() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"] fn block() -> i32;
}

const UNROLL: i32 = `UNROLL=4`;

#[no_mangle]
pub unsafe extern "ptx-kernel" fn saxpy_unrolled_entry_point(alpha: f32, x: *const f32, y: *mut f32, n: i32) {
    let mut i = block() * threads() * UNROLL + thread();
    let mut turn = 0;
    while turn < UNROLL {
        if i < n {
            *at(y, i) = alpha * *at(x, i) + *at(y, i);
        }
        i = i + threads();
        turn = turn + 1;
    }
}
