//! Where every parameter lives: one flat store for the base model, one for the adapters, one for the value head.
//! Matrices are panels `[rows/16][cols][16]`; gradients and moments share the layout, so AdamW is one flat pass.
//! The numbers themselves are in `weights.rs`.

use std::collections::HashMap;

use crate::config::{Config, Norm, Position};
use crate::error::EngineError;
use crate::form::{Form, Matrix, pack_bytes, pack_floats};
use crate::kernel::counter_uniform;
use crate::kernel::embedding::read_row;
use crate::simd::{LANES, Level, pad16};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Panels,
    /// Row-major, rows padded to 16: looked up, never multiplied.
    Rows,
}

pub const BASE: usize = 0;
pub const ADAPTERS: usize = 1;
pub const VALUE: usize = 2;

/// Numbers for a tensor, row after row: as f32, or as the bytes of a file in the form the tensor is kept in.
#[derive(Clone, Copy)]
pub enum Values<'a> {
    Floats(&'a [f32]),
    Bytes(&'a [u8]),
}

/// Forms of the base model's tensors, by name; those not named are f32.
pub type Forms = HashMap<String, Form>;

pub struct Param {
    pub name: String,
    pub rows: usize,
    pub cols: usize,
    pub place: Place,
    /// Only what lies in panels may be in another form than f32.
    pub form: Form,
    pub store: usize,
    pub offset: usize,
    pub decay: bool,
}

impl Param {
    /// Of four bytes each, whatever lies in them.
    pub fn floats(&self) -> usize {
        match self.place {
            Place::Panels => self.rows.div_ceil(LANES) * self.form.panel_bytes(self.cols) / 4,
            Place::Rows => self.rows * pad16(self.cols),
        }
        .next_multiple_of(LANES)
    }

    /// The half of an adapter that begins at zero.
    pub fn is_lora_b(&self) -> bool {
        self.name.ends_with(".lora_b")
    }

    /// Where a row starts in its store, and the step between its columns.
    fn row(&self, row: usize) -> (usize, usize) {
        match self.place {
            Place::Panels => (self.offset + row / LANES * LANES * self.cols + row % LANES, LANES),
            Place::Rows => (self.offset + row * pad16(self.cols), 1),
        }
    }

    /// Its part of a store, as bytes.
    fn bytes<'a>(&self, store: &'a mut [f32]) -> &'a mut [u8] {
        let words = &mut store[self.offset..self.offset + self.floats()];
        // Safety: any bytes are floats, and floats are bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), 4 * words.len()) };
        &mut bytes[..self.rows.div_ceil(LANES) * self.form.panel_bytes(self.cols)]
    }

    /// From the values of a file or of JavaScript; the length has been checked.
    pub fn set(&self, to: &mut [f32], from: Values<'_>) -> Result<(), EngineError> {
        match from {
            Values::Floats(from) if self.form == Form::F32 => self.write(to, from),
            Values::Floats(from) => pack_floats(self.form, &self.name, self.cols, from, self.bytes(to))?,
            Values::Bytes(from) => pack_bytes(self.form, &self.name, self.cols, from, self.bytes(to))?,
        }
        Ok(())
    }

    /// What a store holds, in f32.
    pub fn get(&self, level: Level, from: &[f32], to: &mut [f32]) {
        if self.form == Form::F32 {
            return self.read(from, to);
        }
        let matrix = Matrix { at: from[self.offset..].as_ptr(), form: self.form };
        for (row, values) in to.chunks_exact_mut(self.cols).enumerate() {
            // Safety: the store holds the whole of the matrix.
            unsafe { read_row(level, matrix, row, self.cols, values.as_mut_ptr()) };
        }
    }

    pub fn write(&self, to: &mut [f32], from: &[f32]) {
        self.write_as(to, from, |x| x);
    }

    pub fn read(&self, from: &[f32], to: &mut [f32]) {
        self.read_as(from, to, |x| x);
    }

    /// Into numbers of another kind that lie as the parameters do.
    pub fn write_as<T>(&self, to: &mut [T], from: &[f32], of: impl Fn(f32) -> T) {
        for (row, values) in from.chunks_exact(self.cols).enumerate() {
            let (first, step) = self.row(row);
            for (to, &value) in to[first..].iter_mut().step_by(step).zip(values) {
                *to = of(value);
            }
        }
    }

    pub fn read_as<T: Copy>(&self, from: &[T], to: &mut [f32], of: impl Fn(T) -> f32) {
        for (row, values) in to.chunks_exact_mut(self.cols).enumerate() {
            let (first, step) = self.row(row);
            for (value, &from) in values.iter_mut().zip(from[first..].iter().step_by(step)) {
                *value = of(from);
            }
        }
    }
}

/// Linear layers a layer may have, in the order adapters are numbered.
pub const TARGETS: [&str; 7] = ["q", "k", "v", "o", "gate", "up", "down"];

