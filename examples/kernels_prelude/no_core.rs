// A small prelude for kernels: what core would provide, and where a thread stands in the grid.
// The source to compile is this text directly followed by a kernel's own, so no kernel here starts with inner attributes.
#![feature(no_core, lang_items, intrinsics, abi_ptx, link_llvm_intrinsics)]
#![allow(internal_features)]
#![no_core]

// The parts of core that kernels need.
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
impl Sub for i32 { type Output = i32; #[inline(always)] fn sub(self, right: i32) -> i32 { self - right } }
impl Sub for f32 { type Output = f32; #[inline(always)] fn sub(self, right: f32) -> f32 { self - right } }
impl Div for f32 { type Output = f32; #[inline(always)] fn div(self, right: f32) -> f32 { self / right } }
impl PartialOrd for i32 { #[inline(always)] fn lt(&self, right: &i32) -> bool { *self < *right } }
impl PartialOrd for f32 { #[inline(always)] fn lt(&self, right: &f32) -> bool { *self < *right } }

#[rustc_intrinsic] pub const unsafe fn arith_offset<T>(pointer: *const T, count: isize) -> *const T;
#[inline(always)] pub unsafe fn at(array: *const f32, i: i32) -> *mut f32 { arith_offset(array, i as isize) as *mut f32 }

extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"] pub fn thread() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"] pub fn threads() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"] pub fn block() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"] pub fn blocks() -> i32;
}

