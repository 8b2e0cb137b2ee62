//! Operands of the gradient products as bf16, where there is no unit that takes them so: rounded when they are packed, and multiplied as f32. The
//! product of two is exact then and the sums are of f32, as in the unit; it is the same precision without the speed.

use super::Exec;
use crate::buffer::Shared;
use crate::simd::{Level, Simd};
use crate::simd_dispatch;

/// Floats of one chunk.
const CHUNK: usize = 1 << 14;

/// To the nearest, ties to even.
#[inline(always)]
unsafe fn rounded<S: Simd>(at: *mut f32, len: usize) {
    for x in unsafe { std::slice::from_raw_parts_mut(at, len) } {
        let bits = x.to_bits();
        *x = f32::from_bits(bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000);
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
