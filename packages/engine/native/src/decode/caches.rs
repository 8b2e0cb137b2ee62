//! One prefix cache for each version of the weights: keys and values of one are wrong for another.

use super::cache::PrefixCache;
use crate::model::KvSpan;

#[derive(Default)]
pub struct Caches {
    /// Oldest version first.
    list: Vec<(u64, PrefixCache)>,
}

impl Caches {
    pub fn of(&mut self, version: u64) -> &mut PrefixCache {
        let at = match self.list.iter().position(|&(other, _)| other == version) {
            Some(at) => at,
            None => {
                self.list.push((version, PrefixCache::default()));
                self.list.len() - 1
            }
        };
        &mut self.list[at].1
    }

    pub fn bytes(&self) -> usize {
        self.list.iter().map(|(_, cache)| cache.bytes()).sum()
    }

    /// Drops the oldest leaves until `bytes` more fit under `limit`, those of old versions first. False when they cannot.
    pub fn make_room(&mut self, bytes: usize, limit: usize) -> bool {
        while self.bytes() + bytes > limit {
            if !self.list.iter_mut().any(|(_, cache)| cache.drop_oldest()) {
                return false;
            }
        }
        true
    }

    /// For a training pass: as the cache of that version.
    pub fn kept_path(&self, version: u64, tokens: &[u32]) -> Vec<KvSpan> {
        self.list.iter().find(|&&(other, _)| other == version).map_or(Vec::new(), |(_, cache)| cache.kept_path(tokens))
    }

    /// Gives up the activations of all versions but one, which alone can be trained from.
    pub fn forget_all_but(&self, version: Option<u64>) {
        self.list.iter().filter(|&&(other, _)| Some(other) != version).for_each(|(_, cache)| cache.forget_all());
    }

    /// Forgets the versions that nobody needs any more.
    pub fn retain(&mut self, needed: impl Fn(u64) -> bool) {
        self.list.retain(|&(version, _)| needed(version));
    }
}
