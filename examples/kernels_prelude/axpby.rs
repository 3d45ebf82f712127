// axpby: out[i] = alpha * x[i] + beta * y[i]
//
// Arguments: alpha, beta: scalars; x, y, out: n floats each.
// Launch: any number of blocks of any number of threads; a grid-stride loop covers the rest.
// Prelude: no_core.rs, without which this file does not compile.
#[no_mangle]
pub unsafe extern "ptx-kernel" fn axpby_entry_point(alpha: f32, x: *const f32, beta: f32, y: *const f32, out: *mut f32, n: i32) {
    let mut i = block() * threads() + thread();
    while i < n {
        *at(out, i) = alpha * *at(x, i) + beta * *at(y, i);
        i = i + blocks() * threads();
    }
}
