//! Where the logits of a pass's wanted tokens are: in rows that sampling kept, or made by the pass from their hidden states, all at
//! once or on the way back block by block of the vocabulary.

use super::{HEAD_BLOCK, KEEP_LOGITS};
use crate::buffer::Shared;
use crate::config::Config;
use crate::error::EngineError;
use crate::form::Matrix;
use crate::gemm::{self, Exec, Job};
use crate::kernel::head::{self, HeadForward, RowStats};
use crate::model::plan::Bump;
use crate::simd::pad16;

pub struct HeadRows {
    /// Of each wanted token the row that sampling kept, or null.
    kept: Vec<*mut f32>,
    /// The tokens of which it kept none, whose rows are made.
    made: Vec<usize>,
    /// Of these: `[made, hidden]`, and `[made, vocab]` or null.
    hidden: *mut f32,
    logits: *mut f32,
}

/// Some columns of all rows.
pub struct Block {
    /// Where their derivatives go, and the floats from one row to the next.
    pub at: *mut f32,
    pub row: usize,
    /// Where the logits are, if not there.
    pub from: Option<Vec<Shared<f32>>>,
}

impl HeadRows {
    pub fn new(kept: Vec<*mut f32>) -> HeadRows {
        let made = (0..kept.len()).filter(|&i| kept[i].is_null()).collect();
        HeadRows { kept, made, hidden: std::ptr::null_mut(), logits: std::ptr::null_mut() }
    }

    /// How many rows sampling kept.
    pub fn known(&self) -> usize {
        self.kept.len() - self.made.len()
    }

    /// `hidden`: of all of them. `keep`: from forward for backward, where they are not too many.
    pub fn place(&mut self, b: &mut Bump, c: &Config, hidden: *mut f32, keep: bool) {
        let floats = self.made.len() * pad16(c.vocab);
        self.hidden = if self.known() > 0 { b.take(self.made.len() * pad16(c.hidden)) } else { hidden };
        self.logits = b.take_if(keep && floats <= KEEP_LOGITS, floats);
    }

    /// Log-probs of the targets, and what `block` needs.
    ///
    /// # Safety
    /// `hidden` is what `place` was given, and filled; `w` the head.
    pub unsafe fn forward(
        &self,
        exec: &mut Exec,
        c: &Config,
        w: Matrix,
        hidden: *const f32,
        (temperature, entropy): (f32, bool),
        targets: &[u32],
    ) -> Result<(Vec<f32>, Vec<RowStats>), EngineError> {
        let hp = pad16(c.hidden);
        if self.known() > 0 {
            for (i, &row) in self.made.iter().enumerate() {
                unsafe { std::ptr::copy_nonoverlapping(hidden.add(row * hp), self.hidden.add(i * hp), hp) };
            }
        }
        let targets_of = |rows: &[usize]| rows.iter().map(|&row| targets[row]).collect::<Vec<u32>>();
        let f = HeadForward {
            hidden: self.hidden,
            hidden_row: hp,
            rows: self.made.len(),
            w,
            split: std::ptr::null(),
            vocab: c.vocab,
            k: c.hidden,
            temperatures: &vec![temperature; self.made.len()],
            entropy,
            keep: self.logits,
        };
        let made = unsafe { head::head_forward(exec, &f, &targets_of(&self.made))? };
        let there: Vec<usize> = (0..self.kept.len()).filter(|&i| !self.kept[i].is_null()).collect();
        let rows: Vec<Shared<f32>> = there.iter().map(|&i| Shared(self.kept[i])).collect();
        let known = unsafe { head::head_of(exec, &rows, c.vocab, temperature, entropy, &targets_of(&there)) };
        let (mut log_probs, mut stats) = (vec![0.0; self.kept.len()], vec![RowStats::default(); self.kept.len()]);
        for (rows, found) in [(&self.made, made), (&there, known)] {
            for (&row, (log_prob, row_stats)) in rows.iter().zip(found.0.into_iter().zip(found.1)) {
                (log_probs[row], stats[row]) = (log_prob, row_stats);
            }
        }
        Ok((log_probs, stats))
    }

    /// For `block`.
    pub fn scratch(&self) -> usize {
        self.made_anew() + if self.known() > 0 { self.kept.len() * HEAD_BLOCK } else { 0 }
    }

    fn made_anew(&self) -> usize {
        if self.logits.is_null() { self.made.len() * HEAD_BLOCK } else { 0 }
    }

    /// The columns `first..first + width`. `w`: of the head, from there on.
    ///
    /// # Safety
    /// After `forward`; each block once.
    pub unsafe fn block(
        &self,
        exec: &mut Exec,
        c: &Config,
        w: Matrix,
        (first, width): (usize, usize),
        scratch: *mut f32,
    ) -> Result<Block, EngineError> {
        let (made, row) = if self.logits.is_null() {
            if !self.made.is_empty() {
                let job = Job::of(w, width, scratch, HEAD_BLOCK);
                unsafe { gemm::forward(exec, self.hidden, pad16(c.hidden), self.made.len(), c.hidden, &[job])? };
            }
            (scratch, HEAD_BLOCK)
        } else {
            (self.logits.wrapping_add(first), pad16(c.vocab))
        };
        if self.known() == 0 {
            return Ok(Block { at: made, row, from: None });
        }
        let mut from: Vec<Shared<f32>> = self.kept.iter().map(|kept| Shared(kept.wrapping_add(first))).collect();
        for (i, &of) in self.made.iter().enumerate() {
            from[of] = Shared(made.wrapping_add(i * row));
        }
        Ok(Block { at: scratch.wrapping_add(self.made_anew()), row: HEAD_BLOCK, from: Some(from) })
    }
}
