//! Where derivatives enter the model: through the head, from log-probs and entropies, and through the value head.

use super::logits::Block;
use super::{HEAD_BLOCK, Saved};
use crate::error::EngineError;
use crate::gemm::{self, GradInput, GradWeight, Mode};
use crate::kernel::head;
use crate::model::params::{BASE, VALUE};
use crate::model::{Derivatives, Model, Trainable};
use crate::simd::{LANES, pad16};

impl Model {
    /// `d_hidden[wanted, hidden]` and the head's gradient, block by block of the vocabulary.
    pub(super) unsafe fn head_backward(
        &mut self,
        s: &Saved,
        d: &Derivatives<'_>,
        d_hidden: *mut f32,
        scratch: *mut f32,
    ) -> Result<(), EngineError> {
        let c = &self.config;
        let hp = pad16(c.hidden);
        let m = s.wanted.len();
        let g: Vec<f32> = s.wanted.iter().map(|&(row, _)| d.logprobs[row as usize]).collect();
        let h: Option<Vec<f32>> = d.entropy.map(|e| s.wanted.iter().map(|&(row, _)| e[row as usize]).collect());
        let head = self.params.head;
        let mut first = 0;
        while first < c.vocab && m > 0 {
            let width = HEAD_BLOCK.min(c.vocab - first);
            unsafe {
                let w = self.weights.matrix(head, self.params.head_form).from_panel(first / LANES, c.hidden);
                let Block { at, row, from } = s.head.block(&mut self.exec, c, w, (first, width), scratch)?;
                let given = (s.temperature, s.head_stats.as_slice(), s.targets.as_slice());
                head::head_slopes(&self.exec, (at, row), from.as_deref(), (first, width), given, &g, h.as_deref());
                let job = GradInput::of(w, width, at, row);
                let mode = if first == 0 { Mode::Set } else { Mode::Chain };
                gemm::grad_input(&mut self.exec, &[job], m, c.hidden, d_hidden, hp, mode)?;
                if self.trainable == Trainable::Full {
                    let dw = self.learning[BASE].gradient(head).add(first / LANES * LANES * c.hidden);
                    gemm::grad_weight(&mut self.exec, s.hidden, hp, m, c.hidden, &[GradWeight { dy: at, dy_row: row, n: width, dw }])?;
                }
            }
            first += width;
        }
        Ok(())
    }

    /// The value head's gradient, and its share of `d_normed` when it flows into the trunk.
    pub(super) unsafe fn value_backward(&mut self, s: &Saved, d: &Derivatives<'_>, d_normed: *mut f32) {
        let (Some(dv), Some((w, b))) = (d.values, self.params.value) else {
            return;
        };
        let hidden = self.config.hidden;
        let hp = pad16(hidden);
        unsafe {
            let weight = self.weights.at(VALUE, w);
            let (dw, db) = (self.learning[VALUE].gradient(w), self.learning[VALUE].gradient(b));
            for (t, &g) in dv.iter().enumerate().filter(|(_, g)| **g != 0.0) {
                *db += g;
                for i in 0..hidden {
                    *dw.add(i) += g * *s.normed.add(t * hp + i);
                    if d.value_into_trunk {
                        *d_normed.add(t * hp + i) += g * *weight.add(i);
                    }
                }
            }
        }
    }
}
