//! Forward over a token tree, backward from derivatives of what it returned.

mod heads;
mod logits;
mod space;

use super::layer::{Net, layer_forward, norm_rows};
use super::layer_backward::{Grads, layer_backward, norm_gradient};
use super::params::{ADAPTERS, BASE, VALUE};
use super::plan::{Bump, Keep, Plan, embed, lay_out};
use super::recall::{Prefixes, Recalled};
use super::rows::Rows;
use super::{Derivatives, Model, Pass, Trainable, TreeBatch, Want, Weights};
use crate::buffer::{Buffer, Shared, reserve};
use crate::error::EngineError;
use crate::kernel::activation::scale;
use crate::kernel::attention_backward::{Turned, row_dot};
use crate::kernel::embedding::{self, Table};
use crate::kernel::head::{self, RowStats};
use crate::simd::{LANES, pad16};
use logits::HeadRows;
use space::Space;

/// Logits that a pass makes, up to this many floats (256 MB), are kept from forward for backward, unless it is to compute again what it can:
/// that costs a third of the head's products.
const KEEP_LOGITS: usize = 64 << 20;
/// Vocabulary entries whose derivatives are worked on at a time.
const HEAD_BLOCK: usize = 4 * head::CHUNK;

/// Everything backward needs from a forward pass.
pub struct Saved {
    memory: Buffer,
    rows: Rows,
    plan: Plan,
    keep: Keep,
    /// What the layers' buffers are filled from, on the way back, where sampling had run them.
    recalled: Option<Recalled>,
    adapters: bool,
    dropout: Option<(u64, f32)>,
    temperature: f32,
    /// `[tokens, hidden]` after the final norm, its statistics.
    normed: *mut f32,
    stats: *mut f32,
    /// Wanted tokens: the token's row, the row its distribution comes from, its id.
    wanted: Vec<(u32, u32)>,
    targets: Vec<u32>,
    head_stats: Vec<RowStats>,
    /// `[wanted, hidden]`
    hidden: *mut f32,
    head: HeadRows,
    entropy: bool,
    values: bool,
    version: u64,
}
// The pointers go into `memory`, which moves along.
unsafe impl Send for Saved {}

impl Pass {
    /// What it holds until backward. What sampling kept is counted where it is kept.
    pub fn bytes(&self) -> usize {
        self.saved.as_ref().map_or(0, |saved| 4 * saved.memory.len() + saved.recalled.as_ref().map_or(0, |recalled| recalled.own_bytes))
    }
}

impl Model {
    pub fn forward(&mut self, batch: &TreeBatch<'_>, want: Want) -> Result<Pass, EngineError> {
        self.forward_on(&self.weights.clone(), batch, want)
    }

    /// As `forward`, with a version of the weights that may not be the present one: scores only, no gradients.
    pub fn forward_on(&mut self, weights: &Weights, batch: &TreeBatch<'_>, want: Want) -> Result<Pass, EngineError> {
        self.forward_from(weights, batch, want, &|_| Vec::new())
    }

