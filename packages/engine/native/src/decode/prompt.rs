//! What is told of a prompt itself, beside what is drawn after it: all of it is run then, whatever others have computed.

use std::sync::OnceLock;

use super::request::Request;
use super::sampler::{likeliest, not_finite};
use crate::error::EngineError;
use crate::model::{Logits, Model, Weights};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AboutPrompt {
    #[default]
    Nothing,
    /// The log-prob of each token, and so many of the likeliest ones in its place.
    Logprobs(usize),
    /// The mean of its hidden states after the final norm.
    Mean,
}

/// Positions whose logits exist at a time.
const ROWS: usize = 32;

/// What has been read so far.
#[derive(Debug, Default, PartialEq)]
pub struct PromptRead {
    /// By token, 0 for the first, which nothing comes before. As `forward` gives them.
    pub logprobs: Vec<f32>,
    /// Of every token but the first, as many for each, best first.
    pub top: Vec<(u32, f32)>,
    /// Sums in f64 and in the order of the tokens, so that the mean does not depend on the pieces.
    sums: Vec<f64>,
}

impl PromptRead {
    /// Takes the hidden states of the tokens from `at` on.
    pub fn take(
        &mut self,
        model: &mut Model,
        weights: &Weights,
        request: &Request,
        at: usize,
        hidden: &[f32],
        logits: &mut Logits,
    ) -> Result<(), EngineError> {
        match request.about {
            AboutPrompt::Nothing => Ok(()),
            AboutPrompt::Logprobs(top) => self.score(model, weights, request, top, at, hidden, logits),
            AboutPrompt::Mean => self.add(hidden, model.config().hidden),
        }
    }

    fn add(&mut self, hidden: &[f32], width: usize) -> Result<(), EngineError> {
        self.sums.resize(width, 0.0);
        for row in hidden.chunks(width) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &number)| *sum += f64::from(number));
        }
        if self.sums.iter().all(|sum| sum.is_finite()) { Ok(()) } else { Err(not_finite()) }
    }

    pub fn mean(&self, tokens: usize) -> Vec<f32> {
        self.sums.iter().map(|sum| (sum / tokens as f64) as f32).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn score(
        &mut self,
        model: &mut Model,
        weights: &Weights,
        request: &Request,
        top: usize,
        at: usize,
        hidden: &[f32],
        logits: &mut Logits,
    ) -> Result<(), EngineError> {
        let width = model.config().hidden;
        let temperature = request.sampling.recorded_temperature();
        if at == 0 {
            self.logprobs.push(0.0);
        }
        // A token's log-prob comes from the state before it; the last state is that of the reply.
        let targets = &request.prompt[at + 1..(at + 1 + hidden.len() / width).min(request.prompt.len())];
        for (states, targets) in hidden.chunks(ROWS * width).zip(targets.chunks(ROWS)) {
            model.logits_of(weights, &states[..targets.len() * width], temperature, logits)?;
            let scored: Vec<OnceLock<(f32, Vec<(u32, f32)>)>> = targets.iter().map(|_| OnceLock::new()).collect();
            model.pool().run(targets.len(), |row, _| {
                let logits = logits.row(row);
                let distribution = logits.distribution();
                let of = |token: u32| distribution.at(logits.logits[token as usize]);
                let best = likeliest(logits.logits, top).into_iter().map(|token| (token, of(token))).collect();
                let _ = scored[row].set((of(targets[row]), best));
            });
            for (logprob, best) in scored.into_iter().filter_map(OnceLock::into_inner) {
                if !logprob.is_finite() {
                    return Err(not_finite());
                }
                self.logprobs.push(logprob);
                self.top.extend(best);
            }
        }
        Ok(())
    }
}
