//! One ragged step of inference: prefill and decode rows mixed, keys and values appended to their segments.

use std::sync::atomic::Ordering;

use super::kept::Kept;
use super::layer::{Net, layer_forward, norm_rows};
use super::params::{ADAPTERS, BASE};
use super::plan::{Keep, embed, lay_out};
use super::rows::Rows;
use super::split::Splits;
use super::{Chunk, Inferred, Logits, Model, Weights};
use crate::buffer::{Buffer, reserve};
use crate::error::EngineError;
use crate::kernel::activation::scale;
use crate::kernel::head::{HeadForward, head_rows};
use crate::simd::pad16;

impl Model {
    /// Runs every chunk one step with the present weights. `logits` becomes `[chunks that want them, vocab]`.
    pub fn infer(&mut self, chunks: &[Chunk<'_>], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        let mut out = Inferred::default();
        logits.clear();
        self.infer_on(&self.weights.clone(), chunks, &mut out)?;
        reserve(logits, out.logits.len() * self.config.vocab, "logits")?;
        out.logits.rows().for_each(|row| logits.extend_from_slice(row.logits));
        Ok(())
    }

    /// As `infer`, with a version of the weights that may not be the present one. A segment belongs to the version that filled it.
    pub fn infer_on(&mut self, weights: &Weights, chunks: &[Chunk<'_>], out: &mut Inferred) -> Result<(), EngineError> {
        self.run_chunks(weights, chunks, out, true)
    }

    /// `split`: with the copy of the weights that sampling keeps for the AMX unit.
    pub(super) fn run_chunks(
        &mut self,
        weights: &Weights,
        chunks: &[Chunk<'_>],
        out: &mut Inferred,
        split: bool,
    ) -> Result<(), EngineError> {
        weights.check_whole()?;
        let rows = Rows::of_chunks(&self.config, &self.shape, chunks)?;
        out.logits.begin(self.config.vocab, chunks.iter().filter_map(|chunk| chunk.want_logits).collect())?;
        out.hidden.clear();
        if rows.len() == 0 {
            return Ok(());
        }
        self.ropes.grow(rows.longest())?;
        let (hidden, hp) = (self.config.hidden, pad16(self.config.hidden));
        // The rows that somebody reads, and the places among them of those that logits come from and of those that are given.
        let (mut read, mut wanted, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (group, chunk) in rows.groups.iter().zip(chunks) {
            let end = group.row + group.rows;
            let from = if chunk.want_hidden { group.row } else { end - usize::from(chunk.want_logits.is_some()) };
            if chunk.want_hidden {
                given.extend(read.len()..read.len() + group.rows);
            }
            read.extend(from..end);
            if chunk.want_logits.is_some() {
                wanted.push(read.len() - 1);
            }
        }
        let kept = Kept::of_chunks(&self.config, &self.params, &rows, chunks);
        let keep = if kept.is_some() { Keep::Layer } else { Keep::Nothing };
        let plan = lay_out(&self.config, &self.params, &rows, keep, false, std::ptr::null_mut());
        let extra = (2 * read.len() + wanted.len()) * hp;
        self.scratch.reserve(plan.floats.saturating_add(extra), "activations")?;
        reserve(&mut out.hidden, given.len() * hidden, "hidden states")?;
        let plan = lay_out(&self.config, &self.params, &rows, keep, false, self.scratch.pointer());
        let split = if split { self.split(weights)? } else { None };
        let net = Net {
            config: &self.config,
            params: &self.params,
            weights,
            learning: &self.learning,
            split: split.as_ref(),
            ropes: &self.ropes,
            shape: self.shape,
            adapters: weights.has(ADAPTERS),
            train_base: false,
            train_adapters: false,
            dropout: None,
        };
        unsafe {
            embed(&self.exec, &net, &rows, plan.layers[0].x);
            // What is kept of a token is all of it.
            let whole = kept.iter().flat_map(|(kept, _)| kept.rows());
            let late = rows.late(&self.shape, read.iter().copied().chain(whole).collect());
            if let Some((kept, _)) = &kept {
                kept.save_first(&self.exec, plan.layers[0].x);
            }
            for (index, acts) in plan.layers.iter().enumerate() {
                let late = late.as_ref().filter(|_| index + 1 == plan.layers.len());
                layer_forward(&mut self.exec, &net, &rows, index, acts, late)?;
                if let Some((kept, _)) = &kept {
                    kept.save(&self.exec, &self.config, &self.params, index, acts, late);
                }
            }
            for chunk in chunks {
                chunk.segment.len.fetch_add(chunk.tokens.len(), Ordering::AcqRel);
            }
            for &index in kept.iter().flat_map(|(_, of)| of) {
                chunks[index].segment.saved(chunks[index].tokens.len());
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
            self.head(weights, split.as_ref(), from, &mut out.logits)?;
            if let Some((_, of)) = &kept {
                self.keep_logits(chunks, of, &out.logits);
            }
        }
        Ok(())
    }

    /// The logits of these hidden states, `[rows, hidden]` after the final norm: the same bits as those of a step.
    pub fn logits_of(&mut self, weights: &Weights, hidden: &[f32], temperature: f32, logits: &mut Logits) -> Result<(), EngineError> {
        let (width, hp) = (self.config.hidden, pad16(self.config.hidden));
        let rows = hidden.len() / width;
        logits.begin(self.config.vocab, vec![temperature; rows])?;
        self.scratch.reserve(rows * hp, "hidden states")?;
        let split = self.split(weights)?;
        let from = self.scratch.pointer();
        unsafe {
            std::ptr::write_bytes(from, 0, rows * hp);
            for (i, row) in hidden.chunks(width).enumerate() {
                std::ptr::copy_nonoverlapping(row.as_ptr(), from.add(i * hp), width);
            }
            self.head(weights, split.as_ref(), from, logits)
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

    /// `hidden`: padded rows, as many as there is room for. It may scale them.
    unsafe fn head(&mut self, weights: &Weights, split: Option<&Splits>, hidden: *mut f32, logits: &mut Logits) -> Result<(), EngineError> {
        if logits.is_empty() {
            return Ok(());
        }
        let (c, p) = (&self.config, &self.params);
        if c.logit_scale != 1.0 {
            unsafe { scale(self.exec.level, logits.len() * pad16(c.hidden), c.logit_scale, hidden) };
        }
        let f = HeadForward {
            hidden,
            hidden_row: pad16(c.hidden),
            rows: logits.len(),
            w: unsafe { weights.matrix(p.head, p.head_form) },
            split: split.map_or(std::ptr::null(), |split| split.at(BASE, p.head)),
            vocab: c.vocab,
            k: c.hidden,
            temperatures: logits.temperatures(),
            entropy: false,
            keep: logits.pointer(),
        };
        let parts = unsafe { head_rows(&mut self.exec, &f)? };
        logits.found(parts);
        Ok(())
    }
}
