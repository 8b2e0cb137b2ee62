//! What shapes the logits of a reply beside the model: repetition, presence and frequency penalties, added logits, forbidden tokens.

use std::collections::{HashMap, HashSet};

use super::constraint::Allowed;
use super::sampler::Sampling;

/// Which tokens may be drawn.
#[derive(Clone, Copy, Default)]
pub struct Left<'a> {
    /// Not these.
    pub forbidden: &'a [u32],
    /// Only these; none: all.
    pub allowed: Option<&'a Allowed<'a>>,
}

/// The tokens so far, as far as a penalty looks at them.
#[derive(Default)]
pub struct History {
    /// Distinct tokens of the prompt and the reply; kept up only when the repetition penalty is on.
    seen: Vec<u32>,
    seen_set: HashSet<u32>,
    /// How often each token is in the reply; kept up only when the presence or frequency penalty is on.
    said: HashMap<u32, u32>,
}

impl History {
    pub fn of_prompt(o: &Sampling, prompt: &[u32]) -> History {
        let mut history = History::default();
        if o.repetition_penalty != 1.0 {
            prompt.iter().for_each(|&token| history.see(token));
        }
        history
    }

    fn see(&mut self, token: u32) {
        if self.seen_set.insert(token) {
            self.seen.push(token);
        }
    }

    /// A token of the reply.
    pub fn note(&mut self, o: &Sampling, token: u32) {
        if o.repetition_penalty != 1.0 {
            self.see(token);
        }
        if o.presence_penalty != 0.0 || o.frequency_penalty != 0.0 {
            *self.said.entry(token).or_insert(0) += 1;
        }
    }

    /// The logits that are drawn from: the row itself when nothing shapes it, else in `out`.
    pub fn shape<'a>(&self, row: &'a [f32], o: &Sampling, left: Left<'_>, out: &'a mut Vec<f32>) -> &'a [f32] {
        let all = left.forbidden.is_empty() && left.allowed.is_none();
        if self.seen.is_empty() && self.said.is_empty() && o.bias.is_empty() && all {
            return row;
        }
        out.clear();
        let few = left.allowed.filter(|allowed| allowed.is_few(row.len()));
        match few {
            // What is nothing stays nothing, whatever shapes it.
            Some(allowed) => {
                out.resize(row.len(), f32::NEG_INFINITY);
                allowed.each(row.len(), |token| out[token] = row[token]);
            }
            None => out.extend_from_slice(row),
        }
        for &token in &self.seen {
            if let Some(l) = out.get_mut(token as usize) {
                *l = if *l < 0.0 { *l * o.repetition_penalty } else { *l / o.repetition_penalty };
            }
        }
        for (&token, &count) in &self.said {
            if let Some(l) = out.get_mut(token as usize) {
                *l -= count as f32 * o.frequency_penalty + o.presence_penalty;
            }
        }
        for &(token, added) in &o.bias {
            if let Some(l) = out.get_mut(token as usize) {
                *l += added;
            }
        }
        for &token in left.forbidden {
            if let Some(l) = out.get_mut(token as usize) {
                *l = f32::NEG_INFINITY;
            }
        }
        if let Some(allowed) = left.allowed.filter(|_| few.is_none()) {
            allowed.others(out.len(), |token| out[token] = f32::NEG_INFINITY);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::sampler::PLAIN;
    use super::*;

    fn shaped(o: Sampling, prompt: &[u32], reply: &[u32], forbidden: &[u32]) -> Vec<f32> {
        let mut history = History::of_prompt(&o, prompt);
        reply.iter().for_each(|&token| history.note(&o, token));
        let left = Left { forbidden, allowed: None };
        history.shape(&[1.0, 2.0, -3.0, 4.0], &o, left, &mut Vec::new()).to_vec()
    }

    #[test]
    fn a_row_that_nothing_shapes_is_left_as_it_is() {
        assert_eq!(shaped(PLAIN, &[0, 1], &[2, 2], &[]), [1.0, 2.0, -3.0, 4.0]);
    }

    #[test]
    fn presence_counts_once_and_frequency_every_time_and_the_prompt_not_at_all() {
        let o = Sampling { presence_penalty: 0.5, frequency_penalty: 0.25, ..PLAIN };
        assert_eq!(shaped(o, &[0, 0], &[1, 3, 3, 3], &[]), [1.0, 1.25, -3.0, 2.75]);
        let o = Sampling { presence_penalty: -1.0, ..PLAIN };
        assert_eq!(shaped(o, &[], &[2, 2], &[]), [1.0, 2.0, -2.0, 4.0]);
    }

    #[test]
    fn repetition_looks_at_prompt_and_reply_and_comes_before_what_is_added() {
        let o = Sampling { repetition_penalty: 2.0, bias: vec![(0, 5.0), (2, -1.0)], ..PLAIN };
        assert_eq!(shaped(o, &[0], &[2], &[]), [5.5, 2.0, -7.0, 4.0]);
    }

    #[test]
    fn a_forbidden_token_stays_so_whatever_is_added_to_it() {
        let o = Sampling { bias: vec![(3, 100.0)], ..PLAIN };
        assert_eq!(shaped(o, &[], &[], &[3, 9]), [1.0, 2.0, -3.0, f32::NEG_INFINITY]);
    }
}
