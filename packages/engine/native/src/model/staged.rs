//! Loads of many tensors as one change. They are set, in as many calls as it takes, in weights that nobody else sees; commit makes
//! these the present ones at once, with the optimiser's state that belongs to them. Where there is no room for a second copy of a
//! store, the caller first sees to it that nobody samples, and the load then works in the present store: until it is
//! committed the model has no whole weights, and says so.

use std::sync::Arc;

use super::Model;
use super::moments::{Moments, moment_bytes};
use super::params::{ADAPTERS, BASE, VALUE, Values};
use super::tensors::{check_len, check_values};
use super::weights::{Store, Weights};
use crate::buffer::{Buffer, Shared};
use crate::error::EngineError;
use crate::form::Form;
use crate::pool::Pool;

/// What a load is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To become the present weights.
    Present,
    /// To be kept beside them, for scoring: always a copy.
    Beside,
}

pub struct Staged {
    purpose: Purpose,
    weights: Weights,
    /// By parameter.
    set: Vec<bool>,
    /// What the stores were written by when the load began.
    began: [u64; 3],
    /// Stores that were taken from the present weights.
    taken: [bool; 3],
    /// AdamW's moments, by store; those that are not set are zero.
    moments: [Option<Moments>; 3],
    /// When they are not set, what was loaded has never been stepped.
    steps: Option<(u64, u64)>,
}

impl Staged {
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    pub fn bytes(&self) -> usize {
        self.moments.iter().flatten().map(Moments::bytes).sum()
    }

    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Leaves the present weights without this store, so that nobody uses what is being overwritten.
    fn take(&mut self, present: &mut Weights, store: usize) {
        present.stores[store] = Arc::new(Store::missing());
        self.taken[store] = true;
    }
}

fn mixed() -> EngineError {
    EngineError::input("The weights changed while a part of them was being loaded. Load them again, or load all of them.")
}

impl Model {
    pub fn stage(&self, purpose: Purpose) -> Staged {
        Staged {
            purpose,
            began: [BASE, ADAPTERS, VALUE].map(|store| self.weights.stores[store].written),
            weights: self.weights.clone(),
            set: vec![false; self.params.all.len()],
            taken: [false; 3],
            moments: [None, None, None],
            steps: None,
        }
    }

    /// Bytes that setting this tensor, or its moments, would reserve now.
    pub fn stage_cost(&self, staged: &Staged, name: &str, moments: bool) -> usize {
        let Ok(store) = self.store_of(name) else { return 0 };
        let floats = self.params.used[store];
        match moments {
            true if staged.moments[store].is_none() => moment_bytes(self.moment_precision, floats),
            false if staged.weights.is_shared(store) => self.copy_cost(store),
            _ => 0,
        }
    }

    /// With `in_place`, in the memory of the present weights where nobody else holds them and these are to be replaced.
    pub fn stage_tensor(&mut self, staged: &mut Staged, name: &str, values: Values<'_>, in_place: bool) -> Result<(), EngineError> {
        let index = self.params.index(name)?;
        let p = &self.params.all[index];
        check_values(p, values)?;
        let store = p.store;
        if !staged.weights.has(store) {
            let zeros = Buffer::zeroed(self.params.used[store], "the weights that are being loaded")?;
            staged.weights.stores[store] = Arc::new(Store::new(zeros));
        }
        let (present, loading) = (&self.weights.stores[store], &staged.weights.stores[store]);
        let in_place = in_place && staged.purpose == Purpose::Present;
        if in_place && Arc::ptr_eq(present, loading) && Arc::strong_count(present) == 2 {
            staged.take(&mut self.weights, store);
        }
        p.set(staged.weights.write(store)?, values)?;
        staged.set.resize(self.params.all.len(), false);
        staged.set[index] = true;
        Ok(())
    }

