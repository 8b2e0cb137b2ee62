//! The model: parameters, inference, training. The public surface of the compute core.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::config::Config;
use crate::error::EngineError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    /// 1 for vectors.
    pub rows: usize,
    pub cols: usize,
    pub trainable: bool,
    pub decay: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trainable {
    None,
    /// Every base parameter (and the value head).
    Full,
    /// The adapters (and the value head).
    Adapters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flat {
    Parameters,
    Gradients,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Everything but the value head.
    Policy,
    /// The value head only.
    Value,
}

/// Keys and values of a run of tokens, all layers. Shared by reference count; `infer` appends to it.
/// Reads below `len()` and one appending chunk per `infer` call are the only accesses, so `Arc` sharing is sound.
pub struct KvSegment {
    capacity: usize,
    len: AtomicUsize,
    data: UnsafeCell<Vec<f32>>,
}

unsafe impl Send for KvSegment {}
unsafe impl Sync for KvSegment {}

impl KvSegment {
    pub fn len(&self) -> usize {
        self.len.load(std::sync::atomic::Ordering::Acquire)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Memory held, for the cache's limit.
    pub fn bytes(&self) -> usize {
        unsafe { (*self.data.get()).len() * 4 }
    }
}

/// The first `used` tokens of a segment.
#[derive(Clone)]
pub struct KvSpan {
    pub segment: Arc<KvSegment>,
    pub used: usize,
}

/// One sequence in an `infer` step. Its context is `path` in order, then what `segment` already holds;
/// `tokens` (at least one) are run on top of it and appended to `segment`. No two chunks of a call may append to the same segment.
pub struct Chunk<'a> {
    pub path: &'a [KvSpan],
    pub segment: &'a Arc<KvSegment>,
    pub tokens: &'a [u32],
    /// False: only fill the cache, no logits row for this chunk (all chunks but the last of a long prompt).
    pub want_logits: bool,
}

/// A forest of token runs; `node_start` has one entry per node plus the end; parents come before children, −1 for a root.
pub struct TreeBatch<'a> {
    pub tokens: &'a [u32],
    pub node_start: &'a [u32],
    pub node_parent: &'a [i32],
    /// Per token, not 0 where the log-prob (and entropy) is wanted.
    pub wanted: &'a [u8],
    pub temperature: f32,
}

#[derive(Debug, Clone, Copy)]
pub struct Want {
    pub grad: bool,
    pub entropy: bool,
    pub values: bool,
    pub hidden: bool,
    /// False: the frozen reference (adapters off).
    pub adapters: bool,
    /// Keep only each layer's input and recompute the rest in backward.
    pub recompute: bool,
    pub dropout_seed: Option<u64>,
}

pub struct Pass {
    /// Per token, 0 where not wanted.
    pub logprobs: Vec<f32>,
    /// Per token (the distribution the token was drawn from), empty unless asked for.
    pub entropy: Vec<f32>,
    /// Per token: the value head on the hidden state AT that token; empty unless asked for.
    pub values: Vec<f32>,
    /// `[tokens, hidden]` after the final norm; empty unless asked for.
    pub hidden: Vec<f32>,
}

/// Derivatives of the loss by what `forward` returned; each slice has one entry per token.
pub struct Derivatives<'a> {
    pub logprobs: &'a [f32],
    pub entropy: Option<&'a [f32]>,
    pub values: Option<&'a [f32]>,
    /// False: the value loss trains the value head only.
    pub value_into_trunk: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct StepOptions {
    pub learning_rate: f32,
    pub value_learning_rate: Option<f32>,
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub weight_decay: f32,
    pub clip_norm: Option<f32>,
    pub scope: Scope,
}

#[derive(Debug, Clone, Copy)]
pub struct StepReport {
    /// Before clipping.
    pub grad_norm: f64,
    /// False when a gradient was not finite: nothing was changed, gradients were cleared.
    pub applied: bool,
}

pub struct Model {
    config: Config,
}

#[allow(unused_variables)]
impl Model {
    /// Parameters are zero until set (norm weights one).
    pub fn new(config: Config, threads: usize) -> Result<Model, EngineError> {
        config.check()?;
        Ok(Model { config })
    }
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// `avx512`, `avx2`, `neon` or `scalar`.
    pub fn simd_name(&self) -> &'static str {
        unimplemented!()
    }
    pub fn set_threads(&mut self, threads: usize) {
        unimplemented!()
    }
    pub fn tensors(&self) -> Vec<TensorSpec> {
        unimplemented!()
    }
    /// Row-major `[rows, cols]`.
    pub fn set_tensor(&mut self, name: &str, data: &[f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn read_tensor(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn read_gradient(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
    /// AdamW's first and second moments, row-major like the tensor; zeros before the first step.
    pub fn read_moments(&self, name: &str, m: &mut [f32], v: &mut [f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn write_moments(&mut self, name: &str, m: &[f32], v: &[f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
    /// Optimiser steps applied so far: `(policy, value head)`; needed for bias correction after a restore.
    pub fn step_counts(&self) -> (u64, u64) {
        unimplemented!()
    }
    pub fn set_step_counts(&mut self, policy: u64, value: u64) {
        unimplemented!()
    }
    pub fn set_trainable(&mut self, mode: Trainable) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn add_lora(&mut self, rank: usize, alpha: f32, dropout: f32, targets: &[&str], seed: u64) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn add_value_head(&mut self, seed: u64) -> Result<(), EngineError> {
        unimplemented!()
    }
    /// Bytes held by parameters, gradients, moments and scratch.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }
    /// Room for `capacity` tokens.
    pub fn new_segment(&self, capacity: usize) -> Result<Arc<KvSegment>, EngineError> {
        unimplemented!()
    }
    pub fn segment_bytes(&self, capacity: usize) -> usize {
        unimplemented!()
    }
    /// Runs every chunk one step. `logits` becomes `[chunks with want_logits, vocab]`: the row of each such chunk's last new token.
    pub fn infer(&mut self, chunks: &[Chunk<'_>], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        unimplemented!()
    }
    /// The same bits as `forward`'s log-prob of that token.
    pub fn log_softmax_at(&self, logits: &[f32], temperature: f32, token: u32) -> f32 {
        unimplemented!()
    }
    pub fn forward(&mut self, batch: &TreeBatch<'_>, want: Want) -> Result<Pass, EngineError> {
        unimplemented!()
    }
    /// Adds to the gradients. The pass must be the latest one made with `grad: true`.
    pub fn backward(&mut self, pass: Pass, d: &Derivatives<'_>) -> Result<(), EngineError> {
        unimplemented!()
    }
    pub fn step(&mut self, o: &StepOptions) -> Result<StepReport, EngineError> {
        unimplemented!()
    }
    pub fn zero_gradients(&mut self) {
        unimplemented!()
    }
    /// Trainable parameters (or their gradients) concatenated in the order of `tensors()`, row-major.
    pub fn read_flat(&self, what: Flat) -> Vec<f32> {
        unimplemented!()
    }
    pub fn add_flat(&mut self, delta: &[f32]) -> Result<(), EngineError> {
        unimplemented!()
    }
}
