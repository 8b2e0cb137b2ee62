//! What a reply may be, byte by byte. An automaton says which bytes may follow; of every place in it that a reply comes to, the tokens
//! whose bytes it can take are found once and kept. Masks only choose: recorded log-probs are those of the whole distribution.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::vocabulary::{Kind, Vocabulary};
use crate::error::EngineError;

/// Words, as without a constraint: tokens that spell nothing, and control tokens too.
const FREE: u8 = 1;
/// The reply may end here.
const END: u8 = 2;
/// A control token may be drawn if its spelling fits.
const MARKER: u8 = 4;

/// Bytes of masks that are kept at most.
const KEPT_BYTES: usize = 64 << 20;

/// Ranges of bytes that lead from each state to another; state 0 is the beginning.
pub struct Automaton {
    /// The ranges of state i: `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    /// First and last byte of each, in order.
    ranges: Vec<u8>,
    targets: Vec<u32>,
    flags: Vec<u8>,
}

impl Automaton {
    pub fn new(starts: Vec<u32>, ranges: Vec<u8>, targets: Vec<u32>, flags: Vec<u8>) -> Result<Automaton, EngineError> {
        let states = flags.len();
        let fits = states > 0
            && starts.len() == states + 1
            && starts[0] == 0
            && starts.is_sorted()
            && starts[states] as usize == targets.len()
            && ranges.len() == 2 * targets.len()
            && targets.iter().all(|&to| (to as usize) < states);
        if fits { Ok(Automaton { starts, ranges, targets, flags }) } else { Err(EngineError::input("This is no automaton.")) }
    }

    fn step(&self, state: u32, byte: u8) -> Option<u32> {
        let (from, to) = (self.starts[state as usize] as usize, self.starts[state as usize + 1] as usize);
        let at = (from..to).find(|&at| byte <= self.ranges[2 * at + 1])?;
        (byte >= self.ranges[2 * at]).then(|| self.targets[at])
    }

    fn is(&self, state: u32, flag: u8) -> bool {
        self.flags[state as usize] & flag != 0
    }
}

/// The tokens that may be drawn in one state, the end of the reply apart.
pub struct Mask {
    bits: Vec<u64>,
    count: usize,
}

impl Mask {
    fn of(size: usize) -> Mask {
        Mask { bits: vec![0; size.div_ceil(64)], count: 0 }
    }

    fn add(&mut self, token: u32) {
        self.bits[token as usize / 64] |= 1 << (token % 64);
        self.count += 1;
    }

    fn has(&self, token: u32) -> bool {
        self.bits.get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }
}

pub struct Constraint {
    vocabulary: Arc<Vocabulary>,
    automaton: Automaton,
    masks: Mutex<HashMap<u32, Arc<Mask>>>,
}

impl Constraint {
    pub fn new(vocabulary: Arc<Vocabulary>, automaton: Automaton) -> Constraint {
        Constraint { vocabulary, automaton, masks: Mutex::default() }
    }

    /// How many tokens it knows.
    pub fn tokens(&self) -> usize {
        self.vocabulary.len()
    }

    /// Where a reply begins.
    pub const START: u32 = 0;

