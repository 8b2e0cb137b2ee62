//! What has been computed, as a forest of runs of tokens with their keys and values. A run attaches to its parent after any of
//! the parent's tokens, so a prefix is found and shared at any length without copying. Who asks finds only what was computed for
//! its own namespace: how soon a reply begins would tell what others have asked. Least recently used leaves go first, whose ever.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::model::{KvSegment, KvSpan};

pub type NodeId = usize;

/// Those who share what is computed for them. None: nobody, so that it is computed in full and kept for no one.
pub type Namespace = Option<Arc<str>>;

struct Node {
    namespace: Namespace,
    parent: Option<NodeId>,
    /// How many of the parent's tokens come before this run.
    attach: usize,
    children: Vec<NodeId>,
    /// The tokens whose keys and values the segment holds.
    tokens: Vec<u32>,
    segment: Arc<KvSegment>,
    /// Not to be dropped while above 0: the run is being appended to, or is about to get a child.
    holds: usize,
    last_use: u64,
}

#[derive(Default)]
pub struct PrefixCache {
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    roots: HashMap<Namespace, Vec<NodeId>>,
    bytes: usize,
    clock: u64,
}

/// The longest cached prefix: its length, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub len: usize,
    pub end: Option<(NodeId, usize)>,
}

impl PrefixCache {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id].as_ref().expect("ids are only of nodes that exist")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id].as_mut().expect("ids are only of nodes that exist")
    }

    pub fn find(&self, namespace: &Namespace, tokens: &[u32]) -> Found {
        let roots = if namespace.is_some() { self.roots.get(namespace) } else { None };
        self.longest(roots.into_iter().flatten(), tokens, |node| node.tokens.len())
    }

    /// As `find`, as far as activations are kept.
    pub fn find_kept(&self, namespace: &Namespace, tokens: &[u32]) -> Found {
        let roots = if namespace.is_some() { self.roots.get(namespace) } else { None };
        self.longest(roots.into_iter().flatten(), tokens, |node| node.segment.kept())
    }

    /// The segments that hold the longest prefix whose activations are kept, whose ever it is: training tells nobody what it finds.
    pub fn kept_path(&self, tokens: &[u32]) -> Vec<KvSpan> {
        let found = self.longest(self.roots.values().flatten(), tokens, |node| node.segment.kept());
        self.spans(found)
    }

    /// `usable`: how many tokens of a run count.
    fn longest<'a>(&self, roots: impl Iterator<Item = &'a NodeId>, tokens: &[u32], usable: impl Fn(&Node) -> usize) -> Found {
        let mut best = Found { len: 0, end: None };
        let mut open: Vec<(NodeId, usize)> = roots.map(|&root| (root, 0)).collect();
        while let Some((id, base)) = open.pop() {
            let node = self.node(id);
            let matched = common(&node.tokens[..usable(node).min(node.tokens.len())], &tokens[base..]);
            if base + matched > best.len {
                best = Found { len: base + matched, end: Some((id, matched)) };
            }
            for &child in &node.children {
                let attach = self.node(child).attach;
                if attach <= matched {
                    open.push((child, base + attach));
                }
            }
        }
        best
    }

    /// The segments that hold a found prefix, root first; marks them as used.
    pub fn path(&mut self, found: Found) -> Vec<KvSpan> {
        self.clock += 1;
        let clock = self.clock;
        let mut at = found.end;
        while let Some((id, _)) = at {
            let node = self.node_mut(id);
            node.last_use = clock;
            at = node.parent.map(|parent| (parent, node.attach));
        }
        self.spans(found)
    }

    fn spans(&self, found: Found) -> Vec<KvSpan> {
        let mut spans = Vec::new();
        let mut at = found.end;
        while let Some((id, used)) = at {
            let node = self.node(id);
            if used > 0 {
                spans.push(KvSpan { segment: node.segment.clone(), used });
            }
            at = node.parent.map(|parent| (parent, node.attach));
        }
        spans.reverse();
        spans
    }

    /// A new, live, empty run behind a found prefix.
    pub fn insert(&mut self, namespace: &Namespace, after: Option<(NodeId, usize)>, segment: Arc<KvSegment>) -> NodeId {
        self.clock += 1;
        self.bytes += segment.bytes();
        let node = Node {
            namespace: namespace.clone(),
            parent: after.map(|(parent, _)| parent),
            attach: after.map_or(0, |(_, attach)| attach),
            children: Vec::new(),
            tokens: Vec::new(),
            segment,
            holds: 1,
            last_use: self.clock,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        };
        match after {
            Some((parent, _)) => self.node_mut(parent).children.push(id),
            None => self.roots.entry(namespace.clone()).or_default().push(id),
        }
        id
    }

    /// Tokens whose keys and values were just appended to the run's segment.
    pub fn append(&mut self, id: NodeId, tokens: &[u32]) {
        self.node_mut(id).tokens.extend_from_slice(tokens);
    }

    pub fn len(&self, id: NodeId) -> usize {
        self.node(id).tokens.len()
    }

    /// The run will not grow any more. It is dropped when it is empty, when nobody may find it, or when another run holds all it
    /// holds: many replies to one prompt each computed the prompt's last token.
    pub fn settle(&mut self, id: NodeId) {
        self.clock += 1;
        let clock = self.clock;
        let node = self.node_mut(id);
        node.holds -= 1;
        node.last_use = clock;
        let node = self.node(id);
        if node.holds > 0 || !node.children.is_empty() {
            return;
        }
        let covered = self
            .siblings(node)
            .iter()
            .map(|&other| (other, self.node(other)))
            // What is kept of it alone would be lost.
            .any(|(other, run)| {
                other != id
                    && run.attach == node.attach
                    && run.tokens.starts_with(&node.tokens)
                    && run.segment.kept() >= node.segment.kept()
            });
        if covered || node.tokens.is_empty() || node.namespace.is_none() {
            self.remove(id);
        }
    }

    /// With the run itself.
    fn siblings(&self, node: &Node) -> &[NodeId] {
        match node.parent {
            Some(parent) => &self.node(parent).children,
            None => self.roots.get(&node.namespace).map_or(&[], Vec::as_slice),
        }
    }

    pub fn hold(&mut self, end: Option<(NodeId, usize)>, on: bool) {
        if let Some((id, _)) = end {
            let holds = &mut self.node_mut(id).holds;
            *holds = if on { *holds + 1 } else { *holds - 1 };
        }
    }

    /// Drops the least recently used leaf that nobody holds. False when there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let oldest = (0..self.nodes.len())
            .filter(|&id| self.nodes[id].as_ref().is_some_and(|n| n.holds == 0 && n.children.is_empty()))
            .min_by_key(|&id| self.node(id).last_use);
        if let Some(id) = oldest {
            self.remove(id);
        }
        oldest.is_some()
    }

    /// Gives up all activations.
    pub fn forget_all(&self) {
        self.nodes.iter().flatten().for_each(|node| node.segment.forget_activations());
    }

    fn remove(&mut self, id: NodeId) {
        if let Some(node) = self.nodes[id].take() {
            self.bytes -= node.segment.bytes();
            self.free.push(id);
            let Some(parent) = node.parent else {
                if let Entry::Occupied(mut roots) = self.roots.entry(node.namespace) {
                    roots.get_mut().retain(|&root| root != id);
                    if roots.get().is_empty() {
                        roots.remove();
                    }
                }
                return;
            };
            let above = self.node_mut(parent);
            above.children.retain(|&sibling| sibling != id);
            // Nobody will ask for what a lone reply has behind it.
            if above.namespace.is_none() && above.holds == 0 && above.children.is_empty() {
                self.remove(parent);
            }
        }
    }
}

