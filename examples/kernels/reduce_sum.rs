// reduce_sum: partial[w] = the sum of the w-th CHUNK of x, CHUNK = 32 * ITEMS
//
// Arguments: x: n floats; partial: ceil(n / CHUNK) floats. Run it again on the partial sums until one is left.
// Launch: ceil(n / CHUNK) blocks of 32 threads: one warp, whose lanes add up by shuffles.
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
impl Copy for u32 {}
impl Copy for f32 {}
impl Add for i32 { type Output = i32; #[inline(always)] fn add(self, right: i32) -> i32 { self + right } }
impl Mul for i32 { type Output = i32; #[inline(always)] fn mul(self, right: i32) -> i32 { self * right } }
impl Add for f32 { type Output = f32; #[inline(always)] fn add(self, right: f32) -> f32 { self + right } }
impl PartialOrd for i32 { #[inline(always)] fn lt(&self, right: &i32) -> bool { *self < *right } }

#[rustc_intrinsic] const unsafe fn arith_offset<T>(pointer: *const T, count: isize) -> *const T;
#[inline(always)] unsafe fn at(array: *const f32, i: i32) -> *mut f32 { arith_offset(array, i as isize) as *mut f32 }

extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"] fn thread() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"] fn block() -> i32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.f32"] fn shuffle_xor(threads: u32, value: f32, lanes: i32, clamp: i32) -> f32;
}

const ITEMS: i32 = 8;

#[no_mangle]
pub unsafe extern "ptx-kernel" fn reduce_sum_entry_point(x: *const f32, partial: *mut f32, n: i32) {
    let mut i = block() * (32 * ITEMS) + thread();
    let mut sum = 0.0;
    let mut turn = 0;
    while turn < ITEMS {
        if i < n {
            sum = sum + *at(x, i);
        }
        i = i + 32;
        turn = turn + 1;
    }
    sum = sum + shuffle_xor(0xffff_ffff, sum, 16, 31);
    sum = sum + shuffle_xor(0xffff_ffff, sum, 8, 31);
    sum = sum + shuffle_xor(0xffff_ffff, sum, 4, 31);
    sum = sum + shuffle_xor(0xffff_ffff, sum, 2, 31);
    sum = sum + shuffle_xor(0xffff_ffff, sum, 1, 31);
    if thread() < 1 {
        *at(partial, block()) = sum;
    }
}