#[derive(Clone, Copy)]
pub struct Linear {
    pub n: usize,
    pub k: usize,
    pub w: usize,
    pub form: Form,
    pub bias: Option<usize>,
    /// Offsets of A `[rank, k]` and B `[n, rank]` in the adapter store.
    pub lora: Option<(usize, usize)>,
}

#[derive(Clone, Copy)]
pub struct NormParams {
    pub weight: usize,
    pub bias: Option<usize>,
}

pub struct Layer {
    pub attn_norm: NormParams,
    pub mlp_norm: NormParams,
    /// Of what attention and the feed-forward block give.
    pub attn_post_norm: Option<NormParams>,
    pub mlp_post_norm: Option<NormParams>,
    /// By `TARGETS`; `gate` is absent without a gated activation.
    pub linear: [Option<Linear>; 7],
    pub q_norm: Option<usize>,
    pub k_norm: Option<usize>,
}

impl Layer {
    pub fn get(&self, target: usize) -> &Linear {
        self.linear[target].as_ref().expect("every layer has this projection")
    }
}

#[derive(Clone, Copy)]
pub struct Lora {
    pub rank: usize,
    /// alpha / rank, by `TARGETS`.
    pub scale: [f32; 7],
    pub dropout: f32,
}

pub struct Params {
    pub all: Vec<Param>,
    by_name: HashMap<String, usize>,
    /// Floats of each store.
    pub used: [usize; 3],
    pub layers: Vec<Layer>,
    pub embed: usize,
    pub embed_form: Form,
    pub position: Option<usize>,
    /// Panels of the head; the embedding's when tied.
    pub head: usize,
    pub head_form: Form,
    pub final_norm: NormParams,
    pub lora: Option<Lora>,
    /// Offsets of weight and bias in the value store.
    pub value: Option<(usize, usize)>,
}

struct Declare {
    all: Vec<Param>,
    used: [usize; 3],
    forms: Forms,
}

impl Declare {
    fn add(&mut self, name: String, rows: usize, cols: usize, place: Place, store: usize, decay: bool) -> usize {
        let form = self.forms.get(&name).copied().unwrap_or(Form::F32);
        let param = Param { name, rows, cols, place, form, store, offset: self.used[store], decay };
        self.used[store] += param.floats();
        self.all.push(param);
        self.all[self.all.len() - 1].offset
    }
    fn vector(&mut self, name: String, n: usize) -> usize {
        self.add(name, 1, n, Place::Rows, BASE, false)
    }
}

impl Params {
    pub fn new(c: &Config, forms: &Forms) -> Result<Params, EngineError> {
        let mut d = Declare { all: Vec::new(), used: [0; 3], forms: forms.clone() };
        let form = |name: &str| forms.get(name).copied().unwrap_or(Form::F32);
        let embed_form = form("embed");
        let embed_place = if c.tied || embed_form != Form::F32 { Place::Panels } else { Place::Rows };
        let embed = d.add("embed".into(), c.vocab, c.hidden, embed_place, BASE, true);
        let position =
            (c.position == Position::Learned).then(|| d.add("position".into(), c.max_positions, c.hidden, Place::Rows, BASE, true));
        let norm = |d: &mut Declare, name: String| NormParams {
            weight: d.vector(format!("{name}.weight"), c.hidden),
            bias: (c.norm == Norm::Layer).then(|| d.vector(format!("{name}.bias"), c.hidden)),
        };
        let mut layers = Vec::new();
        for i in 0..c.layers {
            let attn_norm = norm(&mut d, format!("layers.{i}.attn_norm"));
            let mlp_norm = norm(&mut d, format!("layers.{i}.mlp_norm"));
            let attn_post_norm = c.post_norm.then(|| norm(&mut d, format!("layers.{i}.attn_post_norm")));
            let mlp_post_norm = c.post_norm.then(|| norm(&mut d, format!("layers.{i}.mlp_post_norm")));
            let (qw, kvw) = (c.q_width(), c.kv_width());
            let shapes = [
                Some((qw, c.hidden, c.qkv_bias)),
                Some((kvw, c.hidden, c.qkv_bias)),
                Some((kvw, c.hidden, c.qkv_bias)),
                Some((c.hidden, qw, c.out_bias)),
                c.mlp.is_gated().then_some((c.inter, c.hidden, c.mlp_bias)),
                Some((c.inter, c.hidden, c.mlp_bias)),
                Some((c.hidden, c.inter, c.mlp_bias)),
            ];
            let mut linear = [None; 7];
            for (target, shape) in shapes.into_iter().enumerate() {
                let Some((n, k, has_bias)) = shape else {
                    continue;
                };
                let name = format!("layers.{i}.{}", TARGETS[target]);
                let w = d.add(format!("{name}.weight"), n, k, Place::Panels, BASE, true);
                let bias = has_bias.then(|| d.vector(format!("{name}.bias"), n));
                linear[target] = Some(Linear { n, k, w, form: form(&format!("{name}.weight")), bias, lora: None });
            }
            let q_norm = c.qk_norm.then(|| d.vector(format!("layers.{i}.q_norm.weight"), c.head_dim));
            let k_norm = c.qk_norm.then(|| d.vector(format!("layers.{i}.k_norm.weight"), c.head_dim));
            layers.push(Layer { attn_norm, mlp_norm, attn_post_norm, mlp_post_norm, linear, q_norm, k_norm });
        }
        let final_norm = norm(&mut d, "final_norm".into());
        let head = if c.tied { embed } else { d.add("head".into(), c.vocab, c.hidden, Place::Panels, BASE, true) };
        let head_form = if c.tied { embed_form } else { form("head") };
        let by_name = d.all.iter().enumerate().map(|(i, p)| (p.name.clone(), i)).collect();
        let params = Params {
            all: d.all,
            by_name,
            used: d.used,
            layers,
            embed,
            embed_form,
            position,
            head,
            head_form,
            final_norm,
            lora: None,
            value: None,
        };
        for (name, form) in forms {
            let p = params.find(name)?;
            if p.place == Place::Rows && *form != Form::F32 {
                return Err(EngineError::config(format!("\"{name}\" is no matrix that is multiplied with; it is always kept as f32.")));
            }
            form.check(name, p.cols)?;
        }
        Ok(params)
    }

