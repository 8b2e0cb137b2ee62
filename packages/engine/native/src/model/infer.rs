//! One ragged step of inference: prefill and decode rows mixed, keys and values appended to their segments.

use std::sync::atomic::Ordering;

use super::layer::{Net, layer_forward, norm_rows};
use super::params::ADAPTERS;
use super::plan::{Keep, embed, lay_out};
use super::rows::Rows;
use super::{Chunk, Model, Weights};
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::gemm::{self, Job};
use crate::simd::pad16;

impl Model {
    /// Runs every chunk one step. `logits` becomes `[chunks with want_logits, vocab]`: the row of each such chunk's last new token.
    pub fn infer(&mut self, chunks: &[Chunk<'_>], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        self.infer_on(&self.weights.clone(), chunks, logits)
    }

    /// As `infer`, with a version of the weights that may not be the present one. A segment belongs to the version that filled it.
    pub fn infer_on(&mut self, weights: &Weights, chunks: &[Chunk<'_>], logits: &mut Vec<f32>) -> Result<(), EngineError> {
        weights.check_whole()?;
        let rows = Rows::of_chunks(&self.config, &self.shape, chunks)?;
        logits.clear();
        if rows.len() == 0 {
            return Ok(());
        }
        self.rope.grow(rows.longest())?;
        let (hp, vp) = (pad16(self.config.hidden), pad16(self.config.vocab));
        let wanted: Vec<usize> = rows.groups.iter().zip(chunks).filter(|(_, c)| c.want_logits).map(|(g, _)| g.row + g.rows - 1).collect();
        let plan = lay_out(&self.config, &self.params, &rows, Keep::Nothing, false, std::ptr::null_mut());
        let extra = wanted.len() * (2 * hp + vp);
        self.scratch.reserve(plan.floats.saturating_add(extra), "activations")?;
        logits
            .try_reserve(wanted.len() * self.config.vocab)
            .map_err(|_| EngineError::memory("logits", wanted.len() * self.config.vocab * 4))?;
        let plan = lay_out(&self.config, &self.params, &rows, Keep::Nothing, false, self.scratch.pointer());
        let split = match self.exec.amx() {
            true => Some(weights.split(&self.exec, &self.params, || self.spare.pop().unwrap_or(Buffer::empty()))?),
            false => None,
        };
        let net = Net {
            config: &self.config,
            params: &self.params,
            weights,
            learning: &self.learning,
            split: split.as_deref(),
            rope: &self.rope,
            shape: self.shape,
            adapters: weights.has(ADAPTERS),
            train_base: false,
            train_adapters: false,
            dropout: None,
        };
        unsafe {
            embed(&self.exec, &net, &rows, plan.layers[0].x);
            let late = rows.late(&self.shape, wanted.clone());
            for (index, acts) in plan.layers.iter().enumerate() {
                let late = late.as_ref().filter(|_| index + 1 == plan.layers.len());
                layer_forward(&mut self.exec, &net, &rows, index, acts, late)?;
            }
            for chunk in chunks {
                chunk.segment.len.fetch_add(chunk.tokens.len(), Ordering::AcqRel);
            }
            if wanted.is_empty() {
                return Ok(());
            }
            let last = self.scratch.pointer().add(plan.floats);
            let normed = last.add(wanted.len() * hp);
            let out = normed.add(wanted.len() * hp);
            for (i, &row) in wanted.iter().enumerate() {
                let row = late.as_ref().and_then(|l| l.index[row]).unwrap_or(row);
                std::ptr::copy_nonoverlapping(plan.last.add(row * hp), last.add(i * hp), hp);
            }
            norm_rows(&self.exec, net.norm_row(net.params.final_norm), wanted.len(), last, normed, std::ptr::null_mut());
            let job = Job {
                split: net.split_at(net.params.head),
                ..Job::of(net.matrix(net.params.head, net.params.head_form), self.config.vocab, out, vp)
            };
            gemm::forward(&mut self.exec, normed, hp, wanted.len(), self.config.hidden, &[job])?;
            for i in 0..wanted.len() {
                logits.extend_from_slice(std::slice::from_raw_parts(out.add(i * vp), self.config.vocab));
            }
        }
        Ok(())
    }
}
