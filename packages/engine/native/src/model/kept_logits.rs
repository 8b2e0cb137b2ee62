//! Rows of logits that tokens are drawn from, kept beside the activations of the token before: as the head made them, so that they serve
//! at any temperature. Without the activations they would be of no use.

use std::sync::Arc;

use super::arena::{Kind, Page};
use super::{Chunk, Logits, Model};
use crate::buffer::Shared;
use crate::kernel::parallel_rows;
use crate::simd::pad16;

impl Model {
    /// Of those chunks whose activations were kept, as far as there is room.
    pub(super) fn keep_logits(&self, chunks: &[Chunk<'_>], of: &[usize], logits: &Logits) {
        let floats = pad16(self.config.vocab);
        let mut rows: Vec<(usize, Arc<Page>)> = Vec::new();
        let wanting = chunks.iter().enumerate().filter(|(_, chunk)| chunk.want_logits.is_some());
        for (row, (index, chunk)) in wanting.enumerate() {
            let mut archive = chunk.segment.archive();
            if let (true, Some(archive)) = (of.contains(&index), archive.as_mut()) {
                let Some(page) = self.arena.page(Kind::Logits, floats) else {
                    break;
                };
                archive.logits.push((archive.rows - 1, page.clone()));
                rows.push((row, page));
            }
        }
        let from = Shared(logits.pointer());
        parallel_rows(&self.exec.pool, rows.len(), floats, |range, _| {
            for (row, page) in &rows[range] {
                unsafe { std::ptr::copy_nonoverlapping(from.at(row * floats), page.at(), floats) };
            }
        });
    }
}
