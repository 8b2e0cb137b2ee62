//! What is kept of sampling, so that a training pass need not compute it again: activations in pages of 16 tokens, every layer's buffers of
//! those tokens one after the other, and rows of logits.

use std::sync::{Arc, MutexGuard};

use super::arena::{Kind, Page};
use super::{KvSegment, Model};
use crate::simd::LANES;

/// Tokens of a page of activations.
pub const PAGE: usize = LANES;

/// What is kept of the tokens of a segment, from its first one on.
#[derive(Default)]
pub struct Archive {
    pub pages: Vec<Arc<Page>>,
    /// Row of the segment's first token among the pages.
    pub first: usize,
    pub rows: usize,
    /// The rows of logits that were made of its tokens and found room, each with its token; in the order of the tokens.
    pub logits: Vec<(usize, Arc<Page>)>,
}

impl Archive {
    pub fn room(&self) -> usize {
        PAGE * self.pages.len() - self.first
    }
}

impl KvSegment {
    pub(super) fn archive(&self) -> MutexGuard<'_, Option<Archive>> {
        self.archive.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many of its tokens have their activations kept.
    pub fn kept(&self) -> usize {
        self.archive().as_ref().map_or(0, |archive| archive.rows)
    }

    pub(super) fn saved(&self, tokens: usize) {
        if let Some(archive) = self.archive().as_mut() {
            archive.rows += tokens;
        }
    }

    /// Gives up what is kept of it.
    pub fn forget_activations(&self) {
        *self.archive() = None;
    }
}

impl Model {
    /// Bytes for activations of sampling and its logits; none at first.
    pub fn set_activation_bytes(&mut self, bytes: usize) {
        self.arena.set_limit(bytes);
    }

    /// Bytes reserved for them.
    pub fn activation_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Gives back what of that nobody uses.
    pub fn trim_activations(&self) {
        self.arena.trim();
    }

    /// Whether a training pass could go on from activations of sampling: with dropout it computes others.
    pub fn can_keep(&self) -> bool {
        self.arena.limit() > 0 && self.params.lora.is_none_or(|lora| lora.dropout == 0.0)
    }

    pub fn has_room_to_keep(&self, tokens: usize) -> bool {
        self.arena.room(Kind::Activations) >= 4 * self.page_floats() * tokens.div_ceil(PAGE)
    }

    /// Makes room to keep the activations of the next `tokens` of a segment. False where there is none, or where some before them were not
    /// kept or were given up: then the next ones are not, either.
    pub fn keep_next(&self, segment: &KvSegment, tokens: usize) -> bool {
        let mut archive = segment.archive();
        let archive = archive.get_or_insert_with(Archive::default);
        let needed = segment.len() + tokens;
        while archive.rows == segment.len() && archive.room() < needed {
            let Some(page) = self.arena.page(Kind::Activations, self.page_floats()) else {
                break;
            };
            archive.pages.push(page);
        }
        archive.rows == segment.len() && archive.room() >= needed
    }
}