    pub fn find(&self, name: &str) -> Result<&Param, EngineError> {
        Ok(&self.all[self.index(name)?])
    }

    pub fn index(&self, name: &str) -> Result<usize, EngineError> {
        self.by_name.get(name).copied().ok_or_else(|| EngineError::tensor(format!("The model has no tensor named \"{name}\".")))
    }

    /// Norms multiply by one until their weights are set; everything else is zero.
    pub fn fill_base(&self, norm: Norm, data: &mut [f32]) {
        if norm == Norm::RmsPlusOne {
            return;
        }
        for p in self.all.iter().filter(|p| p.name.ends_with("norm.weight")) {
            data[p.offset..p.offset + p.cols].fill(1.0);
        }
    }

    /// The adapters of these targets in every layer.
    pub fn lora_addition(&self, rank: usize, targets: &[usize]) -> Addition {
        let mut addition = Addition::to(ADAPTERS);
        for (i, layer) in self.layers.iter().enumerate() {
            for &t in targets {
                if let Some(linear) = &layer.linear[t] {
                    let name = format!("layers.{i}.{}", TARGETS[t]);
                    addition.put(format!("{name}.lora_a"), rank, linear.k, Place::Panels);
                    addition.put(format!("{name}.lora_b"), linear.n, rank, Place::Panels);
                }
            }
        }
        addition
    }

    pub fn value_addition(hidden: usize) -> Addition {
        let mut addition = Addition::to(VALUE);
        addition.put("value.weight".into(), 1, hidden, Place::Rows);
        addition.put("value.bias".into(), 1, 1, Place::Rows);
        addition
    }

    fn add(&mut self, addition: Addition) {
        self.used[addition.store] = addition.floats();
        for p in addition.declared.all {
            self.by_name.insert(p.name.clone(), self.all.len());
            self.all.push(p);
        }
    }

    pub fn add_lora(&mut self, lora: Lora, addition: Addition) {
        self.add(addition);
        let offset = |name: &str| self.by_name.get(name).map(|&i| self.all[i].offset);
        for (i, layer) in self.layers.iter_mut().enumerate() {
            for (t, linear) in layer.linear.iter_mut().enumerate() {
                let name = format!("layers.{i}.{}", TARGETS[t]);
                if let Some(linear) = linear {
                    linear.lora = offset(&format!("{name}.lora_a")).zip(offset(&format!("{name}.lora_b")));
                }
            }
        }
        self.lora = Some(lora);
    }

    pub fn add_value_head(&mut self, addition: Addition) {
        self.add(addition);
        let offset = |name: &str| self.by_name.get(name).map(|&i| self.all[i].offset);
        self.value = offset("value.weight").zip(offset("value.bias"));
    }
}

/// Tensors for a store that has none yet, so that their memory can be had before the model counts on it.
pub struct Addition {
    store: usize,
    declared: Declare,
}

impl Addition {
    fn to(store: usize) -> Addition {
        Addition { store, declared: Declare { all: Vec::new(), used: [0; 3], forms: Forms::new() } }
    }

    fn put(&mut self, name: String, rows: usize, cols: usize, place: Place) {
        let decay = !name.ends_with(".bias");
        self.declared.add(name, rows, cols, place, self.store, decay);
    }

    pub fn floats(&self) -> usize {
        self.declared.used[self.store]
    }

    /// A Kaiming uniform with a = √5, as peft: U(−1/√k, 1/√k). B stays zero.
    pub fn fill_lora(&self, data: &mut [f32], seed: u64) {
        for (stream, p) in self.declared.all.iter().filter(|p| p.name.ends_with(".lora_a")).enumerate() {
            let bound = 1.0 / (p.cols as f32).sqrt();
            let values: Vec<f32> =
                (0..p.rows * p.cols).map(|i| (2.0 * counter_uniform(seed, stream as u64, i as u64) - 1.0) * bound).collect();
            p.write(data, &values);
        }
    }
}
