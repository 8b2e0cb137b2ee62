//! The three products of a linear layer with weights in panels `[out/16][in][16]`.

#[cfg(target_arch = "x86_64")]
pub mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_forward;
mod backward;
mod forward;
pub mod tile;

pub use backward::{GradInput, GradWeight, grad_input, grad_weight};
pub use forward::{Groups, Job, forward, forward_on, pack_group, pack_rows, row_groups};
pub use tile::{Mode, Tile};

use crate::buffer::Buffer;
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
    /// Present when gradients use the AMX unit.
    #[cfg(target_arch = "x86_64")]
    amx: Option<amx::Scratch>,
    /// Whether the forward products use it as well.
    amx_forward: bool,
    /// Logits of a block of the vocabulary, where they are not kept.
    pub logits: Buffer,
}

/// What the AMX unit is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amx {
    Off,
    /// Gradients only, which need not have the bits of any other pass.
    Gradients,
    /// The forward products of sampling and training too.
    All,
}

/// Whether this machine has an AMX unit we may use.
pub fn amx_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::available();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
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
            #[cfg(target_arch = "x86_64")]
            amx: None,
            amx_forward: false,
            logits: Buffer::empty(),
        }
    }

    /// Has no effect on a machine without the unit.
    pub fn set_amx(&mut self, amx: Amx) {
        let amx = if amx_available() { amx } else { Amx::Off };
        self.amx_forward = amx == Amx::All;
        #[cfg(target_arch = "x86_64")]
        {
            self.amx = (amx != Amx::Off).then(amx::Scratch::new);
        }
    }

    pub fn amx(&self) -> Amx {
        #[cfg(target_arch = "x86_64")]
        if self.amx.is_some() {
            return if self.amx_forward { Amx::All } else { Amx::Gradients };
        }
        Amx::Off
    }

    /// Whether the product with this matrix runs on the AMX unit. Depends on the matrix alone, never on the batch.
    pub fn on_amx(&self, n: usize, k: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.amx_forward && amx_forward::worthwhile(n, k);
        #[cfg(not(target_arch = "x86_64"))]
        return false;
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
        4 * (self.pack.len() + self.logits.len() + self.local.iter().map(|b| b.len()).sum::<usize>())
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
