//! AdamW's first and second moments of a store, in its layout. They take half of what training adds to a model, and may be kept in two bytes
//! each. Then they are rounded by chance: the second moment changes by a thousandth a step, which rounding to the nearest of
//! 8 bits would never let happen.

use super::params::Param;
use crate::buffer::Buffer;
use crate::config::Precision;
use crate::error::EngineError;
use crate::form::{from_bf16, to_bf16};
use crate::kernel::adamw::{At, Chance};

/// Bytes of both moments of so many parameters.
pub fn moment_bytes(precision: Precision, parameters: usize) -> usize {
    match precision {
        Precision::F32 => 8 * parameters,
        Precision::Bf16 => 4 * parameters,
    }
}

/// Empty until the first step.
pub struct Moments {
    precision: Precision,
    m: Buffer,
    v: Buffer,
}

/// As numbers of two bytes.
fn halves(of: &Buffer) -> &[u16] {
    // Safety: any bytes are such numbers.
    unsafe { std::slice::from_raw_parts(of.pointer().cast::<u16>(), 2 * of.len()) }
}

fn halves_mut(of: &mut Buffer) -> &mut [u16] {
    // Safety: as above, and the buffer is borrowed for as long.
    unsafe { std::slice::from_raw_parts_mut(of.pointer().cast::<u16>(), 2 * of.len()) }
}

impl Moments {
    pub const fn none() -> Moments {
        Moments { precision: Precision::F32, m: Buffer::empty(), v: Buffer::empty() }
    }

    /// `parameters`: of a store, a multiple of 16.
    pub fn zeros(precision: Precision, parameters: usize) -> Result<Moments, EngineError> {
        let zeros = |what| Buffer::zeroed(moment_bytes(precision, parameters) / 8, what);
        Ok(Moments { precision, m: zeros("the optimiser's first moments")?, v: zeros("the optimiser's second moments")? })
    }

    pub fn copy(&self) -> Result<Moments, EngineError> {
        let copy = |of: &Buffer| of.copy("the optimiser's state beside the one that is kept");
        Ok(Moments { precision: self.precision, m: copy(&self.m)?, v: copy(&self.v)? })
    }

    pub fn clear(&mut self) {
        self.m.fill(0.0);
        self.v.fill(0.0);
    }

    pub fn is_empty(&self) -> bool {
        self.m.is_empty()
    }

    pub fn bytes(&self) -> usize {
        4 * (self.m.len() + self.v.len())
    }

    /// Of one parameter; zeros where there are none yet.
    pub fn read(&self, p: &Param, m: &mut [f32], v: &mut [f32]) {
        for (from, to) in [(&self.m, m), (&self.v, v)] {
            match self.precision {
                _ if self.is_empty() => to.fill(0.0),
                Precision::F32 => p.read(from, to),
                Precision::Bf16 => p.read_as(halves(from), to, from_bf16),
            }
        }
    }

    /// To the nearest, where they have more bits than are kept.
    pub fn write(&mut self, p: &Param, m: &[f32], v: &[f32]) {
        for (to, from) in [(&mut self.m, m), (&mut self.v, v)] {
            match self.precision {
                Precision::F32 => p.write(to, from),
                Precision::Bf16 => p.write_as(halves_mut(to), from, to_bf16),
            }
        }
    }

    /// Those of the parameter at `offset` of its store, for the optimiser's step of this number.
    ///
    /// # Safety
    /// There must be moments, nobody else hold them, and the store have a parameter there.
    pub unsafe fn at(&self, offset: usize, store: usize, step: u64) -> At {
        let (m, v) = (self.m.pointer(), self.v.pointer());
        unsafe {
            match self.precision {
                Precision::F32 => At::F32 { m: m.add(offset), v: v.add(offset) },
                Precision::Bf16 => {
                    let chance = Chance { step, store, first: offset };
                    At::Bf16 { m: m.cast::<u16>().add(offset), v: v.cast::<u16>().add(offset), chance }
                }
            }
        }
    }
}
