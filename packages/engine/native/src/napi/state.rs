//! What the engine's thread works on: the model, who samples from it, and what JavaScript holds of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::value::Reply;
use crate::buffer::{available_memory, give_back};
use crate::decode::{Counts, Limits, Produced, Scheduler};
use crate::error::EngineError;
use crate::model::{Derivatives, Model, Pass, Purpose, Reuse, Scope, Staged, Training, TreeBatch, Want, Weights};

/// What an engine is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub limits: Limits,
    /// Requests that may wait beside those that have a slot; none: any number.
    pub max_waiting: Option<usize>,
    /// Bytes for weights that only running replies still need; none: what the machine has free.
    pub version_bytes: Option<usize>,
    /// Bytes for activations of sampling that training goes on from.
    pub activation_bytes: usize,
    /// How long a change without room for a second version waits for running replies.
    pub drain: Duration,
    /// How long nothing is to be done before memory that waits for more to be kept is given back.
    pub rest: Duration,
    /// Decoding steps after which it fails on purpose.
    pub fails_after: Option<u64>,
}

/// Engines of this process that failed on purpose.
pub static FAILURES: AtomicUsize = AtomicUsize::new(0);

/// For tests of what is around an engine: STATESET_ENGINE_FAILS="50,20" makes one fail after 50 decoding steps, and one that is opened
/// afterwards after 20.
pub fn told_to_fail(setting: Option<&str>, failures: usize) -> Option<u64> {
    setting?.split(',').nth(failures)?.trim().parse().ok()
}

pub struct Load {
    pub staged: Staged,
    /// Whether requests were held back for it.
    pub drained: bool,
}

pub struct State {
    pub model: Model,
    pub scheduler: Scheduler,
    pub options: Options,
    /// By the id JavaScript holds: passes that wait for backward, weights that are kept, loads that are not through.
    pub passes: HashMap<u64, Pass>,
    pub kept: HashMap<u64, Weights>,
    /// What the optimiser knew, of some of the weights that are kept.
    pub training: HashMap<u64, Training>,
    pub loads: HashMap<u64, Load>,
    last_id: u64,
    /// The load that works in the present weights, if there is one: until it ends, everything else waits.
    pub loading: Option<u64>,
    /// Whether the work that runs now had to wait for replies.
    pub drained: bool,
    drains: u64,
}

/// What can be told about the engine at any moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    pub running: usize,
    pub slots: usize,
    pub cache_bytes: usize,
    pub counts: Counts,
    /// For activations of sampling.
    pub activation_bytes: usize,
    pub reuse: Reuse,
    /// Of the present weights.
    pub version: u64,
    /// Versions of the weights that are in use: the present one and those of replies that began earlier.
    pub versions: usize,
    /// Changes of the weights for which requests were held back.
    pub drains: u64,
}

impl State {
    pub fn new(mut model: Model, options: Options) -> State {
        model.set_activation_bytes(options.activation_bytes);
        State {
            scheduler: Scheduler::new(options.limits),
            model,
            options,
            passes: HashMap::new(),
            kept: HashMap::new(),
            training: HashMap::new(),
            loads: HashMap::new(),
            last_id: 0,
            loading: None,
            drained: false,
            drains: 0,
        }
    }

    pub fn step(&mut self) -> Produced {
        if self.options.fails_after == Some(self.scheduler.counts().steps) {
            FAILURES.fetch_add(1, Ordering::Relaxed);
            panic!("STATESET_ENGINE_FAILS said so");
        }
        self.scheduler.step(&mut self.model)
    }

    /// An id no other thing that JavaScript holds has.
    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// JavaScript gave it back, or forgot it.
    pub fn forget(&mut self, id: u64) {
        self.passes.remove(&id);
        self.kept.remove(&id);
        self.training.remove(&id);
        let _ = self.end_load(id);
    }

    pub fn end_load(&mut self, id: u64) -> Result<Load, EngineError> {
        if self.loading == Some(id) {
            self.loading = None;
        }
        self.loads.remove(&id).ok_or_else(|| EngineError::input("This load was already committed or discarded."))
    }

    /// The present weights, or some that are kept.
    pub fn weights(&self, kept: Option<u64>) -> Result<Weights, EngineError> {
        match kept {
            None => Ok(self.model.weights().clone()),
            Some(id) => self.kept.get(&id).cloned().ok_or_else(|| EngineError::input("These weights were closed.")),
        }
    }

    /// As the model's, of the present weights or some that are kept. A pass with gradients is the beginning of a change, and wants
    /// memory: what only sampling needs of the weights goes to it, unless replies run on beside the training.
    pub fn forward(&mut self, kept: Option<u64>, batch: &TreeBatch<'_>, want: Want) -> Result<Pass, EngineError> {
        let weights = self.weights(kept)?;
        if want.grad && !self.scheduler.samples_from(&weights) {
            self.model.reclaim_split(&weights);
        }
        if want.grad {
            // Who computes twice to save memory has none to spare.
            self.model.set_activation_bytes(if want.recompute { 0 } else { self.options.activation_bytes });
        }
        if want.grad && want.recompute {
            self.forget_activations();
        }
        let scheduler = &self.scheduler;
        let version = weights.version();
        let pass = self.model.forward_from(&weights, batch, want, &|tokens| scheduler.kept_path(version, tokens));
        if pass.as_ref().is_err_and(|error| error.code == "OUT_OF_MEMORY") && self.forget_activations() {
            return self.model.forward_on(&weights, batch, want);
        }
        pass
    }

