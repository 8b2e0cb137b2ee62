//! Memory for what is kept of sampling: pages, in slabs that one arena hands out under one limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::buffer::{Buffer, available_memory};

/// Bytes of a slab: large enough that systems give huge pages for it and take it back whole. Less where the limit is a small one.
const SLAB: usize = 32 << 20;
/// Slabs that the limit is worth at least, so that no kind of page takes it all at once.
const SLABS: usize = 16;

/// What a page holds: 16 tokens' activations, or one row of logits. The pages of a kind have one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Activations,
    Logits,
}

/// Memory for pages, under a limit.
#[derive(Default)]
pub struct Arena {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Bytes of slabs at most.
    limit: usize,
    /// By kind.
    shelves: [Shelf; 2],
}

/// Slabs of one kind of page.
#[derive(Default)]
struct Shelf {
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

/// Goes back to the arena with its last holder.
pub struct Page {
    place: Option<Place>,
    /// None: it goes with its slab.
    home: Option<Home>,
}

struct Home {
    kind: Kind,
    floats: usize,
    state: Arc<Mutex<State>>,
}

impl Page {
    /// Of no arena.
    pub fn lone(slab: Arc<Buffer>, offset: usize) -> Arc<Page> {
        Arc::new(Page { place: Some(Place { slab, offset }), home: None })
    }

    pub fn at(&self) -> *mut f32 {
        self.place.as_ref().map_or(std::ptr::null_mut(), |place| place.slab.pointer().wrapping_add(place.offset))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let Some(Home { kind, floats, state }) = &self.home else {
            return;
        };
        let mut state = lock(state);
        let shelf = &mut state.shelves[*kind as usize];
        // Pages of another size than what is handed out now are gone with their slab.
        if let Some(place) = self.place.take().filter(|_| *floats == shelf.page_floats) {
            shelf.free.push(place);
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
        lock(&self.state).held()
    }

    /// Bytes that pages of this kind can still be made of.
    pub fn room(&self, kind: Kind) -> usize {
        let state = lock(&self.state);
        let shelf = &state.shelves[kind as usize];
        state.left() + 4 * shelf.page_floats * shelf.free.len()
    }

    /// Gives free slabs back to the system.
    pub fn trim(&self) {
        lock(&self.state).shelves.iter_mut().for_each(Shelf::trim);
    }

    /// None where there is no room.
    pub fn page(&self, kind: Kind, floats: usize) -> Option<Arc<Page>> {
        let mut state = lock(&self.state);
        let shelf = &mut state.shelves[kind as usize];
        if shelf.page_floats != floats {
            *shelf = Shelf { page_floats: floats, ..Shelf::default() };
        }
        if shelf.free.is_empty() && state.grow(kind).is_none() {
            // Slabs that the other kind has left over.
            state.shelves.iter_mut().for_each(Shelf::trim);
            state.grow(kind)?;
        }
        let place = state.shelves[kind as usize].free.pop();
        Some(Arc::new(Page { place, home: Some(Home { kind, floats, state: self.state.clone() }) }))
    }
}

impl State {
    fn held(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.held).sum()
    }

    fn left(&self) -> usize {
        self.limit.saturating_sub(self.held())
    }

    /// A slab more, where limit and machine have room for one page at least.
    fn grow(&mut self, kind: Kind) -> Option<()> {
        let (left, slab) = (self.left(), SLAB.min(self.limit / SLABS));
        let shelf = &mut self.shelves[kind as usize];
        let page = 4 * shelf.page_floats;
        let pages = (slab / page).max(1).min(left / page);
        // The pass that trains on them needs memory, too.
        if pages == 0 || available_memory().is_some_and(|free| (pages * page) as u64 > free / 4) {
            return None;
        }
        let slab = Arc::new(Buffer::unwritten(pages * shelf.page_floats, "activations of sampling").ok()?);
        shelf.held += pages * page;
        // The first pages go first.
        shelf.free.extend((0..pages).rev().map(|i| Place { slab: slab.clone(), offset: i * shelf.page_floats }));
        Some(())
    }
}

impl Shelf {
    /// Slabs of which every page is free go.
    fn trim(&mut self) {
        let mut free: HashMap<*mut f32, usize> = HashMap::new();
        for place in &self.free {
            *free.entry(place.slab.pointer()).or_default() += 1;
        }
        let floats = self.page_floats;
        let before = self.free.len();
        self.free.retain(|place| free[&place.slab.pointer()] < place.slab.len() / floats);
        self.held -= 4 * floats * (before - self.free.len());
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::{Activations, Logits};
    use super::*;

    const FLOATS: usize = 1 << 10;
    const BYTES: usize = 4 * FLOATS;
    /// Of slabs of four pages, and two pages more.
    const PAGES: usize = 4 * SLABS + 2;

    #[test]
    fn pages_come_back_and_slabs_go_whole() {
        let arena = Arena::default();
        assert!(arena.page(Activations, FLOATS).is_none(), "no limit was set");
        arena.set_limit(PAGES * BYTES);
        let mut pages: Vec<_> = (0..PAGES).map(|_| arena.page(Activations, FLOATS).unwrap()).collect();
        assert!(arena.page(Activations, FLOATS).is_none());
        assert_eq!(arena.bytes(), PAGES * BYTES, "slabs of four, and one of the two that still fit");
        let places: std::collections::BTreeSet<_> = pages.iter().map(|page| page.at() as usize).collect();
        assert_eq!(places.len(), PAGES);
        pages.pop();
        arena.trim();
        assert_eq!(arena.bytes(), PAGES * BYTES, "half of the last slab is in use");
        pages.pop();
        arena.trim();
        assert_eq!(arena.bytes(), 4 * SLABS * BYTES);
        assert!(arena.page(Activations, FLOATS).is_some(), "there is room again");
        drop(pages);
        arena.trim();
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    fn pages_of_another_size_begin_anew() {
        let arena = Arena::default();
        arena.set_limit(1 << 20);
        let old = arena.page(Activations, 1 << 10).unwrap();
        let new = arena.page(Activations, 1 << 11).unwrap();
        assert_ne!(old.at(), new.at());
        drop(old);
        let held = arena.bytes();
        drop(new);
        arena.trim();
        assert_eq!((held > 0, arena.bytes()), (true, 0));
    }

    #[test]
    fn both_kinds_share_the_limit_and_take_what_the_other_has_left_over() {
        let arena = Arena::default();
        arena.set_limit(4 * SLABS * BYTES);
        let row = arena.page(Logits, FLOATS / 4).unwrap();
        let pages: Vec<_> = std::iter::from_fn(|| arena.page(Activations, FLOATS)).collect();
        assert_eq!((pages.len(), arena.bytes()), (4 * (SLABS - 1), 4 * SLABS * BYTES), "a slab is of rows");
        let rows: Vec<_> = std::iter::from_fn(|| arena.page(Logits, FLOATS / 4)).collect();
        assert_eq!((1 + rows.len(), arena.room(Logits)), (16, 0));
        drop(rows);
        assert!(arena.page(Activations, FLOATS).is_none(), "of that slab a row is in use");
        assert_eq!(arena.room(Logits), 15 * BYTES / 4);
        drop(row);
        assert!(arena.page(Activations, FLOATS).is_some());
        assert_eq!(arena.bytes(), 4 * SLABS * BYTES);
    }
}
