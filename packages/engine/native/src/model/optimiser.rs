//! What is trained, and AdamW on it.

use std::sync::Arc;

use super::moments::Moments;
use super::params::{ADAPTERS, BASE, VALUE};
use super::{Model, Scope, StepOptions, StepReport, Trainable};
use crate::buffer::Buffer;
use crate::config::Precision;
use crate::error::EngineError;
use crate::form::Form;
use crate::kernel::adamw::{self, Range, Update};

/// What training keeps beside a store of parameters, in the same layout.
pub struct Learning {
    /// Empty until something in the store is trained.
    pub grad: Buffer,
    /// Like the parameters, they do not change under somebody who holds them.
    pub moments: Arc<Moments>,
}

/// What the optimiser knows, as it was at some time.
pub struct Training {
    moments: [Arc<Moments>; 3],
    steps: (u64, u64),
}

impl Training {
    /// Optimiser steps applied by then, `(policy, value head)`: needed for bias correction after a restore.
    pub fn step_counts(&self) -> (u64, u64) {
        self.steps
    }

    pub fn moments(&self, store: usize) -> &Moments {
        &self.moments[store]
    }
}

impl Learning {
    pub fn none() -> Learning {
        Learning { grad: Buffer::empty(), moments: Arc::new(Moments::none()) }
    }

    pub fn bytes(&self) -> usize {
        4 * self.grad.len() + self.moments.bytes()
    }

    /// # Safety
    /// The store must have gradients, and a parameter at `offset`.
    pub unsafe fn gradient(&self, offset: usize) -> *mut f32 {
        debug_assert!(!self.grad.is_empty());
        unsafe { self.grad.pointer().add(offset) }
    }

    /// The moments to write to: zeros where there are none yet, a copy when somebody else holds them.
    fn own_moments(&mut self, precision: Precision, parameters: usize) -> Result<(), EngineError> {
        if self.moments.is_empty() {
            self.moments = Arc::new(Moments::zeros(precision, parameters)?);
        } else if Arc::strong_count(&self.moments) > 1 {
            self.moments = Arc::new(self.moments.copy()?);
        }
        Ok(())
    }

    /// The memory of the moments, cleared.
    pub fn take_moments(&mut self, precision: Precision, parameters: usize) -> Result<Moments, EngineError> {
        if self.moments.is_empty() || Arc::strong_count(&self.moments) > 1 {
            return Moments::zeros(precision, parameters);
        }
        match Arc::into_inner(std::mem::replace(&mut self.moments, Arc::new(Moments::none()))) {
            Some(mut taken) => {
                taken.clear();
                Ok(taken)
            }
            None => Moments::zeros(precision, parameters),
        }
    }
}

/// Refuses what would turn weights into NaN or infinity, or move them against the gradient.
fn check(o: &StepOptions) -> Result<(), EngineError> {
    let from_zero = |x: f32| x >= 0.0 && x.is_finite();
    let decay = |x: f32| (0.0..1.0).contains(&x);
    let wrong = [
        ("learning_rate", o.learning_rate, from_zero(o.learning_rate), "a number from 0"),
        ("value_learning_rate", o.value_learning_rate.unwrap_or(0.0), o.value_learning_rate.is_none_or(from_zero), "a number from 0"),
        ("lora_plus_ratio", o.lora_plus_ratio, o.lora_plus_ratio > 0.0 && o.lora_plus_ratio.is_finite(), "a number above 0"),
        ("beta1", o.beta1, decay(o.beta1), "a number from 0 and below 1"),
        ("beta2", o.beta2, decay(o.beta2), "a number from 0 and below 1"),
        ("eps", o.eps, o.eps > 0.0 && o.eps.is_finite(), "a number above 0"),
        ("weight_decay", o.weight_decay, from_zero(o.weight_decay), "a number from 0"),
        ("clip_norm", o.clip_norm.unwrap_or(0.0), o.clip_norm.is_none_or(|norm| norm >= 0.0), "a number from 0"),
    ]
    .into_iter()
    .find(|&(_, _, fine, _)| !fine);
    match wrong {
        Some((name, value, _, wanted)) => Err(EngineError::input(format!("The optimiser's {name} is {value}; it must be {wanted}."))),
        None => Ok(()),
    }
}

impl Model {
    pub(super) fn is_trainable(&self, store: usize) -> bool {
        match self.trainable {
            Trainable::None => false,
            Trainable::Full => store != ADAPTERS,
            Trainable::Adapters => store != BASE,
        }
    }

    /// The stores that `step` would write.
    pub fn stores_in(&self, scope: Scope) -> Vec<usize> {
        [BASE, ADAPTERS, VALUE]
            .into_iter()
            .filter(|&store| self.is_trainable(store) && self.weights.has(store))
            .filter(|&store| match scope {
                Scope::All => true,
                Scope::Policy => store != VALUE,
                Scope::Value => store == VALUE,
            })
            .collect()
    }

