//! Numbers of f32 rounded to bf16 where they lie.

use super::Exec;
use crate::buffer::Shared;
use crate::form::{from_bf16, to_bf16};
use crate::simd::{Level, Simd};
use crate::simd_dispatch;

/// Floats of one chunk.
const CHUNK: usize = 1 << 14;

#[inline(always)]
unsafe fn rounded<S: Simd>(at: *mut f32, len: usize) {
    for x in unsafe { std::slice::from_raw_parts_mut(at, len) } {
        *x = from_bf16(to_bf16(*x));
    }
}

simd_dispatch! {
    pub unsafe fn round_here = rounded(at: *mut f32, len: usize);
}

/// The same by all threads.
///
/// # Safety
/// `at` holds `len` floats.
pub unsafe fn round(exec: &Exec, at: *mut f32, len: usize) {
    let (level, at): (Level, _) = (exec.level, Shared(at));
    exec.pool.run(len.div_ceil(CHUNK), |chunk, _| unsafe {
        round_here(level, at.at(chunk * CHUNK), CHUNK.min(len - chunk * CHUNK));
    });
}