/// Length of the common start.
pub fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::testing::model;

    fn ours() -> Namespace {
        Some("".into())
    }

    fn add(cache: &mut PrefixCache, model: &Model, prefix: &[u32], tokens: &[u32]) -> NodeId {
        add_for(cache, model, &ours(), prefix, tokens)
    }

    fn add_for(cache: &mut PrefixCache, model: &Model, namespace: &Namespace, prefix: &[u32], tokens: &[u32]) -> NodeId {
        let found = cache.find(namespace, prefix);
        assert_eq!(found.len, prefix.len());
        let id = cache.insert(namespace, found.end, model.new_segment(16).unwrap());
        cache.append(id, tokens);
        cache.settle(id);
        id
    }

    #[test]
    fn finds_the_longest_prefix_at_any_offset() {
        let (model, mut cache) = (model(), PrefixCache::default());
        let root = add(&mut cache, &model, &[], &[1, 2, 3, 4, 5]);
        let branch = add(&mut cache, &model, &[1, 2, 3], &[9, 8]);
        let leaf = add(&mut cache, &model, &[1, 2, 3, 9], &[7]);
        let found = |tokens: &[u32]| cache.find(&ours(), tokens);
        assert_eq!(found(&[1, 2, 3, 4, 6]), Found { len: 4, end: Some((root, 4)) });
        assert_eq!(found(&[1, 2, 3, 9, 8, 1]), Found { len: 5, end: Some((branch, 2)) });
        assert_eq!(found(&[1, 2, 3, 9, 7]), Found { len: 5, end: Some((leaf, 1)) });
        assert_eq!(found(&[2]), Found { len: 0, end: None });
        assert_eq!(found(&[]), Found { len: 0, end: None });
        let used: Vec<usize> = cache.path(cache.find(&ours(), &[1, 2, 3, 9, 7])).iter().map(|span| span.used).collect();
        assert_eq!(used, [3, 1, 1]);
    }

    #[test]
    fn drops_the_oldest_leaves_first_and_never_what_is_held() {
        let (model, mut cache) = (model(), PrefixCache::default());
        add(&mut cache, &model, &[], &[1, 2, 3]);
        add(&mut cache, &model, &[1, 2, 3], &[4]);
        add(&mut cache, &model, &[], &[20, 21]);
        cache.path(cache.find(&ours(), &[1, 2, 3, 4]));
        assert!(cache.drop_oldest());
        assert_eq!((cache.find(&ours(), &[20, 21]).len, cache.find(&ours(), &[1, 2, 3, 4]).len), (0, 4));
        let end = cache.find(&ours(), &[1, 2, 3, 4]).end;
        cache.hold(end, true);
        assert!(!cache.drop_oldest());
        cache.hold(end, false);
        assert!(cache.drop_oldest() && cache.drop_oldest() && !cache.drop_oldest());
        assert_eq!((cache.bytes(), cache.find(&ours(), &[1, 2, 3]).len), (0, 0));
    }

    #[test]
    fn keeps_one_of_several_equal_runs() {
        let (model, mut cache) = (model(), PrefixCache::default());
        add(&mut cache, &model, &[], &[1, 2]);
        let bytes = cache.bytes();
        for _ in 0..3 {
            add(&mut cache, &model, &[1, 2], &[5]);
        }
        assert_eq!(cache.bytes(), 2 * bytes);
        assert_eq!(cache.find(&ours(), &[1, 2, 5]).len, 3);
    }

    #[test]
    fn a_namespace_finds_its_own_alone_and_the_oldest_leaf_goes_whose_ever_it_is() {
        let (model, mut cache) = (model(), PrefixCache::default());
        let theirs: Namespace = Some("theirs".into());
        add(&mut cache, &model, &[], &[1, 2, 3]);
        assert_eq!((cache.find(&ours(), &[1, 2]).len, cache.find(&theirs, &[1, 2]).len), (2, 0));
        // What another holds does not make it double.
        add_for(&mut cache, &model, &theirs, &[], &[1, 2, 3]);
        assert_eq!((cache.find(&ours(), &[1, 2, 3]).len, cache.find(&theirs, &[1, 2, 3]).len), (3, 3));
        cache.path(cache.find(&ours(), &[1, 2]));
        assert!(cache.drop_oldest());
        assert_eq!((cache.find(&ours(), &[1, 2, 3]).len, cache.find(&theirs, &[1, 2, 3]).len), (3, 0));
        assert!(cache.drop_oldest() && !cache.drop_oldest());
        assert_eq!((cache.bytes(), cache.roots.len()), (0, 0), "no name is left of those who left nothing");
    }

    #[test]
    fn what_is_nobodys_is_found_by_nobody_and_goes_with_its_last_run() {
        let (model, mut cache) = (model(), PrefixCache::default());
        let first = cache.insert(&None, None, model.new_segment(16).unwrap());
        cache.append(first, &[1, 2, 3]);
        assert_eq!((cache.find(&ours(), &[1, 2]).len, cache.find(&None, &[1, 2]).len), (0, 0));
        let second = cache.insert(&None, Some((first, 3)), model.new_segment(16).unwrap());
        cache.append(second, &[4]);
        cache.settle(first);
        assert!(cache.bytes() > 0);
        cache.settle(second);
        assert_eq!(cache.bytes(), 0);
    }
}
