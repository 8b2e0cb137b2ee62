//! Parameters in and out, and the parts that are added to a model: adapters, a value head.

use std::sync::Arc;

use super::params::{ADAPTERS, Lora, Param, Params, TARGETS, VALUE, Values};
use super::weights::{Store, Weights};
use super::{Flat, Model, Scope, TensorSpec, Trainable, Training};
use crate::buffer::{Buffer, reserve};
use crate::error::EngineError;
use crate::form::{Form, file_row};

impl Model {
    pub fn tensors(&self) -> Vec<TensorSpec> {
        let spec = |p: &Param| TensorSpec {
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
        self.weights.check_whole()?;
        let p = self.params.find(name)?;
        check_values(p, Values::Floats(data))?;
        p.set(self.weights.write(p.store)?, Values::Floats(data))?;
        self.changed();
        Ok(())
    }

    /// The store that holds a tensor.
    pub fn store_of(&self, name: &str) -> Result<usize, EngineError> {
        Ok(self.params.find(name)?.store)
    }

    pub fn read_tensor(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        self.read_tensor_of(&self.weights, name, out)
    }

    pub fn read_tensor_of(&self, weights: &Weights, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, out.len())?;
        let data = weights.data(p.store)?;
        if data.is_empty() {
            return Err(EngineError::tensor(format!("These weights are from before the model had a tensor \"{name}\".")));
        }
        p.get(self.exec.level, data, out);
        Ok(())
    }

    pub fn read_gradient(&self, name: &str, out: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, out.len())?;
        read_or_zero(p, &self.learning[p.store].grad, out);
        Ok(())
    }

    /// AdamW's first and second moments, row-major like the tensor; zeros before the first step.
    pub fn read_moments(&self, training: &Training, name: &str, m: &mut [f32], v: &mut [f32]) -> Result<(), EngineError> {
        let p = self.params.find(name)?;
        check_len(name, p.rows * p.cols, m.len())?;
        check_len(name, p.rows * p.cols, v.len())?;
        training.moments(p.store).read(p, m, v);
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
        let addition = self.params.lora_addition(rank, &numbers);
        let mut data = Buffer::zeroed(addition.floats(), "adapters")?;
        addition.fill_lora(&mut data, seed);
        self.params.add_lora(Lora { rank, scale: [alpha / rank as f32; 7], dropout }, addition);
        self.weights.stores[ADAPTERS] = Arc::new(Store::new(data));
        self.changed();
        self.set_trainable(Trainable::Adapters)
    }

    /// Another alpha for one target. `add_lora` has checked the target.
    pub fn set_alpha(&mut self, target: &str, alpha: f32) -> Result<(), EngineError> {
        let (Some(lora), Some(t)) = (&mut self.params.lora, TARGETS.iter().position(|t| *t == target)) else {
            return Err(EngineError::input(format!("There is no adapter on \"{target}\".")));
        };
        if !alpha.is_finite() {
            return Err(EngineError::input(format!("LoRA needs a finite alpha; got {alpha} for \"{target}\".")));
        }
        lora.scale[t] = alpha / lora.rank as f32;
        Ok(())
    }

    /// It starts at zero: a head of noise would be worse than no critic, and its error would flow into the trunk.
    pub fn add_value_head(&mut self) -> Result<(), EngineError> {
        if self.params.value.is_some() {
            return Err(EngineError::input("The model already has a value head."));
        }
        let addition = Params::value_addition(self.config.hidden);
        let data = Buffer::zeroed(addition.floats(), "the value head")?;
        self.params.add_value_head(addition);
        self.weights.stores[VALUE] = Arc::new(Store::new(data));
        self.set_trainable(self.trainable)
    }

    /// Trainable parameters (or their gradients) concatenated in the order of `tensors()`, row-major.
    pub fn read_flat(&self, what: Flat) -> Result<Vec<f32>, EngineError> {
        let trained = || self.params.all.iter().filter(|p| self.is_trainable(p.store));
        let mut out = Vec::new();
        reserve(&mut out, trained().map(|p| p.rows * p.cols).sum(), "all parameters in one piece")?;
        for p in trained() {
            let from = if what == Flat::Parameters { &self.weights.stores[p.store].data } else { &self.learning[p.store].grad };
            let at = out.len();
            out.resize(at + p.rows * p.cols, 0.0);
            read_or_zero(p, from, &mut out[at..]);
        }
        Ok(out)
    }

    /// The trainable parameters become these, in the order of `read_flat`.
    pub fn write_flat(&mut self, values: &[f32]) -> Result<(), EngineError> {
        self.weights.check_whole()?;
        let trained: Vec<usize> = (0..self.params.all.len()).filter(|&i| self.is_trainable(self.params.all[i].store)).collect();
        let total: usize = trained.iter().map(|&i| self.params.all[i].rows * self.params.all[i].cols).sum();
        check_len("the flat parameters", total, values.len())?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(EngineError::new("NOT_FINITE", format!("Number {at} of the flat parameters is {}.", values[at])));
        }
        // All memory is had before anything moves.
        for store in self.stores_in(Scope::All) {
            self.weights.write(store)?;
        }
        let mut at = 0;
        for i in trained {
            let p = &self.params.all[i];
            let n = p.rows * p.cols;
            p.write(self.weights.write(p.store)?, &values[at..at + n]);
            at += n;
        }
        self.changed();
        Ok(())
    }
}

fn read_or_zero(p: &Param, from: &[f32], out: &mut [f32]) {
    if from.is_empty() {
        out.fill(0.0);
    } else {
        p.read(from, out);
    }
}

pub fn check_len(name: &str, expected: usize, got: usize) -> Result<(), EngineError> {
    if expected != got {
        return Err(EngineError::input(format!("\"{name}\" has {expected} values, but {got} were given.")));
    }
    Ok(())
}

/// The size of the tensor, and finite. Of bytes that is seen when they are packed.
pub fn check_values(p: &Param, values: Values<'_>) -> Result<(), EngineError> {
    let data = match values {
        Values::Floats(data) => data,
        Values::Bytes(_) if p.form == Form::F32 => {
            return Err(EngineError::input(format!("\"{}\" is kept as f32: give it as a Float32Array.", p.name)));
        }
        Values::Bytes(bytes) => {
            let expected = p.rows * file_row(p.form, p.cols);
            if bytes.len() == expected {
                return Ok(());
            }
            let (form, got) = (p.form.name(), bytes.len());
            return Err(EngineError::input(format!("\"{}\" has {expected} bytes as {form}, but {got} were given.", p.name)));
        }
    };
    check_len(&p.name, p.rows * p.cols, data.len())?;
    match data.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(EngineError::new(
            "NOT_FINITE",
            format!("Tensor \"{}\" holds {} at index {i}. The weight file is damaged or the model diverged.", p.name, data[i]),
        )),
        None => Ok(()),
    }
}