    /// As `forward_on`; a pass with gradients goes on from what sampling kept. The same bits.
    pub fn forward_from(
        &mut self,
        weights: &Weights,
        batch: &TreeBatch<'_>,
        want: Want,
        prefixes: Prefixes<'_>,
    ) -> Result<Pass, EngineError> {
        weights.check_whole()?;
        let mut rows = Rows::of_tree(&self.config, &self.shape, batch)?;
        if want.grad && self.trainable == Trainable::None {
            return Err(EngineError::input("A pass with gradients needs something trainable: call set_trainable or add_lora first."));
        }
        if want.grad && weights.version != self.weights.version {
            return Err(EngineError::input("A pass with gradients is of the present weights, not of other ones."));
        }
        if want.values && !weights.has(VALUE) {
            return Err(EngineError::input("Values were asked for, but the model has no value head."));
        }
        self.ropes.grow(rows.longest())?;
        let (t, c) = (rows.len(), self.config.clone());
        let hp = pad16(c.hidden);
        let keep = if !want.grad {
            Keep::Nothing
        } else if want.recompute {
            Keep::Inputs
        } else {
            Keep::All
        };
        let dropout = match (want.dropout_seed, self.params.lora) {
            (Some(seed), Some(lora)) if want.grad && want.adapters && lora.dropout > 0.0 => Some((seed, lora.dropout)),
            _ => None,
        };
        let sampled = keep == Keep::All && dropout.is_none() && (want.adapters || !weights.has(ADAPTERS));
        let recalled = if sampled { self.recall(weights, &rows, batch, prefixes)? } else { None };
        let keep = if recalled.is_some() { Keep::Layer } else { keep };
        let wanted: Vec<(u32, u32)> =
            (0..t).filter(|&i| batch.wanted[i] != 0 && rows.previous[i] >= 0).map(|i| (i as u32, rows.previous[i] as u32)).collect();
        let targets: Vec<u32> = wanted.iter().map(|&(row, _)| rows.tokens[row as usize]).collect();
        let kept = |&(_, row): &(u32, u32)| recalled.as_ref().and_then(|recalled| recalled.logits(row as usize));
        let mut head = HeadRows::new(wanted.iter().map(|wanted| kept(wanted).unwrap_or(std::ptr::null_mut())).collect());
        let mut measure = |base: *mut f32| {
            let plan = lay_out(&c, &self.params, &rows, keep, dropout.is_some(), base);
            let mut b = Bump { base, used: plan.floats };
            let normed = b.take(t * hp);
            let stats = b.take(2 * t);
            let hidden = b.take(wanted.len() * hp);
            head.place(&mut b, &c, hidden, want.grad && !want.recompute);
            (plan, normed, stats, hidden, b.used)
        };
        let floats = measure(std::ptr::null_mut()).4;
        let mut memory =
            if want.grad { self.spare.pop().unwrap_or(Buffer::empty()) } else { std::mem::replace(&mut self.scratch, Buffer::empty()) };
        if memory.len() < floats {
            self.arena.trim();
        }
        memory.reserve(floats, "activations")?;
        let (plan, normed, stats, hidden, _) = measure(memory.pointer());
        unsafe { rows.place(&self.shape, plan.kv, plan.kv_stride) };

        let net = Net {
            config: &self.config,
            params: &self.params,
            weights,
            learning: &self.learning,
            split: None,
            ropes: &self.ropes,
            shape: self.shape,
            adapters: want.adapters && weights.has(ADAPTERS),
            train_base: false,
            train_adapters: false,
            dropout,
        };
        let mut pass = Pass { logprobs: vec![0.0; t], entropy: Vec::new(), values: Vec::new(), hidden: Vec::new(), saved: None };
        let head_stats;
        unsafe {
            let late = if want.grad || want.values || want.hidden {
                None
            } else {
                rows.late(&self.shape, wanted.iter().map(|&(_, row)| row as usize).collect())
            };
            if let Some(recalled) = &recalled {
                recalled.load_last(&self.exec, &plan);
            } else {
                embed(&self.exec, &net, &rows, plan.layers[0].x);
                for (index, acts) in plan.layers.iter().enumerate() {
                    let late = late.as_ref().filter(|_| index + 1 == plan.layers.len());
                    layer_forward(&mut self.exec, &net, &rows, index, acts, late)?;
                }
            }
            let left = late.as_ref().map_or(t, |l| l.rows.len());
            norm_rows(&self.exec, net.norm_row(net.params.final_norm), left, plan.last, normed, stats);
            for (i, &(_, row)) in wanted.iter().enumerate() {
                let row = late.as_ref().and_then(|l| l.index[row as usize]).unwrap_or(row as usize);
                std::ptr::copy_nonoverlapping(normed.add(row * hp), hidden.add(i * hp), hp);
            }
            if c.logit_scale != 1.0 {
                scale(self.exec.level, wanted.len() * hp, c.logit_scale, hidden);
            }
            let w = net.matrix(net.params.head, net.params.head_form);
            let (log_probs, row_stats) = head.forward(&mut self.exec, &c, w, hidden, (batch.temperature, want.entropy), &targets)?;
            for (&(row, _), lp) in wanted.iter().zip(log_probs) {
                pass.logprobs[row as usize] = lp;
            }
            if want.entropy {
                pass.entropy = vec![0.0; t];
                for (&(row, _), s) in wanted.iter().zip(&row_stats) {
                    pass.entropy[row as usize] = s.entropy;
                }
            }
            if let (true, Some((w, b))) = (want.values, net.params.value) {
                let (w, b) = (net.data(VALUE, w), *net.data(VALUE, b));
                pass.values = (0..t).map(|i| row_dot(self.exec.level, normed.add(i * hp), w, c.hidden) + b).collect();
            }
            if want.hidden {
                reserve(&mut pass.hidden, t * c.hidden, "hidden states")?;
                for i in 0..t {
                    pass.hidden.extend_from_slice(std::slice::from_raw_parts(normed.add(i * hp), c.hidden));
                }
            }
            head_stats = row_stats;
        }
        if want.grad {
            self.reuse.tokens += t as u64;
            self.reuse.reused += recalled.as_ref().map_or(0, |recalled| recalled.reused as u64);
            self.reuse.logits += head.known() as u64;
            pass.saved = Some(Box::new(Saved {
                memory,
                rows,
                plan,
                keep,
                recalled,
                adapters: want.adapters,
                dropout,
                temperature: batch.temperature,
                normed,
                stats,
                wanted,
                targets,
                head_stats,
                hidden,
                head,
                entropy: want.entropy,
                values: want.values,
                version: weights.version,
            }));
        } else {
            self.scratch = memory;
        }
        Ok(pass)
    }

