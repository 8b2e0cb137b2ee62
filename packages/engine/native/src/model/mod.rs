//! The model: parameters, inference, training. The public surface of the compute core.

mod archive;
mod arena;
mod branch;
mod digest;
mod infer;
mod kept;
mod kept_logits;
mod layer;
mod layer_backward;
mod linear;
mod logits;
mod moments;
mod optimiser;
mod params;
mod plan;
mod recall;
mod rows;
mod split;
mod staged;
mod tensors;
mod train;
mod weights;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::buffer::Buffer;
use crate::config::{Config, Precision};
use crate::error::EngineError;
use crate::gemm::Exec;
use crate::kernel::attention::{Shape, Span};
use crate::kernel::head::{self, RowLogProbs};
use crate::kernel::rope::Ropes;
use crate::simd::{Instructions, LANES, Level, pad16};
use archive::Archive;
use arena::Arena;
pub use logits::{Logits, Row};
use optimiser::Learning;
pub use optimiser::Training;
use params::Params;
pub use params::{Forms, Values};
pub use recall::Reuse;
pub use staged::{Purpose, Staged};
pub use weights::Weights;

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
    data: Buffer,
    /// Activations of its tokens, for training passes.
    archive: Mutex<Option<Archive>>,
}

impl KvSegment {
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Memory held, for the cache's limit.
    pub fn bytes(&self) -> usize {
        self.data.len() * 4
    }
    fn span(&self, shape: &Shape, start: usize, len: usize) -> Span {
        let capacity = pad16(self.capacity);
        Span { base: self.data.pointer(), layer_stride: shape.layer_floats(capacity), capacity, start, len }
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
    /// The temperature that log-probs of its last token's row of logits will be asked for. None: only fill the cache, no such row (all
    /// chunks but the last of a long prompt).
    pub want_logits: Option<f32>,
    /// The hidden state of each of its tokens is wanted, too.
    pub want_hidden: bool,
}

/// What a step gave, in the order of the chunks that wanted it.
#[derive(Default)]
pub struct Inferred {
    /// The row of the last new token of each chunk with `want_logits`.
    pub logits: Logits,
    /// `[tokens of chunks with want_hidden, hidden]`, after the final norm.
    pub hidden: Vec<f32>,
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
    /// What backward needs; none for a pass without gradients.
    saved: Option<Box<train::Saved>>,
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
    /// Rate of the adapters' B over that of A (LoRA+); 1 is plain LoRA.
    pub lora_plus_ratio: f32,
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

/// A decoder-only transformer with its parameters, scratch and threads.
pub struct Model {
    config: Config,
    shape: Shape,
    exec: Exec,
    params: Params,
    /// The present version.
    weights: Weights,
    /// How many versions there have been.
    versions: u64,
    learning: [Learning; 3],
    moment_precision: Precision,
    ropes: Ropes,
    trainable: Trainable,
    /// Optimiser steps of the policy and of the value head.
    steps: (u64, u64),
    /// Activations of passes nobody needs after they return.
    scratch: Buffer,
    /// Scratch of the backward pass.
    backward: Buffer,
    /// Memory of finished passes, for the next one.
    spare: Vec<Buffer>,
    /// Memory for activations of sampling and its logits.
    arena: Arena,
    reuse: Reuse,
}

impl Model {
    /// Parameters are zero until set (norm weights one).
    pub fn new(config: Config, threads: usize) -> Result<Model, EngineError> {
        Self::with_forms(config, threads, &Forms::new())
    }

    /// As `new`, with some matrices kept in other forms than f32. Such a model cannot be trained in full.
    pub fn with_forms(config: Config, threads: usize, forms: &Forms) -> Result<Model, EngineError> {
        let instructions = Instructions::choose()?;
        let mut model = Self::with_forms_on(config, threads, instructions.level, forms)?;
        model.exec.set_amx(instructions.amx);
        model.exec.set_pairs(instructions.pairs);
        Ok(model)
    }

    /// As `new`, on a given instruction set, gradients included.
    pub fn with_level(config: Config, threads: usize, level: Level) -> Result<Model, EngineError> {
        Self::with_forms_on(config, threads, level, &Forms::new())
    }