    /// Frees the gradients and moments of what is no longer trained.
    pub fn set_trainable(&mut self, mode: Trainable) -> Result<(), EngineError> {
        if mode == Trainable::Adapters && self.params.lora.is_none() {
            return Err(EngineError::input("There are no adapters to train: call add_lora first."));
        }
        if mode == Trainable::Full
            && let Some(small) = self.params.all.iter().find(|p| p.form != Form::F32)
        {
            return Err(EngineError::input(format!(
                "\"{}\" is kept as {}, and such weights cannot be trained. Add adapters, or keep all weights as f32.",
                small.name,
                small.form.name()
            )));
        }
        self.trainable = mode;
        for store in [BASE, ADAPTERS, VALUE] {
            let trained = self.is_trainable(store);
            let learning = &mut self.learning[store];
            if !trained {
                *learning = Learning::none();
            } else if learning.grad.is_empty() {
                learning.grad = Buffer::zeroed(self.params.used[store], "gradients")?;
            }
        }
        Ok(())
    }

    pub fn zero_gradients(&mut self) {
        for learning in &mut self.learning {
            learning.grad.fill(0.0);
        }
    }

    /// What moments are kept as from now on; before the first of them.
    pub fn set_moment_precision(&mut self, precision: Precision) -> Result<(), EngineError> {
        if self.learning.iter().any(|learning| !learning.moments.is_empty()) {
            return Err(EngineError::input("The optimiser has moments already; what they are kept as is said before training."));
        }
        self.moment_precision = precision;
        Ok(())
    }

    /// What the products of the backward pass with weights and activations take their operands as.
    pub fn set_gradient_precision(&mut self, precision: Precision) {
        self.exec.gradients = precision;
    }

    /// Whether a step in scope has all the moments it needs.
    pub fn has_moments(&self, scope: Scope) -> bool {
        self.stores_in(scope).iter().all(|&store| !self.learning[store].moments.is_empty())
    }

    /// What the optimiser knows now. It stays what it is, and costs memory only once a step is made beside it.
    pub fn training(&self) -> Training {
        let of = |store: usize| self.learning[store].moments.clone();
        Training { moments: [of(BASE), of(ADAPTERS), of(VALUE)], steps: self.steps }
    }

    /// Bytes of moments that have become others since.
    pub fn training_beside(&self, kept: &Training) -> usize {
        let pairs = kept.moments.iter().zip(&self.learning);
        pairs.filter(|(then, now)| !Arc::ptr_eq(then, &now.moments)).map(|(then, _)| then.bytes()).sum()
    }

    /// AdamW on everything trainable in scope; clears those gradients. The norm (before clipping) is over the same tensors.
    pub fn step(&mut self, o: &StepOptions) -> Result<StepReport, EngineError> {
        check(o)?;
        self.weights.check_whole()?;
        if self.trainable == Trainable::None {
            return Err(EngineError::input("Nothing is trainable: call set_trainable or add_lora first."));
        }
        let stores = self.stores_in(o.scope);
        for &s in &stores {
            self.learning[s].own_moments(self.moment_precision, self.params.used[s])?;
        }
        let grads: Vec<&[f32]> = stores.iter().map(|&s| &*self.learning[s].grad).collect();
        let norm = adamw::sum_of_squares(&self.exec.pool, &grads).sqrt();
        if !norm.is_finite() {
            for &s in &stores {
                self.learning[s].grad.fill(0.0);
            }
            return Ok(StepReport { grad_norm: norm, applied: false });
        }
        // All memory is had before anything moves.
        let mut data = [std::ptr::null_mut(); 3];
        for &s in &stores {
            data[s] = self.weights.write(s)?.pointer();
        }
        // torch.nn.utils.clip_grad_norm_: scale by max / (norm + 1e-6) when that is below 1.
        let gradient_scale = o.clip_norm.map_or(1.0, |max| (f64::from(max) / (norm + 1e-6)).min(1.0) as f32);
        if stores.iter().any(|&s| s != VALUE) {
            self.steps.0 += 1;
        }
        if stores.contains(&VALUE) {
            self.steps.1 += 1;
        }
        let mut ranges: Vec<Range> = Vec::new();
        for p in self.params.all.iter().filter(|p| stores.contains(&p.store)) {
            let value = p.store == VALUE;
            let t = if value { self.steps.1 } else { self.steps.0 };
            let learning = &self.learning[p.store];
            let update = Update {
                rate: match p.store {
                    VALUE => o.value_learning_rate.unwrap_or(o.learning_rate),
                    ADAPTERS if p.is_lora_b() => o.learning_rate * o.lora_plus_ratio,
                    _ => o.learning_rate,
                },
                beta1: o.beta1,
                beta2: o.beta2,
                eps: o.eps,
                decay: if p.decay { o.weight_decay } else { 0.0 },
                gradient_scale,
                correction1: (1.0 - f64::from(o.beta1).powf(t as f64)) as f32,
                correction2_sqrt: (1.0 - f64::from(o.beta2).powf(t as f64)).sqrt() as f32,
            };
            unsafe {
                ranges.push(Range {
                    data: data[p.store].add(p.offset),
                    grad: learning.grad.pointer().add(p.offset),
                    moments: learning.moments.at(p.offset, p.store, t),
                    len: p.floats(),
                    update,
                });
            }
        }
        unsafe { adamw::adamw(self.exec.level, &self.exec.pool, &ranges) };
        self.changed();
        Ok(StepReport { grad_norm: norm, applied: true })
    }
}