    /// What may be drawn in a state by a request that these tokens end. None: anything.
    pub fn allowed<'a>(&self, state: u32, stops: &'a [u32]) -> Option<Allowed<'a>> {
        let mask = self.mask(state);
        if mask.count == self.vocabulary.len() {
            return None;
        }
        // What ends the reply may also be what ends a call.
        let may_end = |&token: &u32| {
            let after = || mask.has(token) && self.spell(state, token).is_some_and(|to| self.automaton.is(to, END));
            self.automaton.is(state, END) || after()
        };
        let ends = stops.iter().copied().filter(may_end).collect();
        Some(Allowed { mask, stops, ends })
    }

    /// The state after a token that was allowed, or that ended the reply.
    pub fn after(&self, state: u32, token: u32) -> u32 {
        if self.vocabulary.kind(token) == Kind::Silent {
            return state;
        }
        self.spell(state, token).unwrap_or(state)
    }

    fn spell(&self, state: u32, token: u32) -> Option<u32> {
        self.vocabulary.of(token).iter().try_fold(state, |at, &byte| self.automaton.step(at, byte))
    }

    fn mask(&self, state: u32) -> Arc<Mask> {
        let lock = || self.masks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mask) = lock().get(&state) {
            return mask.clone();
        }
        let mask = Arc::new(self.build(state));
        let mut masks = lock();
        if (masks.len() + 1) * mask.bits.len() * 8 > KEPT_BYTES {
            masks.clear();
        }
        masks.insert(state, mask.clone());
        mask
    }

    fn build(&self, state: u32) -> Mask {
        let mut mask = Mask::of(self.vocabulary.len());
        self.vocabulary.walk(state, |at, byte| self.automaton.step(at, byte), |token| mask.add(token));
        let free = self.automaton.is(state, FREE);
        if free || self.automaton.is(state, MARKER) {
            let fits = |token: &&u32| self.spell(state, **token).is_some() && (free || !self.vocabulary.of(**token).is_empty());
            self.vocabulary.control().iter().filter(fits).for_each(|&token| mask.add(token));
        }
        if free {
            let silent = |token: &u32| match self.vocabulary.kind(*token) {
                Kind::Silent => true,
                Kind::Text => self.vocabulary.of(*token).is_empty(),
                Kind::Control => false,
            };
            (0..self.vocabulary.len() as u32).filter(silent).for_each(|token| mask.add(token));
        }
        mask
    }
}

/// What one request may draw next.
pub struct Allowed<'a> {
    mask: Arc<Mask>,
    stops: &'a [u32],
    /// Those that may be drawn.
    ends: Vec<u32>,
}

impl Allowed<'_> {
    /// How many tokens that do not end the reply.
    fn going_on(&self) -> usize {
        self.mask.count - self.stops.iter().filter(|&&token| self.mask.has(token)).count()
    }

    /// Whether only the end is left.
    pub fn only_ends(&self) -> bool {
        !self.ends.is_empty() && self.going_on() == 0
    }

    /// How many tokens, where those that end the reply are forbidden or not.
    pub fn count(&self, ends_forbidden: bool) -> usize {
        self.going_on() + if ends_forbidden { 0 } else { self.ends.len() }
    }

    /// Whether it takes less to go through those that may be drawn than through the others.
    pub fn is_few(&self, vocab: usize) -> bool {
        self.count(false) * 2 < vocab
    }

    /// Calls for every token of a row that may be drawn.
    pub fn each(&self, vocab: usize, mut each: impl FnMut(usize)) {
        for (at, &word) in self.mask.bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let token = at * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if token < vocab && !self.stops.contains(&(token as u32)) {
                    each(token);
                }
            }
        }
        self.ends.iter().map(|&token| token as usize).filter(|&token| token < vocab).for_each(each);
    }

    /// Calls for every token of a row that may not be drawn.
    pub fn others(&self, vocab: usize, mut each: impl FnMut(usize)) {
        for (at, &word) in self.mask.bits.iter().enumerate() {
            let mut gone = !word;
            while gone != 0 {
                let token = at * 64 + gone.trailing_zeros() as usize;
                gone &= gone - 1;
                if token < vocab && !self.stops.contains(&(token as u32)) {
                    each(token);
                }
            }
        }
        let gone = self.stops.iter().filter(|token| !self.ends.contains(token));
        gone.map(|&token| token as usize).filter(|&token| token < vocab).for_each(each);
    }
}

/// What a constraint did to one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Masked {
    /// It left one token.
    pub forced: bool,
    /// The probability of all that could not be drawn, in the recorded distribution.
    pub removed: f32,
}

pub fn stuck() -> EngineError {
    EngineError::new(
        "CONSTRAINT_STUCK",
        "No token of the vocabulary fits what the constraint allows next. Stop tokens may have taken away what it needs.",
    )
}
