//! Parameters in and out, what is trained, the optimiser.

use super::params::{ADAPTERS, BASE, Lora, TARGETS, VALUE};
use super::{Flat, Model, Scope, StepOptions, StepReport, TensorSpec, Trainable};
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::kernel::adamw::{self, Range, Update};

impl Model {
    fn is_trainable(&self, store: usize) -> bool {
        match self.trainable {
            Trainable::None => false,
            Trainable::Full => store != ADAPTERS,
            Trainable::Adapters => store != BASE,
        }
    }

    pub fn tensors(&self) -> Vec<TensorSpec> {
        let spec = |p: &super::params::Param| TensorSpec {
            name: p.name.clone(),
            rows: p.rows,
            cols: p.cols,
            trainable: self.is_trainable(p.store),
            decay: p.decay,
        };
        self.params.all.iter().map(spec).collect()
    }

    /// Row-major `[rows, cols]`.
    pub fn set_tensor(&mut self, name: &str, data: &[f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, data.len())?;
        if let Some(i) = data.iter().position(|x| !x.is_finite()) {
            return Err(EngineError::new(
                "NOT_FINITE",
                format!("Tensor \"{name}\" holds {} at index {i}. The weight file is damaged or the model diverged.", data[i]),
            ));
        }
        let store = p.store;
        let all = std::mem::take(&mut self.params.all);
        if let Some(p) = all.iter().find(|p| p.name == name) {
            p.write(&mut self.params.stores[store].data, data);
        }
        self.params.all = all;
        self.version += 1;
        Ok(())
    }

