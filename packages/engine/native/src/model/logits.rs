//! Rows of logits that tokens are drawn from, each with what the head found of its distribution when it made them.

use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::kernel::head::{self, Part, RowLogProbs};
use crate::simd::pad16;

pub struct Logits {
    /// `[rows][vocab padded to 16]`
    data: Buffer,
    parts: Vec<Part>,
    /// One a row.
    temperatures: Vec<f32>,
    vocab: usize,
}

/// One row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub logits: &'a [f32],
    parts: &'a [Part],
    temperature: f32,
}

impl Default for Logits {
    fn default() -> Self {
        Logits { data: Buffer::empty(), parts: Vec::new(), temperatures: Vec::new(), vocab: 0 }
    }
}

impl Logits {
    /// Room for a row of each temperature that its log-probs will be asked for.
    pub(super) fn begin(&mut self, vocab: usize, temperatures: Vec<f32>) -> Result<(), EngineError> {
        self.vocab = vocab;
        self.temperatures.clear();
        self.data.reserve(temperatures.len() * pad16(vocab), "logits")?;
        self.temperatures = temperatures;
        Ok(())
    }

    pub(super) fn pointer(&self) -> *mut f32 {
        self.data.pointer()
    }

    pub(super) fn temperatures(&self) -> &[f32] {
        &self.temperatures
    }

    pub(super) fn found(&mut self, parts: Vec<Part>) {
        self.parts = parts;
    }

    pub fn len(&self) -> usize {
        self.temperatures.len()
    }

    pub fn is_empty(&self) -> bool {
        self.temperatures.is_empty()
    }

    pub fn row(&self, row: usize) -> Row<'_> {
        let (from, chunks) = (row * pad16(self.vocab), self.parts.len() / self.len());
        Row {
            logits: &self.data[from..from + self.vocab],
            parts: &self.parts[row * chunks..(row + 1) * chunks],
            temperature: self.temperatures[row],
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|row| self.row(row))
    }
}

impl Row<'_> {
    /// At the row's temperature: the same bits as `Model::log_softmax`.
    pub fn distribution(&self) -> RowLogProbs {
        RowLogProbs::of_parts(self.parts, self.temperature)
    }

    /// The largest logit; NaN when one of them is.
    pub fn largest(&self) -> f32 {
        head::largest(self.parts)
    }
}
