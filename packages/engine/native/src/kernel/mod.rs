//! Everything between the matrix products. Each file holds a forward and its backward.

pub mod activation;
pub mod adamw;
pub mod attention;
pub mod attention_backward;
#[cfg(test)]
mod attention_tests;
pub mod embedding;
#[cfg(test)]
mod embedding_tests;
pub mod head;
pub mod norm;
pub mod rope;

use crate::pool::Pool;
use std::ops::Range;

/// Splits `rows` of `width` floats over the threads; small work stays on the caller.
pub fn parallel_rows(pool: &Pool, rows: usize, width: usize, f: impl Fn(Range<usize>, usize) + Sync) {
    const LEAST: usize = 1 << 13;
    let chunks = (rows * width / LEAST).clamp(1, 4 * pool.threads()).min(rows.max(1));
    let per = rows.div_ceil(chunks.max(1)).max(1);
    pool.run(rows.div_ceil(per), |chunk, thread| f(chunk * per..((chunk + 1) * per).min(rows), thread));
}

/// A stateless random number: the same (seed, stream, index) gives the same 64 bits (SplitMix64 over the three).
pub fn counter_random(seed: u64, stream: u64, index: u64) -> u64 {
    let mut z = seed
        .wrapping_add(stream.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in [0, 1) with 24 bits.
pub fn counter_uniform(seed: u64, stream: u64, index: u64) -> f32 {
    (counter_random(seed, stream, index) >> 40) as f32 / (1u64 << 24) as f32
}