    pub fn read_tensor(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, out.len())?;
        p.read(&self.params.stores[p.store].data, out);
        Ok(())
    }

    pub fn read_gradient(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, out.len())?;
        read_or_zero(p, &self.params.stores[p.store].grad, out);
        Ok(())
    }

    /// AdamW's first and second moments, row-major like the tensor; zeros before the first step.
    pub fn read_moments(&self, name: &str, m: &mut [f32], v: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, m.len())?;
        check_len(name, p.rows * p.cols, v.len())?;
        read_or_zero(p, &self.params.stores[p.store].m, m);
        read_or_zero(p, &self.params.stores[p.store].v, v);
        Ok(())
    }

    pub fn write_moments(&mut self, name: &str, m: &[f32], v: &[f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, m.len())?;
        check_len(name, p.rows * p.cols, v.len())?;
        let store = p.store;
        self.reserve_moments(store)?;
        let all = std::mem::take(&mut self.params.all);
        if let Some(p) = all.iter().find(|p| p.name == name) {
            p.write(&mut self.params.stores[store].m, m);
            p.write(&mut self.params.stores[store].v, v);
        }
        self.params.all = all;
        Ok(())
    }

    fn reserve_moments(&mut self, store: usize) -> Result<(), EngineError> {
        let s = &mut self.params.stores[store];
        if s.m.is_empty() {
            s.m = Buffer::zeroed(s.data.len(), "the optimiser's first moments")?;
            s.v = Buffer::zeroed(s.data.len(), "the optimiser's second moments")?;
        }
        Ok(())
    }

    /// Optimiser steps applied so far, `(policy, value head)`: needed for bias correction after a restore.
    pub fn step_counts(&self) -> (u64, u64) {
        self.steps
    }

    pub fn set_step_counts(&mut self, policy: u64, value: u64) {
        self.steps = (policy, value);
    }

    /// Frees the gradients and moments of what is no longer trained.
    pub fn set_trainable(&mut self, mode: Trainable) -> Result<(), EngineError> {
        if mode == Trainable::Adapters && self.params.lora.is_none() {
            return Err(EngineError::input("There are no adapters to train: call add_lora first."));
        }
        self.trainable = mode;
        for store in [BASE, ADAPTERS, VALUE] {
            let trained = self.is_trainable(store);
            let s = &mut self.params.stores[store];
            if !trained {
                (s.grad, s.m, s.v) = (Buffer::empty(), Buffer::empty(), Buffer::empty());
            } else if s.grad.is_empty() {
                s.grad = Buffer::zeroed(s.data.len(), "gradients")?;
            }
        }
        Ok(())
    }

    /// Adapters on the named projections of every layer, and `Trainable::Adapters`. B is zero, A Kaiming-uniform.
    pub fn add_lora(&mut self, rank: usize, alpha: f32, dropout: f32, targets: &[&str], seed: u64) -> Result<(), EngineError> {
        if self.params.lora.is_some() {
            return Err(EngineError::input("The model already has adapters."));
        }
        if rank == 0 || rank > 1024 || !alpha.is_finite() || !(0.0..1.0).contains(&dropout) {
            return Err(EngineError::input(format!(
                "LoRA needs a rank from 1 to 1024, a finite alpha and a dropout in [0, 1); got rank {rank}, alpha {alpha}, dropout {dropout}."
            )));
        }
        let mut numbers = Vec::new();
        for name in targets {
            match TARGETS.iter().position(|t| t == name) {
                Some(t) if self.params.layers[0].linear[t].is_some() => numbers.push(t),
                _ => {
                    return Err(EngineError::input(format!(
                        "LoRA target \"{name}\" is no projection of this model. Use some of: {}.",
                        TARGETS.join(", ")
                    )));
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() {
            return Err(EngineError::input("LoRA needs at least one target projection."));
        }
        self.params.add_lora(Lora { rank, scale: alpha / rank as f32, dropout }, &numbers, seed)?;
        self.version += 1;
        self.set_trainable(Trainable::Adapters)
    }

    pub fn add_value_head(&mut self, seed: u64) -> Result<(), EngineError> {
        if self.params.value.is_some() {
            return Err(EngineError::input("The model already has a value head."));
        }
        self.params.add_value_head(self.config.hidden, seed)?;
        self.set_trainable(self.trainable)
    }

    pub fn zero_gradients(&mut self) {
        for s in &mut self.params.stores {
            s.grad.fill(0.0);
        }
    }

    /// AdamW on everything trainable in scope; clears those gradients. The norm (before clipping) is over the same tensors.
    pub fn step(&mut self, o: &StepOptions) -> Result<StepReport, EngineError> {
        if self.trainable == Trainable::None {
            return Err(EngineError::input("Nothing is trainable: call set_trainable or add_lora first."));
        }
        let stores: Vec<usize> = [BASE, ADAPTERS, VALUE]
            .into_iter()
            .filter(|&s| self.is_trainable(s) && !self.params.stores[s].data.is_empty())
            .filter(|&s| match o.scope {
                Scope::All => true,
                Scope::Policy => s != VALUE,
                Scope::Value => s == VALUE,
            })
            .collect();
        for &s in &stores {
            self.reserve_moments(s)?;
        }
        let grads: Vec<&[f32]> = stores.iter().map(|&s| &*self.params.stores[s].grad).collect();
        let norm = adamw::sum_of_squares(&self.exec.pool, &grads).sqrt();
        if !norm.is_finite() {
            for &s in &stores {
                self.params.stores[s].grad.fill(0.0);
            }
            return Ok(StepReport { grad_norm: norm, applied: false });
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
            let t = if value { self.steps.1 } else { self.steps.0 } as f64;
            let s = &self.params.stores[p.store];
            let update = Update {
                rate: if value { o.value_learning_rate.unwrap_or(o.learning_rate) } else { o.learning_rate },
                beta1: o.beta1,
                beta2: o.beta2,
                eps: o.eps,
                decay: if p.decay { o.weight_decay } else { 0.0 },
                gradient_scale,
                correction1: (1.0 - f64::from(o.beta1).powf(t)) as f32,
                correction2_sqrt: (1.0 - f64::from(o.beta2).powf(t)).sqrt() as f32,
            };
            unsafe {
                ranges.push(Range {
                    data: s.data.pointer().add(p.offset),
                    grad: s.grad.pointer().add(p.offset),
                    m: s.m.pointer().add(p.offset),
                    v: s.v.pointer().add(p.offset),
                    len: p.floats(),
                    update,
                });
            }
        }
        unsafe { adamw::adamw(self.exec.level, &self.exec.pool, &ranges) };
        self.version += 1;
        Ok(StepReport { grad_norm: norm, applied: true })
    }

    /// Trainable parameters (or their gradients) concatenated in the order of `tensors()`, row-major.
    pub fn read_flat(&self, what: Flat) -> Vec<f32> {
        let mut out = Vec::new();
        for p in self.params.all.iter().filter(|p| self.is_trainable(p.store)) {
            let s = &self.params.stores[p.store];
            let at = out.len();
            out.resize(at + p.rows * p.cols, 0.0);
            read_or_zero(p, if what == Flat::Parameters { &s.data } else { &s.grad }, &mut out[at..]);
        }
        out
    }

    pub fn add_flat(&mut self, delta: &[f32]) -> Result<(), EngineError> {
        let trained: Vec<usize> = (0..self.params.all.len()).filter(|&i| self.is_trainable(self.params.all[i].store)).collect();
        let total: usize = trained.iter().map(|&i| self.params.all[i].rows * self.params.all[i].cols).sum();
        check_len("the flat update", total, delta.len())?;
        let mut at = 0;
        for i in trained {
            let p = &self.params.all[i];
            let n = p.rows * p.cols;
            let mut values = vec![0.0; n];
            p.read(&self.params.stores[p.store].data, &mut values);
            for (v, d) in values.iter_mut().zip(&delta[at..at + n]) {
                *v += d;
            }
            p.write(&mut self.params.stores[p.store].data, &values);
            at += n;
        }
        self.version += 1;
        Ok(())
    }
}

fn read_or_zero(p: &super::params::Param, from: &[f32], out: &mut [f32]) {
    if from.is_empty() {
        out.fill(0.0);
    } else {
        p.read(from, out);
    }
}

fn check_len(name: &str, expected: usize, got: usize) -> Result<(), EngineError> {
    if expected != got {
        return Err(EngineError::input(format!("\"{name}\" has {expected} values, but {got} were given.")));
    }
    Ok(())
}