    pub fn stage_moments(&mut self, staged: &mut Staged, name: &str, m: &[f32], v: &[f32], in_place: bool) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, m.len())?;
        check_len(name, p.rows * p.cols, v.len())?;
        if staged.purpose == Purpose::Beside || !self.is_trainable(p.store) {
            return Err(EngineError::input(format!("\"{name}\" is not trained here, so it has no moments.")));
        }
        let store = p.store;
        if staged.moments[store].is_none() {
            let floats = self.params.used[store];
            staged.moments[store] =
                Some(if in_place { self.take_moments(staged, store)? } else { Moments::zeros(self.moment_precision, floats)? });
        }
        if let (p, Some(moments)) = (self.params.find(name)?, &mut staged.moments[store]) {
            moments.write(p, m, v);
        }
        Ok(())
    }

    /// The memory of the present moments, cleared. Their store goes along: it could not be trained as before without them.
    fn take_moments(&mut self, staged: &mut Staged, store: usize) -> Result<Moments, EngineError> {
        if !self.check_staged(staged, store)? && !staged.taken[store] {
            staged.weights.stores[store] = self.weights.stores[store].clone();
        }
        let taken = self.learning[store].take_moments(self.moment_precision, self.params.used[store])?;
        staged.take(&mut self.weights, store);
        Ok(taken)
    }

    /// Optimiser steps applied so far, `(policy, value head)`.
    pub fn stage_steps(&self, staged: &mut Staged, policy: u64, value: u64) {
        staged.steps = Some((policy, value));
    }

    /// Refuses to mix what was set with what became of the rest in the meantime.
    fn check_staged(&self, staged: &Staged, store: usize) -> Result<bool, EngineError> {
        let mut params = self.params.all.iter().enumerate().filter(|(_, p)| p.store == store);
        let is_set = |index: usize| staged.set.get(index).copied().unwrap_or(false);
        let any = params.clone().any(|(index, _)| is_set(index));
        let all = params.all(|(index, _)| is_set(index));
        let unchanged = staged.taken[store] || staged.began[store] == self.weights.stores[store].written;
        if any && !all && (!unchanged || (self.weights.stores[store].is_missing() && !staged.taken[store])) {
            return Err(mixed());
        }
        Ok(any)
    }

    /// Makes what was loaded the present weights. Gradients, moments and step counts so far were those of other weights: what the
    /// load did not bring of them is as in a model that was never trained.
    pub fn commit(&mut self, mut staged: Staged) -> Result<(), EngineError> {
        if staged.purpose == Purpose::Beside {
            return Err(EngineError::input("These weights were loaded to be kept beside the present ones."));
        }
        let mut touched = [false; 3];
        for store in [BASE, ADAPTERS, VALUE] {
            touched[store] = self.check_staged(&staged, store)?;
        }
        for store in (0..3).filter(|&store| touched[store] || staged.taken[store]) {
            self.weights.stores[store] = staged.weights.stores[store].clone();
        }
        for store in [BASE, ADAPTERS, VALUE] {
            let moments = staged.moments[store].take();
            if !self.is_trainable(store) || !(touched[store] || moments.is_some()) {
                continue;
            }
            self.learning[store].moments = Arc::new(moments.unwrap_or(Moments::none()));
            *(if store == VALUE { &mut self.steps.1 } else { &mut self.steps.0 }) = 0;
        }
        self.steps = staged.steps.unwrap_or(self.steps);
        self.zero_gradients();
        self.changed();
        Ok(())
    }

    /// Weights to score with, that are not the present ones.
    pub fn keep(&mut self, staged: Staged) -> Result<Weights, EngineError> {
        if staged.purpose == Purpose::Present {
            return Err(EngineError::input("These weights were loaded to become the present ones."));
        }
        for store in [BASE, ADAPTERS, VALUE] {
            self.check_staged(&staged, store)?;
        }
        staged.weights.check_whole()?;
        self.versions += 1;
        Ok(Weights { version: self.versions, ..staged.weights })
    }

    /// Bytes of a copy of a store, with what the AMX unit needs of it.
    fn copy_cost(&self, store: usize) -> usize {
        let split = if store != VALUE && self.exec.amx() { 3 } else { 0 };
        self.params.used[store] * (4 + split)
    }

    /// Bytes that changing these stores would reserve now, because somebody else holds them.
    pub fn change_cost(&self, stores: &[usize]) -> usize {
        stores.iter().filter(|&&store| self.weights.is_shared(store)).map(|&store| self.copy_cost(store)).sum()
    }

    /// `kept ← decay·kept + (1 − decay)·present`, in every store that is not the same.
    pub fn blend(&mut self, kept: &mut Weights, decay: f32) -> Result<(), EngineError> {
        self.weights.check_whole()?;
        if !(0.0..=1.0).contains(&decay) {
            return Err(EngineError::input(format!("The decay of an average is {decay}; it must be from 0 to 1.")));
        }
        let present = &self.weights.stores;
        let apart = |kept: &Weights, store: usize| kept.has(store) && !Arc::ptr_eq(&present[store], &kept.stores[store]);
        let stores: Vec<usize> = (0..3).filter(|&store| apart(kept, store)).collect();
        if stores.contains(&BASE)
            && let Some(small) = self.params.all.iter().find(|p| p.form != Form::F32)
        {
            let (name, form) = (&small.name, small.form.name());
            return Err(EngineError::input(format!("\"{name}\" is kept as {form}, and such weights have no average.")));
        }
        // All memory is had before anything moves.
        for &store in &stores {
            kept.write(store)?;
        }
        for store in stores {
            blend_into(&self.exec.pool, kept.write(store)?, &present[store].data, decay);
        }
        self.versions += 1;
        kept.version = self.versions;
        Ok(())
    }
}

/// Floats of one chunk.
const CHUNK: usize = 1 << 16;

fn blend_into(pool: &Pool, to: &mut Buffer, from: &Buffer, decay: f32) {
    let len = to.len().min(from.len());
    let at = Shared(to.pointer());
    pool.run(len.div_ceil(CHUNK), |chunk, _| {
        let range = chunk * CHUNK..((chunk + 1) * CHUNK).min(len);
        // Safety: chunks do not overlap.
        let to = unsafe { std::slice::from_raw_parts_mut(at.at(range.start), range.len()) };
        for (to, from) in to.iter_mut().zip(&from[range]) {
            *to = decay * *to + (1.0 - decay) * from;
        }
    });
}