    /// Adds to the gradients.
    pub fn backward(&mut self, mut pass: Pass, d: &Derivatives<'_>) -> Result<(), EngineError> {
        let Some(saved) = pass.saved.take() else {
            return Err(EngineError::input("This pass was made without gradients; ask for them in forward."));
        };
        if saved.version != self.weights.version {
            return Err(EngineError::input("The parameters changed since this pass; run forward again."));
        }
        if self.trainable == Trainable::None {
            return Err(EngineError::input("Nothing is trainable."));
        }
        let t = saved.rows.len();
        for (name, len) in
            [("logprobs", Some(d.logprobs.len())), ("entropy", d.entropy.map(|e| e.len())), ("values", d.values.map(|v| v.len()))]
        {
            if len.is_some_and(|n| n != t) {
                return Err(EngineError::input(format!("The derivatives of {name} have {} entries for {t} tokens.", len.unwrap_or(0))));
            }
        }
        if d.entropy.is_some() && !saved.entropy {
            return Err(EngineError::input("Derivatives of the entropy were given, but forward was not asked for the entropy."));
        }
        if d.values.is_some() && !saved.values {
            return Err(EngineError::input("Derivatives of the values were given, but forward was not asked for values."));
        }
        let result = self.run_backward(&saved, d);
        self.spare.push(saved.memory);
        result
    }

    fn run_backward(&mut self, s: &Saved, d: &Derivatives<'_>) -> Result<(), EngineError> {
        let c = self.config.clone();
        let (t, hp) = (s.rows.len(), pad16(c.hidden));
        self.reserve_space(s)?;
        let space = Space::lay_out(self, s, self.backward.pointer()).0;
        let Space { stream, d_normed, d_hidden, d_attended, dq, dk, dv, d_active, lora, spans, logits } = space;
        let turned: Vec<Turned> =
            s.rows.own.iter().zip(&spans).map(|(span, &base)| unsafe { Turned::at(&self.shape, span.capacity, base) }).collect();
        let g = Grads { stream, d_normed, d_attended, dq, dk, dv, d_active, lora, turned: &turned };

        unsafe {
            // d_normed: the derivative of the final norm's output, from the head and the values.
            std::ptr::write_bytes(g.d_normed, 0, t * hp);
            self.head_backward(s, d, d_hidden, logits)?;
            if c.logit_scale != 1.0 {
                scale(self.exec.level, s.wanted.len() * hp, c.logit_scale, d_hidden);
            }
            let at = Shared(g.d_normed);
            let from = Shared(d_hidden);
            let columns = hp.div_ceil(4 * self.exec.pool.threads()).next_multiple_of(LANES);
            let wanted = &s.wanted;
            self.exec.pool.run(hp.div_ceil(columns), |chunk, _| {
                for (i, &(_, row)) in wanted.iter().enumerate() {
                    for col in chunk * columns..((chunk + 1) * columns).min(hp) {
                        *at.at(row as usize * hp + col) += *from.at(i * hp + col);
                    }
                }
            });
            self.value_backward(s, d, g.d_normed);
            std::ptr::write_bytes(g.stream, 0, t * hp);
            let exec = &mut self.exec;
            let net = Net {
                config: &self.config,
                params: &self.params,
                weights: &self.weights,
                learning: &self.learning,
                split: None,
                ropes: &self.ropes,
                shape: self.shape,
                adapters: s.adapters,
                train_base: self.trainable == Trainable::Full,
                train_adapters: self.trainable == Trainable::Adapters && s.adapters,
                dropout: s.dropout,
            };
            norm_gradient(exec, &net, net.params.final_norm, t, s.plan.last, s.stats, g.d_normed, g.stream);
            for index in (0..c.layers).rev() {
                let acts = &s.plan.layers[index];
                if s.keep == Keep::Inputs {
                    // The last buffer of the stream is free for the recomputed output: nobody reads it again.
                    layer_forward(exec, &net, &s.rows, index, &acts.leaving_in(s.normed), None)?;
                }
                if let Some(recalled) = &s.recalled {
                    recalled.load(exec, &net, &s.rows, index, acts);
                }
                layer_backward(exec, &net, &s.rows, index, acts, &g, index > 0)?;
            }
            if net.train_base {
                let tokens = Table { at: net.grad(BASE, net.params.embed), h: c.hidden, panels: c.tied };
                if c.embedding_scale != 1.0 {
                    scale(exec.level, t * hp, c.embedding_scale, g.stream);
                }
                let ids = &s.rows.tokens;
                embedding::scatter(&exec.pool, tokens, |i| ids[i] as usize, t, g.stream, hp);
                if let Some(position) = net.params.position {
                    let table = Table { at: net.grad(BASE, position), h: c.hidden, panels: false };
                    let positions = &s.rows.positions;
                    embedding::scatter(&exec.pool, table, |i| positions[i] as usize, t, g.stream, hp);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "value_head_tests.rs"]
mod value_head_tests;
