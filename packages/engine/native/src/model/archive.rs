//! Activations of sampling, kept so that a training pass need not compute them again. They lie in pages of 16 tokens, every layer's
//! buffers of those tokens one after the other, and the pages in slabs that one arena hands out under one limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{KvSegment, Model};
use crate::buffer::{Buffer, available_memory};
use crate::simd::LANES;

/// Tokens of a page.
pub const PAGE: usize = LANES;
/// Bytes of a slab: large enough that systems give huge pages for it and take it back whole.
const SLAB: usize = 32 << 20;

/// Memory for pages, under a limit.
#[derive(Default)]
pub struct Arena {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Bytes of slabs at most.
    limit: usize,
    page_floats: usize,
    /// Bytes of all slabs.
    held: usize,
    free: Vec<Place>,
}

/// A place for a page in a slab.
struct Place {
    slab: Arc<Buffer>,
    offset: usize,
}

/// Memory of 16 tokens; goes back to the arena with its last holder.
pub struct Page {
    place: Option<Place>,
    floats: usize,
    state: Arc<Mutex<State>>,
}

impl Page {
    pub fn at(&self) -> *mut f32 {
        self.place.as_ref().map_or(std::ptr::null_mut(), |place| place.slab.pointer().wrapping_add(place.offset))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        // Pages of another size than what is handed out now are gone with their slab.
        if let Some(place) = self.place.take().filter(|_| self.floats == state.page_floats) {
            state.free.push(place);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Arena {
    pub fn set_limit(&self, bytes: usize) {
        lock(&self.state).limit = bytes;
    }

    pub fn limit(&self) -> usize {
        lock(&self.state).limit
    }

    /// Bytes that are reserved, in use or not.
    pub fn bytes(&self) -> usize {
        lock(&self.state).held
    }

    /// Bytes that pages can still be made of.
    fn room(&self) -> usize {
        let state = lock(&self.state);
        state.limit.saturating_sub(state.held) + 4 * state.page_floats * state.free.len()
    }

    /// Gives free slabs back to the system.
    pub fn trim(&self) {
        trim(&mut lock(&self.state));
    }

    /// None where there is no room.
    pub fn page(&self, floats: usize) -> Option<Arc<Page>> {
        let mut state = lock(&self.state);
        if state.page_floats != floats {
            state.free.clear();
            (state.page_floats, state.held) = (floats, 0);
        }
        if state.free.is_empty() {
            grow(&mut state)?;
        }
        let place = state.free.pop();
        Some(Arc::new(Page { place, floats, state: self.state.clone() }))
    }
}

/// A slab more, where limit and machine have room for one page at least.
fn grow(state: &mut State) -> Option<()> {
    let page = 4 * state.page_floats;
    let pages = (SLAB / page).max(1).min(state.limit.saturating_sub(state.held) / page);
    // The pass that trains on them needs memory, too.
    if pages == 0 || available_memory().is_some_and(|free| (pages * page) as u64 > free / 4) {
        return None;
    }
    let slab = Arc::new(Buffer::unwritten(pages * state.page_floats, "activations of sampling").ok()?);
    state.held += pages * page;
    // The first pages go first.
    state.free.extend((0..pages).rev().map(|i| Place { slab: slab.clone(), offset: i * state.page_floats }));
    Some(())
}

/// Slabs of which every page is free go.
fn trim(state: &mut State) {
    let mut free: HashMap<*mut f32, usize> = HashMap::new();
    for place in &state.free {
        *free.entry(place.slab.pointer()).or_default() += 1;
    }
    let floats = state.page_floats;
    let before = state.free.len();
    state.free.retain(|place| free[&place.slab.pointer()] < place.slab.len() / floats);
    state.held -= 4 * floats * (before - state.free.len());
}

/// What is kept of the tokens of a segment, from its first one on.
pub struct Archive {
    pub pages: Vec<Arc<Page>>,
    /// Row of the segment's first token among the pages.
    pub first: usize,
    pub rows: usize,
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
    /// Bytes for activations of sampling; none at first.
    pub fn set_activation_bytes(&mut self, bytes: usize) {
        self.arena.set_limit(bytes);
    }

    /// Bytes reserved for activations of sampling.
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
        self.arena.room() >= 4 * self.row_floats() * tokens.next_multiple_of(PAGE)
    }

    /// Makes room to keep the activations of the next `tokens` of a segment. False where there is none, or where some before them were not
    /// kept: then the next ones are not, either.
    pub fn keep_next(&self, segment: &KvSegment, tokens: usize) -> bool {
        let mut archive = segment.archive();
        let archive = archive.get_or_insert_with(|| Archive { pages: Vec::new(), first: 0, rows: 0 });
        let needed = segment.len() + tokens;
        while archive.rows == segment.len() && archive.room() < needed {
            let Some(page) = self.arena.page(PAGE * self.row_floats()) else {
                break;
            };
            archive.pages.push(page);
        }
        archive.rows == segment.len() && archive.room() >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_slabs_go_whole() {
        let arena = Arena::default();
        let floats = SLAB / 4 / 4;
        assert!(arena.page(floats).is_none(), "no limit was set");
        arena.set_limit(6 * 4 * floats);
        let mut pages: Vec<_> = (0..6).map(|_| arena.page(floats).unwrap()).collect();
        assert!(arena.page(floats).is_none());
        assert_eq!(arena.bytes(), 6 * 4 * floats, "a slab of four, and one of the two that still fit");
        let places: std::collections::BTreeSet<_> = pages.iter().map(|page| page.at() as usize).collect();
        assert_eq!(places.len(), 6);
        pages.pop();
        arena.trim();
        assert_eq!(arena.bytes(), 6 * 4 * floats, "half of the second slab is in use");
        pages.pop();
        arena.trim();
        assert_eq!(arena.bytes(), 4 * 4 * floats);
        assert!(arena.page(floats).is_some(), "there is room again");
        drop(pages);
        arena.trim();
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    fn pages_of_another_size_begin_anew() {
        let arena = Arena::default();
        arena.set_limit(1 << 20);
        let old = arena.page(1 << 10).unwrap();
        let new = arena.page(1 << 11).unwrap();
        assert_ne!(old.at(), new.at());
        drop(old);
        let held = arena.bytes();
        drop(new);
        arena.trim();
        assert_eq!((held > 0, arena.bytes()), (true, 0));
    }
}
