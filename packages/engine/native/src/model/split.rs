//! A copy of the weights split for the AMX unit, for sampling: its small batches would otherwise split every weight at every token.
//! Made anew when a weight has changed; its memory is that of a training pass while none is running.

use std::collections::HashMap;

use super::params::{BASE, Params, Place};
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::gemm::{self, Exec};

pub struct Split {
    memory: Buffer,
    /// By offset in the base store.
    places: HashMap<usize, usize>,
    /// Of the parameters it was made from.
    version: Option<u64>,
}

impl Split {
    pub fn none() -> Split {
        Split { memory: Buffer::empty(), places: HashMap::new(), version: None }
    }

    /// Splits again if the parameters are not those of the last time; `memory` lends a buffer where there is none.
    pub fn refresh(&mut self, exec: &Exec, params: &Params, version: u64, memory: impl FnOnce() -> Buffer) -> Result<(), EngineError> {
        if self.version == Some(version) {
            return Ok(());
        }
        self.version = None;
        self.places.clear();
        let mut floats = 0;
        let matrices = params.all.iter().filter(|p| p.store == BASE && p.place == Place::Panels && exec.on_amx(p.rows, p.cols));
        let matrices: Vec<_> = matrices
            .map(|p| {
                let at = floats;
                floats += gemm::split_floats(p.rows, p.cols);
                self.places.insert(p.offset, at);
                (p, at)
            })
            .collect();
        if self.memory.is_empty() {
            self.memory = memory();
        }
        self.memory.reserve(floats, "the weights in the form the AMX unit takes")?;
        let to = self.memory.pointer();
        let jobs: Vec<_> =
            matrices.iter().map(|&(p, at)| unsafe { (params.data(BASE, p.offset).cast_const(), p.rows, p.cols, to.add(at)) }).collect();
        unsafe { gemm::split_weights(exec, &jobs) };
        self.version = Some(version);
        Ok(())
    }

    pub fn current(&self, version: u64) -> Option<&Split> {
        (self.version == Some(version)).then_some(self)
    }

    /// Null where the matrix is not split.
    pub fn at(&self, offset: usize) -> *const u8 {
        self.places.get(&offset).map_or(std::ptr::null(), |&at| self.memory.pointer().wrapping_add(at).cast())
    }

    /// Gives its memory away.
    pub fn take(&mut self) -> Option<Buffer> {
        self.version = None;
        (!self.memory.is_empty()).then(|| std::mem::replace(&mut self.memory, Buffer::empty()))
    }

    pub fn floats(&self) -> usize {
        self.memory.len()
    }
}