    /// As the model's. Where it finds no memory, all that is kept for other passes is given up.
    pub fn backward(&mut self, pass: Pass, d: &Derivatives<'_>) -> Result<(), EngineError> {
        let room = self.model.reserve_backward(&pass);
        if room.as_ref().is_err_and(|error| error.code == "OUT_OF_MEMORY") && self.forget_activations() {
            self.model.reserve_backward(&pass)?;
        }
        self.model.backward(pass, d)
    }

    /// Gives the memory of activations back; tells whether there was some.
    fn forget_activations(&mut self) -> bool {
        self.scheduler.forget_activations();
        self.trim_activations()
    }

    /// Gives back what of that nobody uses; tells whether there was some.
    fn trim_activations(&self) -> bool {
        let before = self.model.activation_bytes();
        self.model.trim_activations();
        let some = self.model.activation_bytes() < before;
        if some {
            give_back();
        }
        some
    }

    /// The first step reserves moments, and most memory is taken then. What is kept of the present weights, prefixes and activations, would be
    /// dropped after it anyway.
    pub fn make_room_for_moments(&mut self, scope: Scope) {
        if self.model.has_moments(scope) {
            return;
        }
        self.scheduler.sweep(None);
        self.model.trim_activations();
        give_back();
    }

    /// Bytes beside the present weights: held by JavaScript (kept or being loaded), and held by replies alone.
    pub fn beside(&self) -> (usize, usize) {
        let mut known = Vec::new();
        self.model.weights().bytes_beside(&mut known);
        let loads = self.loads.values().map(|load| load.staged.bytes() + load.staged.weights().bytes_beside(&mut known)).sum::<usize>();
        let kept = self.kept.values().map(|weights| weights.bytes_beside(&mut known)).sum::<usize>();
        let replies = self.scheduler.held().map(|weights| weights.bytes_beside(&mut known)).sum();
        let training = self.training.values().map(|training| self.model.training_beside(training)).sum::<usize>();
        (loads + kept + training, replies)
    }

    /// Whether there is room for this much more beside the present weights.
    pub fn has_room(&self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let allowed = self.options.version_bytes.is_none_or(|limit| self.beside().1 + bytes <= limit);
        // The rest is for keys and values, and for others on this machine.
        let fits = || available_memory().is_none_or(|free| bytes as u64 <= free / 4 * 3);
        allowed && (fits() || (self.trim_activations() && fits()))
    }

    /// Puts something into a load; `cost` says what that reserves.
    pub fn load(
        &mut self,
        id: u64,
        cost: impl Fn(&Model, &Staged) -> usize,
        put: impl FnOnce(&mut Model, &mut Staged, bool) -> Result<(), EngineError>,
    ) -> Result<Reply, EngineError> {
        let Some(load) = self.loads.get(&id) else {
            return Err(EngineError::input("This load was already committed or discarded."));
        };
        // Weights that were never set nobody can have sampled from: their first ones need no second copy.
        let fresh = self.model.version() == 0;
        let in_place = load.staged.purpose() == Purpose::Present && (fresh || !self.has_room(cost(&self.model, &load.staged)));
        let drained = self.drained || (in_place && !fresh);
        if let Some(load) = self.loads.get_mut(&id) {
            load.drained |= drained;
            if in_place {
                self.loading = Some(id);
            }
            put(&mut self.model, &mut load.staged, in_place)?;
        }
        Ok(Reply::None)
    }

    /// What a change of the weights answers.
    pub fn changed(&mut self, drained: bool) -> Vec<(&'static str, Reply)> {
        self.drains += u64::from(drained);
        vec![("version", Reply::Number(self.model.version() as f64)), ("drained", Reply::Flag(drained))]
    }

    pub fn stats(&self) -> Stats {
        let present = self.model.version();
        let older = self.scheduler.versions().into_iter().filter(|&version| version != present).count();
        Stats {
            running: self.scheduler.running(),
            slots: self.options.limits.slots,
            cache_bytes: self.scheduler.cache_bytes(),
            counts: self.scheduler.counts(),
            activation_bytes: self.model.activation_bytes(),
            reuse: self.model.reuse(),
            version: present,
            versions: 1 + older,
            drains: self.drains,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Request;
    use crate::model::{StepOptions, Trainable};

    const STEP: StepOptions = StepOptions {
        learning_rate: 1e-3,
        value_learning_rate: None,
        lora_plus_ratio: 1.0,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
        clip_norm: None,
        scope: Scope::All,
    };

    fn kept_after(tokens: usize, state: &mut State) -> usize {
        state.scheduler.submit(&state.model, Request::plain(7, vec![1, 2, 3, 4], tokens)).unwrap();
        (0..4).for_each(|_| drop(state.scheduler.step(&mut state.model)));
        state.scheduler.cache_bytes()
    }

    #[test]
    fn the_first_step_takes_the_memory_of_prefixes_that_no_reply_needs() {
        let limits = Limits { slots: 4, cache_bytes: 16 << 20 };
        let options = Options {
            limits,
            max_waiting: None,
            version_bytes: None,
            activation_bytes: 0,
            drain: Duration::ZERO,
            rest: Duration::ZERO,
            fails_after: None,
        };
        let mut state = State::new(crate::testing::model(), options);
        state.model.set_trainable(Trainable::Full).unwrap();
        // A reply that still runs.
        let kept = kept_after(50, &mut state);
        state.make_room_for_moments(Scope::All);
        assert_eq!((kept > 0, state.scheduler.cache_bytes()), (true, kept));
        state.scheduler.cancel(7);
        state.make_room_for_moments(Scope::All);
        assert_eq!(state.scheduler.cache_bytes(), 0);
        // Later steps reserve nothing.
        state.model.step(&STEP).unwrap();
        let kept = kept_after(2, &mut state);
        state.make_room_for_moments(Scope::All);
        assert_eq!((kept > 0, state.scheduler.cache_bytes()), (true, kept));
    }
}
