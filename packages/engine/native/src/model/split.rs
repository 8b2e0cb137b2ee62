//! A copy of a store's matrices split for the AMX unit, for sampling: its small batches would otherwise split every weight at every
//! token. It belongs to the store it was made from, and so is shared by all versions that share that; an adapter's goes with its version.

use std::collections::HashMap;
use std::sync::Arc;

use super::params::{ADAPTERS, BASE, Params, Place};
use super::{Model, Weights};
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::form::Form;
use crate::gemm::{self, Exec};

pub struct Split {
    memory: Buffer,
    /// By offset in the store.
    places: HashMap<usize, usize>,
}

impl Split {
    /// `memory` is used when it is large enough.
    pub fn of(exec: &Exec, params: &Params, store: usize, data: &Buffer, mut memory: Buffer) -> Result<Split, EngineError> {
        let mut places = HashMap::new();
        let mut floats = 0;
        // Weights from before there were adapters have none.
        let all = if data.is_empty() { &[] } else { params.all.as_slice() };
        let matrices =
            all.iter().filter(|p| p.store == store && p.place == Place::Panels && p.form == Form::F32 && exec.on_amx(p.rows, p.cols));
        let matrices: Vec<_> = matrices
            .map(|p| {
                let at = floats;
                floats += gemm::split_floats(p.rows, p.cols);
                places.insert(p.offset, at);
                (p, at)
            })
            .collect();
        memory.reserve(floats, "the weights in the form the AMX unit takes")?;
        let to = memory.pointer();
        let jobs: Vec<_> =
            matrices.iter().map(|&(p, at)| unsafe { (data.pointer().add(p.offset).cast_const(), p.rows, p.cols, to.add(at)) }).collect();
        unsafe { gemm::split_weights(exec, &jobs) };
        Ok(Split { memory, places })
    }

    /// Null where the matrix is not split.
    pub fn at(&self, offset: usize) -> *const u8 {
        self.places.get(&offset).map_or(std::ptr::null(), |&at| self.memory.pointer().wrapping_add(at).cast())
    }

    pub fn into_memory(self) -> Buffer {
        self.memory
    }

    pub fn floats(&self) -> usize {
        self.memory.len()
    }
}

/// Of the stores of one version that the forward pass reads.
pub struct Splits {
    pub base: Arc<Split>,
    pub adapters: Arc<Split>,
}

impl Splits {
    /// Null where the matrix is not split.
    pub fn at(&self, store: usize, offset: usize) -> *const u8 {
        match store {
            BASE => self.base.at(offset),
            ADAPTERS => self.adapters.at(offset),
            _ => std::ptr::null(),
        }
    }
}

impl Model {
    /// Takes the memory of these weights' split copy for the passes to come. For when nobody samples from them: who does makes
    /// another copy at the next token, which costs as much as several tokens, and then both are in memory all the same.
    pub fn reclaim_split(&mut self, weights: &Weights) {
        self.spare.extend(weights.take_split());
    }

    /// A split copy of this size, whether or not there is an AMX unit.
    #[cfg(test)]
    pub fn plant_split(&self, floats: usize) {
        drop(self.weights.take_split());
        self.weights.split(&self.exec, &self.params, BASE, || Buffer::zeroed(floats, "a test").unwrap()).unwrap();
    }
}
