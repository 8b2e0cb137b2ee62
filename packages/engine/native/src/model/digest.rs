//! A name for the numbers of a version: the same numbers have the same digest in every process and on every machine. Not made to
//! withstand forgery.

use super::params::{ADAPTERS, BASE};
use super::{Model, Weights};
use crate::buffer::Shared;
use crate::error::EngineError;

/// Floats of one chunk; fixes the digest.
const CHUNK: usize = 1 << 16;
const LANES: usize = 4;
const START: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

fn mix(state: u64, value: u64) -> u64 {
    (state.rotate_left(29) ^ value).wrapping_mul(FACTOR)
}

fn chunk_digest(data: &[f32]) -> u64 {
    // Several chains, since one would wait for its own multiplications.
    let mut lanes = [START; LANES];
    for group in data.chunks(2 * LANES) {
        for (lane, pair) in lanes.iter_mut().zip(group.chunks(2)) {
            let bits = pair.iter().fold(0, |bits, x| bits << 32 | u64::from(x.to_bits()));
            *lane = mix(*lane, bits);
        }
    }
    lanes.into_iter().fold(data.len() as u64, mix)
}

impl Model {
    /// Of all that sampling depends on: the base model and the adapters, not the value head.
    pub fn digest(&self, weights: &Weights) -> Result<String, EngineError> {
        let mut state = START;
        for store in [BASE, ADAPTERS] {
            let data = weights.data(store)?;
            let chunks = data.len().div_ceil(CHUNK);
            let mut digests = vec![0; chunks];
            let at = Shared(digests.as_mut_ptr());
            self.exec.pool.run(chunks, |chunk, _| {
                let digest = chunk_digest(&data[chunk * CHUNK..((chunk + 1) * CHUNK).min(data.len())]);
                // Safety: each chunk writes its own entry.
                unsafe { *at.at(chunk) = digest };
            });
            state = digests.into_iter().fold(mix(state, data.len() as u64), mix);
        }
        Ok(format!("{:016x}", mix(state ^ state >> 32, START)))
    }
}
