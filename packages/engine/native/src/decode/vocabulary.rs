//! What tokens spell, for walking an automaton over all of them at once.

use crate::error::EngineError;

/// What a token may be where text is constrained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It spells nothing: padding of the vocabulary.
    Silent,
    Text,
    /// Structure that only a template or a policy makes.
    Control,
}

pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Of token i: `ends[i - 1]..ends[i]`.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    /// Tokens of text by what they spell, and how many bytes each shares with the one before it.
    order: Vec<(u32, u32)>,
    control: Vec<u32>,
}

impl Vocabulary {
    /// `kinds`: 0 silent, 1 text, 2 control; `ends`: where each token's bytes end in `bytes`.
    pub fn new(bytes: Vec<u8>, ends: Vec<u32>, kinds: &[u8]) -> Result<Vocabulary, EngineError> {
        let in_order = ends.is_sorted() && ends.last().is_none_or(|&last| last as usize == bytes.len());
        if kinds.len() != ends.len() || !in_order {
            return Err(EngineError::input("The bytes of the vocabulary's tokens do not fit together."));
        }
        let kinds: Vec<Kind> = kinds
            .iter()
            .map(|kind| match kind {
                1 => Kind::Text,
                2 => Kind::Control,
                _ => Kind::Silent,
            })
            .collect();
        let control = (0..kinds.len() as u32).filter(|&token| kinds[token as usize] == Kind::Control).collect();
        let mut vocabulary = Vocabulary { bytes, ends, kinds, order: Vec::new(), control };
        let spells = |token: &u32| vocabulary.kind(*token) == Kind::Text && !vocabulary.of(*token).is_empty();
        let mut sorted: Vec<u32> = (0..vocabulary.len() as u32).filter(spells).collect();
        sorted.sort_by(|&a, &b| vocabulary.of(a).cmp(vocabulary.of(b)));
        let shared = |at: usize| match at {
            0 => 0,
            _ => vocabulary.of(sorted[at - 1]).iter().zip(vocabulary.of(sorted[at])).take_while(|(a, b)| a == b).count(),
        };
        vocabulary.order = (0..sorted.len()).map(|at| (sorted[at], shared(at) as u32)).collect();
        Ok(vocabulary)
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub fn kind(&self, token: u32) -> Kind {
        self.kinds.get(token as usize).copied().unwrap_or(Kind::Silent)
    }

    pub fn of(&self, token: u32) -> &[u8] {
        let at = token as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    pub fn control(&self) -> &[u32] {
        &self.control
    }

    /// Calls `found` for every token of text whose bytes `step` can take one by one from `from`. What tokens share is walked once.
    pub fn walk<S: Copy>(&self, from: S, step: impl Fn(S, u8) -> Option<S>, mut found: impl FnMut(u32)) {
        // Places after each byte of the token before; a dead end is where the list is shorter than the token.
        let mut places: Vec<S> = vec![from];
        for &(token, shared) in &self.order {
            let shared = shared as usize;
            if shared >= places.len() {
                continue;
            }
            places.truncate(shared + 1);
            let bytes = self.of(token);
            let mut place = places[shared];
            let mut alive = true;
            for &byte in &bytes[shared..] {
                match step(place, byte) {
                    Some(next) => {
                        place = next;
                        places.push(next);
                    }
                    None => {
                        alive = false;
                        break;
                    }
                }
            }
            if alive {
                found(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn of(words: &[&str]) -> Vocabulary {
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for word in words {
            bytes.extend_from_slice(word.as_bytes());
            ends.push(bytes.len() as u32);
        }
        Vocabulary::new(bytes, ends, &vec![1; words.len()]).unwrap()
    }

    #[test]
    fn a_walk_finds_exactly_the_tokens_that_every_byte_can_be_taken_of() {
        let words = ["", "b", "a", "ab", "abc", "abd", "ac", "abcde", "x", "ab", "bc"];
        let vocabulary = of(&words);
        // The automaton takes any beginning of "abcd", from the place in it.
        let text = b"abcd";
        for from in 0..4 {
            let mut found = Vec::new();
            vocabulary.walk(from, |at: usize, byte| (text.get(at) == Some(&byte)).then_some(at + 1), |token| found.push(token));
            found.sort();
            let fits = |word: &str| !word.is_empty() && text[from..].starts_with(word.as_bytes());
            let want: Vec<u32> = (0..words.len() as u32).filter(|&token| fits(words[token as usize])).collect();
            assert_eq!(found, want, "from {from}");
        }
    }

    #[test]
    fn bytes_that_do_not_fit_the_tokens_are_refused() {
        assert!(Vocabulary::new(vec![1, 2], vec![1], &[1]).is_err());
        assert!(Vocabulary::new(vec![1, 2], vec![2, 1, 2], &[1, 1, 1]).is_err());
        assert!(Vocabulary::new(vec![1], vec![1], &[]).is_err());
    }
}
