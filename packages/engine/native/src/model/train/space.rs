//! Scratch of the backward pass.

use super::{Model, Pass, Saved};
use crate::error::EngineError;
use crate::kernel::attention_backward::Turned;
use crate::model::linear::LoraSpace;
use crate::model::plan::Bump;
use crate::simd::pad16;

/// Where its buffers lie.
pub struct Space {
    pub stream: *mut f32,
    pub d_normed: *mut f32,
    pub d_hidden: *mut f32,
    pub d_attended: *mut f32,
    pub dq: *mut f32,
    pub dk: *mut f32,
    pub dv: *mut f32,
    pub d_active: *mut f32,
    pub lora: LoraSpace,
    /// Of each node's own span.
    pub spans: Vec<*mut f32>,
    pub logits: *mut f32,
}

impl Space {
    /// With a null base it only measures: the second number is the floats that it takes.
    pub fn lay_out(model: &Model, s: &Saved, base: *mut f32) -> (Space, usize) {
        let (c, t) = (&model.config, s.rows.len());
        let (hp, qp, kvp, ip) = (pad16(c.hidden), pad16(c.q_width()), pad16(c.kv_width()), pad16(c.inter));
        let rank = model.params.lora.map_or(0, |l| pad16(l.rank));
        let mut b = Bump { base, used: 0 };
        let space = Space {
            stream: b.take(t * hp),
            d_normed: b.take(t * hp),
            d_hidden: b.take(s.wanted.len() * hp),
            d_attended: b.take(t * qp),
            dq: b.take(t * qp),
            dk: b.take(t * kvp),
            dv: b.take(t * kvp),
            d_active: b.take(t * ip),
            lora: LoraSpace {
                low: [0; 7].map(|_: i32| b.take_if(rank > 0, t * rank)),
                dropped: b.take_if(s.dropout.is_some(), t * hp.max(qp).max(ip)),
            },
            spans: s.rows.own.iter().map(|span| b.take(Turned::floats(&model.shape, span.capacity))).collect(),
            logits: b.take(s.head.scratch()),
        };
        (space, b.used)
    }
}

impl Model {
    /// The memory that `backward` would take first of all. What does not fit is known before any gradient has changed.
    pub fn reserve_backward(&mut self, pass: &Pass) -> Result<(), EngineError> {
        pass.saved.as_ref().map_or(Ok(()), |saved| self.reserve_space(saved))
    }

    pub(super) fn reserve_space(&mut self, s: &Saved) -> Result<(), EngineError> {
        let floats = Space::lay_out(self, s, std::ptr::null_mut()).1;
        if self.backward.len() < floats {
            self.arena.trim();
        }
        self.backward.reserve(floats, "the backward pass")
    }
}
