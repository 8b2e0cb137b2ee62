//! One ragged step of inference: prefill and decode rows mixed, keys and values appended to their segments.

use std::sync::atomic::Ordering;

use super::layer::{Net, layer_forward, norm_rows};
use super::params::{ADAPTERS, BASE};
use super::plan::{Keep, embed, lay_out};
use super::rows::Rows;
use super::split::Splits;
use super::{Chunk, Inferred, Model, Weights};
use crate::buffer::{Buffer, reserve};
use crate::error::EngineError;
use crate::gemm::{self, Job};
use crate::simd::pad16;

impl Model {
    /// Runs every chunk one step with the present weights. `logits` becomes what `Inferred` says.
    pub fn infer(&mut self, chunks: &[Chunk<'_>], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        let mut out = Inferred { logits: std::mem::take(logits), hidden: Vec::new() };
        let done = self.infer_on(&self.weights.clone(), chunks, &mut out);
        *logits = out.logits;
        done
    }

    /// As `infer`, with a version of the weights that may not be the present one. A segment belongs to the version that filled it.
    pub fn infer_on(&mut self, weights: &Weights, chunks: &[Chunk<'_>], out: &mut Inferred) -> Result<(), EngineError> {
        weights.check_whole()?;
        let rows = Rows::of_chunks(&self.config, &self.shape, chunks)?;
        out.logits.clear();
        out.hidden.clear();
        if rows.len() == 0 {
            return Ok(());
        }
        self.rope.grow(rows.longest())?;
        let (hidden, hp, vp) = (self.config.hidden, pad16(self.config.hidden), pad16(self.config.vocab));
        // The rows that somebody reads, and the places among them of those that logits come from and of those that are given.
        let (mut read, mut wanted, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (group, chunk) in rows.groups.iter().zip(chunks) {
            let end = group.row + group.rows;
            let from = if chunk.want_hidden { group.row } else { end - usize::from(chunk.want_logits) };
            if chunk.want_hidden {
                given.extend(read.len()..read.len() + group.rows);
            }
            read.extend(from..end);
            if chunk.want_logits {
                wanted.push(read.len() - 1);
            }
        }
        let plan = lay_out(&self.config, &self.params, &rows, Keep::Nothing, false, std::ptr::null_mut());
        let extra = read.len() * 2 * hp + wanted.len() * (hp + vp);
        self.scratch.reserve(plan.floats.saturating_add(extra), "activations")?;
        reserve(&mut out.logits, wanted.len() * self.config.vocab, "logits")?;
        reserve(&mut out.hidden, given.len() * hidden, "hidden states")?;
        let plan = lay_out(&self.config, &self.params, &rows, Keep::Nothing, false, self.scratch.pointer());
        let split = self.split(weights)?;
        let net = Net {
            config: &self.config,
            params: &self.params,
            weights,
            learning: &self.learning,
            split: split.as_ref(),
            rope: &self.rope,
            shape: self.shape,
            adapters: weights.has(ADAPTERS),
            train_base: false,
            train_adapters: false,
            dropout: None,
        };
        unsafe {
            embed(&self.exec, &net, &rows, plan.layers[0].x);
            let late = rows.late(&self.shape, read.clone());
            for (index, acts) in plan.layers.iter().enumerate() {
                let late = late.as_ref().filter(|_| index + 1 == plan.layers.len());
                layer_forward(&mut self.exec, &net, &rows, index, acts, late)?;
            }
            for chunk in chunks {
                chunk.segment.len.fetch_add(chunk.tokens.len(), Ordering::AcqRel);
            }
            if read.is_empty() {
                return Ok(());
            }
            let last = self.scratch.pointer().add(plan.floats);
            let normed = last.add(read.len() * hp);
            for (i, &row) in read.iter().enumerate() {
                let row = late.as_ref().and_then(|l| l.index[row]).unwrap_or(row);
                std::ptr::copy_nonoverlapping(plan.last.add(row * hp), last.add(i * hp), hp);
            }
            norm_rows(&self.exec, net.norm_row(net.params.final_norm), read.len(), last, normed, std::ptr::null_mut());
            for place in given {
                out.hidden.extend_from_slice(std::slice::from_raw_parts(normed.add(place * hp), hidden));
            }
            let from = normed.add(read.len() * hp);
            for (i, place) in wanted.iter().enumerate() {
                std::ptr::copy_nonoverlapping(normed.add(place * hp), from.add(i * hp), hp);
            }
            self.head(weights, split.as_ref(), from, wanted.len(), &mut out.logits)
        }
    }

    /// The logits of these hidden states, `[rows, hidden]` after the final norm: the same bits as those of a step.
    pub fn logits_of(&mut self, weights: &Weights, hidden: &[f32], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        let (width, hp, vp) = (self.config.hidden, pad16(self.config.hidden), pad16(self.config.vocab));
        let rows = hidden.len() / width;
        logits.clear();
        self.scratch.reserve(rows * (hp + vp), "logits")?;
        reserve(logits, rows * self.config.vocab, "logits")?;
        let split = self.split(weights)?;
        let from = self.scratch.pointer();
        unsafe {
            std::ptr::write_bytes(from, 0, rows * hp);
            for (i, row) in hidden.chunks(width).enumerate() {
                std::ptr::copy_nonoverlapping(row.as_ptr(), from.add(i * hp), width);
            }
            self.head(weights, split.as_ref(), from, rows, logits)
        }
    }

    /// Where the AMX unit is used: the weights as it takes them.
    fn split(&mut self, weights: &Weights) -> Result<Option<Splits>, EngineError> {
        if !self.exec.amx() {
            return Ok(None);
        }
        let (exec, params, spare) = (&self.exec, &self.params, &mut self.spare);
        let base = weights.split(exec, params, BASE, || spare.pop().unwrap_or(Buffer::empty()))?;
        Ok(Some(Splits { base, adapters: weights.split(exec, params, ADAPTERS, Buffer::empty)? }))
    }

    /// Adds the logits of `rows` padded rows; behind them there is room for the product.
    unsafe fn head(
        &mut self,
        weights: &Weights,
        split: Option<&Splits>,
        from: *mut f32,
        rows: usize,
        logits: &mut Vec<f32>,
    ) -> Result<(), EngineError> {
        if rows == 0 {
            return Ok(());
        }
        let (c, p) = (&self.config, &self.params);
        let (hp, vp) = (pad16(c.hidden), pad16(c.vocab));
        unsafe {
            let out = from.add(rows * hp);
            let job = Job {
                split: split.map_or(std::ptr::null(), |split| split.at(BASE, p.head)),
                ..Job::of(weights.matrix(p.head, p.head_form), c.vocab, out, vp)
            };
            gemm::forward(&mut self.exec, from, hp, rows, c.hidden, &[job])?;
            for i in 0..rows {
                logits.extend_from_slice(std::slice::from_raw_parts(out.add(i * vp), c.vocab));
            }
        }
        Ok(())
    }
}
