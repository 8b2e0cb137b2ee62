//! The three products of a linear layer with weights in panels `[out/16][in][16]`.

#[cfg(target_arch = "x86_64")]
mod amx;
mod backward;
mod forward;
mod fused;
mod operands;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod rounded;
pub mod tile;

pub use backward::{GradInput, GradWeight, grad_input, grad_weight};
pub use forward::{DECODED, Groups, Job, STREAMED_ROWS, Strip, forward, forward_on, pack_group, pack_rows, row_groups};
pub use tile::{Mode, Tile};

use crate::buffer::Buffer;
use crate::config::Precision;
use crate::error::EngineError;
use crate::pool::Pool;
use crate::simd::Level;

/// What a parallel numeric job needs: the instruction set, the threads, and scratch that lives on between calls.
pub struct Exec {
    pub level: Level,
    pub pool: Pool,
    /// Packed left operands, shared by the threads of one job.
    pub pack: Buffer,
    /// One scratch a thread.
    pub local: Vec<Buffer>,
    /// Right operands split for the AMX unit.
    split: Buffer,
    /// Whether products run on the AMX unit.
    amx: bool,
    /// Whether gradient products of bf16 take pairs at once.
    pairs: bool,
    /// Of the operands of the gradient products.
    pub gradients: Precision,
    /// Logits of a block of the vocabulary, where they are not kept.
    pub logits: Buffer,
}

/// Whether this machine has an AMX unit we may use.
pub fn amx_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::available();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether this machine multiplies pairs of bf16 numbers by one instruction (AVX512-BF16).
pub fn pairs_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return pairs::available();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Floats of `W[n, k]` split for the AMX unit.
pub fn split_floats(n: usize, k: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return amx::split_floats(n, k);
    #[cfg(not(target_arch = "x86_64"))]
    return 0 * n * k;
}

/// Splits whole matrices for the AMX unit: `(panels, n, k, to)`.
///
/// # Safety
/// Panels valid for their shapes, `to` for `split_floats(n, k)`.
pub unsafe fn split_weights(exec: &Exec, matrices: &[(*const f32, usize, usize, *mut f32)]) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        amx::split_weights(exec, matrices)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (exec, matrices);
}

impl Exec {
    pub fn new(level: Level, threads: usize) -> Exec {
        let pool = Pool::new(threads);
        let local = (0..pool.threads()).map(|_| Buffer::empty()).collect();
        Exec {
            level,
            pool,
            pack: Buffer::empty(),
            local,
            split: Buffer::empty(),
            amx: false,
            pairs: false,
            gradients: Precision::F32,
            logits: Buffer::empty(),
        }
    }

    /// Has no effect on a machine without the unit.
    pub fn set_amx(&mut self, on: bool) {
        self.amx = on && amx_available();
    }

    pub fn amx(&self) -> bool {
        self.amx
    }

    /// Has no effect on a machine without the instruction, or where a lesser set was asked for.
    pub fn set_pairs(&mut self, on: bool) {
        self.pairs = on && pairs_available() && self.level == Level::available()[0];
    }

    pub fn pairs(&self) -> bool {
        self.pairs
    }

    /// Whether the product with this matrix runs on the AMX unit. Depends on the matrix alone, never on the batch: the bits must not either.
    pub fn on_amx(&self, n: usize, k: usize) -> bool {
        // Beyond 2¹⁵ the integer sums could overflow.
        self.amx && n >= 32 && (32..=1 << 15).contains(&k)
    }

    pub fn set_threads(&mut self, threads: usize) {
        self.pool = Pool::new(threads);
        self.local = (0..self.pool.threads()).map(|_| Buffer::empty()).collect();
    }

    /// Pointers to `len` floats for each thread.
    pub fn local(&mut self, len: usize) -> Result<Locals, EngineError> {
        for buffer in &mut self.local {
            buffer.reserve(len, "thread scratch")?;
        }
        Ok(Locals(self.local.iter().map(|b| b.pointer()).collect()))
    }

    pub fn bytes(&self) -> usize {
        4 * (self.pack.len() + self.split.len() + self.logits.len() + self.local.iter().map(|b| b.len()).sum::<usize>())
    }
}

/// Scratch pointers by thread; a thread runs one chunk at a time, so it has its own to itself.
pub struct Locals(Vec<*mut f32>);
unsafe impl Sync for Locals {}
impl Locals {
    pub fn of(&self, thread: usize) -> *mut f32 {
        self.0[thread]
    }
}
