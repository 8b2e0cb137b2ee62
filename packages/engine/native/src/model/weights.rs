//! The numbers of the parameters, as versions. A version never changes once somebody else can see it: those who sample, score or keep
//! one hold its stores by reference count, and a change copies a store only while another holder is left; otherwise it works in
//! place. So a new version shares with the old one whatever is equal (under LoRA all of the base model).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::params::{ADAPTERS, BASE, Params, VALUE};
use super::split::Split;
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::form::{Form, Matrix};
use crate::gemm::Exec;

/// The data of one store.
pub struct Store {
    pub data: Buffer,
    /// Of the last write to it; no other write in this process has this number.
    pub written: u64,
    /// Its matrices split for the AMX unit, while sampling needs them.
    split: Mutex<Option<Arc<Split>>>,
    /// Taken away by a load that works in place and has not been committed.
    missing: bool,
}

fn next_write() -> u64 {
    static WRITES: AtomicU64 = AtomicU64::new(1);
    WRITES.fetch_add(1, Ordering::Relaxed)
}

impl Store {
    pub fn new(data: Buffer) -> Store {
        Store { data, written: next_write(), split: Mutex::default(), missing: false }
    }

    pub fn missing() -> Store {
        Store { missing: true, ..Store::new(Buffer::empty()) }
    }

    pub fn is_missing(&self) -> bool {
        self.missing
    }

    pub fn bytes(&self) -> usize {
        4 * (self.data.len() + self.split().as_ref().map_or(0, |split| split.floats()))
    }

    fn split(&self) -> MutexGuard<'_, Option<Arc<Split>>> {
        self.split.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gives away the memory of its split copy; the next one that samples from it makes another.
    pub fn take_split(&self) -> Option<Buffer> {
        self.split().take().and_then(Arc::into_inner).map(Split::into_memory)
    }
}

/// One version of the weights. A clone shares its stores.
#[derive(Clone)]
pub struct Weights {
    pub(super) version: u64,
    pub(super) stores: [Arc<Store>; 3],
}

impl Weights {
    pub fn new(base: Buffer) -> Weights {
        let empty = || Arc::new(Store::new(Buffer::empty()));
        Weights { version: 0, stores: [Arc::new(Store::new(base)), empty(), empty()] }
    }

    /// Names these very numbers among all that this model has held.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Refuses a version that a broken-off load left without a store.
    pub fn check_whole(&self) -> Result<(), EngineError> {
        if self.stores.iter().any(|store| store.is_missing()) {
            return Err(EngineError::new(
                "WEIGHTS_INCOMPLETE",
                "A load that had no room for a second copy was broken off, so the model has no whole weights. Load them again.",
            ));
        }
        Ok(())
    }

    pub fn data(&self, store: usize) -> Result<&[f32], EngineError> {
        self.check_whole()?;
        Ok(&self.stores[store].data)
    }

    /// # Safety
    /// `offset` must be one of a parameter of that store, and the store be there.
    pub unsafe fn at(&self, store: usize, offset: usize) -> *const f32 {
        unsafe { self.stores[store].data.pointer().add(offset).cast_const() }
    }

    /// A matrix of the base model.
    ///
    /// # Safety
    /// As `at`.
    pub unsafe fn matrix(&self, offset: usize, form: Form) -> Matrix {
        unsafe { Matrix { at: self.at(BASE, offset), form } }
    }

    pub fn has(&self, store: usize) -> bool {
        !self.stores[store].data.is_empty()
    }

    /// Whether they are versions of one base model: they then share what is made of it.
    pub fn same_base(&self, other: &Weights) -> bool {
        Arc::ptr_eq(&self.stores[BASE], &other.stores[BASE])
    }

    /// Whether somebody else holds this store too, so that changing it takes a copy.
    pub fn is_shared(&self, store: usize) -> bool {
        Arc::strong_count(&self.stores[store]) > 1
    }

    /// The store to write to: a copy of its own when others hold it.
    pub fn write(&mut self, store: usize) -> Result<&mut Buffer, EngineError> {
        if self.is_shared(store) {
            self.stores[store] = Arc::new(Store::new(self.stores[store].data.copy("a second version of the weights")?));
        }
        let store = Arc::get_mut(&mut self.stores[store])
            .ok_or_else(|| EngineError::new("ENGINE_FAILED", "A version of the weights that others use was about to be changed."))?;
        store.written = next_write();
        drop(store.take_split());
        Ok(&mut store.data)
    }

    /// A store's matrices split for the AMX unit; `memory` lends a buffer when they have to be split.
    pub fn split(&self, exec: &Exec, params: &Params, store: usize, memory: impl FnOnce() -> Buffer) -> Result<Arc<Split>, EngineError> {
        let data = &self.stores[store].data;
        let mut kept = self.stores[store].split();
        match &*kept {
            Some(split) => Ok(split.clone()),
            None => Ok(kept.insert(Arc::new(Split::of(exec, params, store, data, memory())?)).clone()),
        }
    }

    /// See `Store::take_split`; an adapter's is small.
    pub fn take_split(&self) -> Option<Buffer> {
        self.stores[BASE].take_split()
    }

    /// Bytes of the stores that are not among `known`, each of which is then added to it.
    pub fn bytes_beside(&self, known: &mut Vec<*const Store>) -> usize {
        let mut bytes = 0;
        for store in [BASE, ADAPTERS, VALUE].map(|store| &self.stores[store]) {
            if !known.contains(&Arc::as_ptr(store)) {
                known.push(Arc::as_ptr(store));
                bytes += store.bytes();
            }
        }
        bytes
    }
}
