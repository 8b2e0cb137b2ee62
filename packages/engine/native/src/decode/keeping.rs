//! Which sequences have their activations kept for training: those that ask for it, from their first token on, while there is room. What
//! is behind a token of which nothing is kept is of no use. Where room is short nothing is given up: what was kept of these weights is worth
//! as much to the training as what would take its place, and it has been copied already.

use super::cache::{Found, PrefixCache};
use super::request::Request;
use super::scheduler::Scheduler;
use crate::model::{KvSpan, Model};

/// What a request goes on from, and whether its activations are kept. What others computed without keeping it is computed again
/// where there is room to keep it: training would have to.
pub fn begin(model: &Model, cache: &PrefixCache, request: &Request, version: u64, usable: &[u32]) -> (Found, bool) {
    let found = cache.find(&request.namespace, usable);
    if !request.keep || version != model.version() || !model.can_keep() {
        return (found, false);
    }
    let kept = cache.find_kept(&request.namespace, usable);
    let keeps = kept.len == found.len || model.has_room_to_keep(found.len - kept.len);
    (if keeps { kept } else { found }, keeps)
}

/// Steps without a reply that is to be kept, after which nobody trains for now. Taking the memory anew costs less than so many steps, so
/// evaluations between two updates may well be longer.
const REST: u64 = 2048;

impl Scheduler {
    /// Drops what was computed with weights that neither are the present ones nor have a request left. None: the present ones are
    /// about to change, so that nobody will ask for what was computed with them.
    pub fn sweep(&mut self, present: Option<u64>) {
        let held = self.versions();
        self.caches.retain(|version| Some(version) == present || held.contains(&version));
        // Of the others nothing is added any more.
        if self.swept != present {
            self.caches.forget_all_but(present);
            self.swept = present;
        }
    }

    /// Makes room for what a step will add: `(index into active, tokens)`.
    pub(super) fn keep_next(&mut self, model: &Model, work: &[(usize, usize)]) {
        for &(index, count) in work {
            let active = &mut self.active[index];
            active.keeps &= active.version() == model.version();
            active.keeps = active.keeps && model.keep_next(&active.segment, count);
        }
    }

    /// Who trained and now only samples holds no memory for training.
    pub(super) fn rest(&mut self, model: &Model) {
        self.unkept = if self.active.iter().any(|active| active.request.keep) { 0 } else { self.unkept + 1 };
        if self.unkept == REST {
            self.forget_activations();
            model.trim_activations();
        }
    }

    /// The segments that hold the beginning of a sequence, as far as the activations of these weights are kept.
    pub fn kept_path(&self, version: u64, tokens: &[u32]) -> Vec<KvSpan> {
        self.caches.kept_path(version, tokens)
    }

    /// Gives up all activations that are kept.
    pub fn forget_activations(&mut self) {
        self.active.iter_mut().for_each(|active| active.keeps = false);
        self.caches.forget_all_but(None);
    }
}
