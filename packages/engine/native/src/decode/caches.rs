//! One prefix cache for each version of the weights: keys and values of one are wrong for another.

use super::cache::PrefixCache;

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

    /// Forgets the versions that nobody needs any more.
    pub fn retain(&mut self, needed: impl Fn(u64) -> bool) {
        self.list.retain(|&(version, _)| needed(version));
    }
}