    pub fn with_forms_on(config: Config, threads: usize, level: Level, forms: &Forms) -> Result<Model, EngineError> {
        config.check()?;
        let shape = Shape {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: config.score_scale(),
            window: config.sliding_window.unwrap_or(usize::MAX),
        };
        let params = Params::new(&config, forms)?;
        let mut base = Buffer::zeroed(params.used[params::BASE], "the model's parameters")?;
        params.fill_base(config.norm, &mut base);
        let ropes = Ropes::new(&config);
        Ok(Model {
            config,
            shape,
            exec: Exec::new(level, threads),
            params,
            weights: Weights::new(base),
            versions: 0,
            learning: [Learning::none(), Learning::none(), Learning::none()],
            moment_precision: Precision::F32,
            ropes,
            trainable: Trainable::None,
            steps: (0, 0),
            scratch: Buffer::empty(),
            backward: Buffer::empty(),
            spare: Vec::new(),
            arena: Arena::default(),
            reuse: Reuse::default(),
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// `amx`, `avx512`, `avx2`, `neon` or `scalar`.
    pub fn simd_name(&self) -> &'static str {
        if self.exec.amx() { "amx" } else { self.exec.level.name() }
    }

    /// Whether gradient products of bf16 are faster here than those of f32.
    pub fn gains_by_bf16(&self) -> bool {
        self.exec.amx() || self.exec.pairs()
    }

    /// Whether those products take pairs at once, where the machine can.
    pub fn set_pairs(&mut self, on: bool) {
        self.exec.set_pairs(on);
    }

    /// Whether products run on the AMX unit, where there is one.
    pub fn set_amx(&mut self, on: bool) {
        self.exec.set_amx(on);
        self.changed();
    }

    pub fn threads(&self) -> usize {
        self.exec.pool.threads()
    }

    pub fn set_threads(&mut self, threads: usize) {
        self.exec.set_threads(threads);
    }

    /// Goes up whenever a parameter changes.
    pub fn version(&self) -> u64 {
        self.weights.version
    }

    /// The present weights; a clone of them stays what it is.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    fn changed(&mut self) {
        self.versions += 1;
        self.weights.version = self.versions;
    }

    /// Bytes held by the present parameters, gradients, moments and scratch.
    pub fn memory_bytes(&self) -> usize {
        let scratch = self.scratch.len() + self.backward.len() + self.spare.iter().map(|b| b.len()).sum::<usize>();
        let learning: usize = self.learning.iter().map(Learning::bytes).sum();
        self.weights.bytes_beside(&mut Vec::new()) + learning + self.exec.bytes() + 4 * scratch
    }

    /// Room for `capacity` tokens.
    pub fn new_segment(&self, capacity: usize) -> Result<Arc<KvSegment>, EngineError> {
        let floats = self.segment_bytes(capacity) / 4;
        let data = Buffer::zeroed(floats, "cached keys and values")?;
        Ok(Arc::new(KvSegment { capacity, len: AtomicUsize::new(0), data, archive: Mutex::new(None) }))
    }

    /// More than there can be, where it would not fit 64 bits.
    pub fn segment_bytes(&self, capacity: usize) -> usize {
        let per_position = self.shape.layer_floats(1) * self.config.layers * 4;
        capacity.checked_next_multiple_of(LANES).map_or(usize::MAX, |capacity| per_position.saturating_mul(capacity))
    }

    /// The model's threads, for work on what `infer` returned.
    pub fn pool(&self) -> &crate::pool::Pool {
        &self.exec.pool
    }

    /// The same bits as `forward`'s log-probs under this row.
    pub fn log_softmax(&self, logits: &[f32], temperature: f32) -> RowLogProbs {
        RowLogProbs::of(self.exec.level, logits, temperature)
    }

    /// The same bits as `forward`'s log-prob of that token.
    pub fn log_softmax_at(&self, logits: &[f32], temperature: f32, token: u32) -> f32 {
        head::log_softmax_at(self.exec.level, logits, temperature, token as usize)
    }
}
