//! Small random models of every architecture flavour.
#![allow(dead_code)]

use stateset_engine::kernel::counter_uniform;
use stateset_engine::simd::Level;
use stateset_engine::*;

pub fn config(name: &str) -> Config {
    let llama = Config {
        vocab: 1070,
        hidden: 40,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 12,
        inter: 56,
        max_positions: 128,
        norm: Norm::Rms,
        norm_eps: 1e-5,
        mlp: Mlp::SwiGlu,
        position: Position::Rope,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        rotary_dim: None,
        tied: false,
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        qk_norm: false,
        post_norm: false,
        embedding_scale: 1.0,
        residual_scale: 1.0,
        logit_scale: 1.0,
        attention_scale: None,
        sliding_window: None,
        full_layers: Vec::new(),
        local_rope_theta: None,
        unrotated_layers: Vec::new(),
    };
    match name {
        "gpt2" => Config {
            norm: Norm::Layer,
            mlp: Mlp::GeluTanh,
            position: Position::Learned,
            kv_heads: 4,
            head_dim: 10,
            tied: true,
            qkv_bias: true,
            out_bias: true,
            mlp_bias: true,
            ..llama
        },
        "gelu" => Config { mlp: Mlp::Gelu, norm: Norm::Layer, hidden: 48, head_dim: 16, ..llama },
        "llama" => llama,
        "llama3" => Config {
            rope_scaling: RopeScaling::Llama3 { factor: 8.0, low_freq: 1.0, high_freq: 4.0, original_max: 32 },
            hidden: 64,
            head_dim: 16,
            ..llama
        },
        "qwen2" => Config { qkv_bias: true, tied: true, rope_scaling: RopeScaling::Linear { factor: 2.0 }, ..llama },
        "qwen3" => Config { qk_norm: true, tied: true, heads: 6, head_dim: 16, ..llama },
        "mistral" => Config { sliding_window: Some(7), ..llama },
        "mixed" => Config { layers: 3, sliding_window: Some(7), full_layers: vec![1], ..llama },
        "smollm3" => Config { layers: 3, unrotated_layers: vec![1], tied: true, ..llama },
        "granite" => Config {
            embedding_scale: 1.7,
            residual_scale: 0.4,
            logit_scale: 0.6,
            attention_scale: Some(0.15),
            out_bias: true,
            tied: true,
            ..llama
        },
        "phi3" => Config { rotary_dim: Some(8), sliding_window: Some(9), ..llama },
        "gemma" => Config {
            norm: Norm::RmsPlusOne,
            mlp: Mlp::GeGlu,
            qk_norm: true,
            post_norm: true,
            embedding_scale: (40f32).sqrt(),
            attention_scale: Some(0.2),
            local_rope_theta: Some(100.0),
            tied: true,
            ..config("mixed")
        },
        other => panic!("no flavour {other}"),
    }
}

pub const FLAVOURS: [&str; 12] =
    ["gpt2", "gelu", "llama", "llama3", "qwen2", "qwen3", "mistral", "mixed", "gemma", "smollm3", "granite", "phi3"];

pub fn uniform(stream: u64, index: usize) -> f32 {
    2.0 * counter_uniform(42, stream, index as u64) - 1.0
}

pub fn randomise(model: &mut Model) {
    for (stream, spec) in model.tensors().iter().enumerate() {
        let is_norm = spec.name.ends_with("norm.weight") && model.config().norm != Norm::RmsPlusOne;
        let size = if spec.rows == 1 { 0.3 } else { 1.2 / (spec.cols as f32).sqrt() };
        let data: Vec<f32> =
            (0..spec.rows * spec.cols).map(|i| uniform(stream as u64, i) * size + if is_norm { 1.0 } else { 0.0 }).collect();
        model.set_tensor(&spec.name, &data).unwrap();
    }
}

pub fn model(flavour: &str, threads: usize, level: Level) -> Model {
    let mut model = Model::with_level(config(flavour), threads, level).unwrap();
    randomise(&mut model);
    model
}

/// A forest: one tree with three levels, a lone sequence.
pub struct Forest {
    pub tokens: Vec<u32>,
    pub start: Vec<u32>,
    pub parent: Vec<i32>,
    pub wanted: Vec<u8>,
}

pub fn forest(vocab: usize) -> Forest {
    let lengths = [9usize, 4, 18, 3, 1, 21];
    let parent = vec![-1, 0, 0, 1, 1, -1];
    let mut start = vec![0u32];
    for n in lengths {
        start.push(start[start.len() - 1] + n as u32);
    }
    let total: usize = lengths.iter().sum();
    let tokens = (0..total).map(|i| ((uniform(99, i) * 0.5 + 0.5) * vocab as f32) as u32 % vocab as u32).collect();
    let wanted = (0..total).map(|i| u8::from(i % 5 != 3)).collect();
    Forest { tokens, start, parent, wanted }
}

impl Forest {
    pub fn batch(&self, temperature: f32) -> TreeBatch<'_> {
        TreeBatch { tokens: &self.tokens, node_start: &self.start, node_parent: &self.parent, wanted: &self.wanted, temperature }
    }

    /// Token indices on the path of each leaf.
    pub fn paths(&self) -> Vec<Vec<usize>> {
        let nodes = self.parent.len();
        (0..nodes)
            .filter(|&n| !self.parent.contains(&(n as i32)))
            .map(|leaf| {
                let mut chain = vec![leaf];
                while self.parent[chain[chain.len() - 1]] >= 0 {
                    chain.push(self.parent[chain[chain.len() - 1]] as usize);
                }
                chain.iter().rev().flat_map(|&n| self.start[n] as usize..self.start[n + 1] as usize).collect()
            })
            .collect()
    }
}

pub const WANT: Want =
    Want { grad: false, entropy: false, values: false, hidden: false, adapters: true, recompute: false, dropout_seed: None };

pub const STEP: StepOptions = StepOptions {
    lora_plus_ratio: 1.0,
    learning_rate: 1e-2,
    value_learning_rate: None,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.01,
    clip_norm: Some(1.0),
    scope: Scope::All,
};

pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// Of an error, whose message must be a sentence.
pub fn code<T>(result: Result<T, EngineError>) -> &'static str {
    match result {
        Ok(_) => "no error",
        Err(e) => {
            assert!(e.message.len() > 20 && e.message.ends_with('.'), "{e}");
            e.code
        }
    }
}

pub fn scores(m: &mut Model, weights: &Weights, adapters: bool) -> Vec<u32> {
    let f = forest(m.config().vocab);
    bits(&m.forward_on(weights, &f.batch(1.0), Want { adapters, ..WANT }).unwrap().logprobs)
}

/// Scores with the present weights.
pub fn present(m: &mut Model) -> Vec<u32> {
    let now = m.weights().clone();
    scores(m, &now, true)
}

/// A forward and a backward pass.
pub fn add_gradients(m: &mut Model) {
    let f = forest(m.config().vocab);
    let pass = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap();
    let d: Vec<f32> = (0..f.tokens.len()).map(|i| uniform(3, i)).collect();
    m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
}

pub fn learn(m: &mut Model) {
    add_gradients(m);
    assert!(m.step(&STEP).unwrap().applied);
}

/// A model that can learn: all of it, or adapters that do something already.
pub fn trained(flavour: &str, lora: bool) -> Model {
    let mut m = model(flavour, 2, Level::available()[0]);
    if lora {
        m.add_lora(4, 8.0, 0.0, &["q", "v", "up"], 5).unwrap();
        randomise(&mut m);
    } else {
        m.set_trainable(Trainable::Full).unwrap();
    }
    m
}

/// Bytes for what is kept of sampling.
pub const ROOM: usize = 64 << 20;

pub fn learner(flavour: &str, lora: bool, level: Level, amx: bool) -> Model {
    let mut m = model(flavour, 2, level);
    m.set_amx(amx);
    m.add_value_head().unwrap();
    if lora {
        m.add_lora(4, 8.0, 0.0, &["q", "k", "o", "up", "down"], 5).unwrap();
    } else {
        m.set_trainable(Trainable::Full).unwrap();
    }
    randomise(&mut m);
    m.set_activation_bytes(ROOM);
    m
}

pub const SCORES: Want = Want { grad: true, entropy: true, values: true, hidden: true, ..WANT };

/// Everything a pass gives, and the gradients after it.
pub fn learn_from(m: &mut Model, batch: &TreeBatch<'_>, want: Want, prefixes: &dyn Fn(&[u32]) -> Vec<KvSpan>) -> Vec<Vec<u32>> {
    m.zero_gradients();
    let weights = m.weights().clone();
    let pass = m.forward_from(&weights, batch, want, prefixes).unwrap();
    let numbers = [&pass.logprobs, &pass.entropy, &pass.values, &pass.hidden].map(|some| bits(some));
    let d: Vec<Vec<f32>> = (3..6).map(|stream| (0..batch.tokens.len()).map(|i| uniform(stream, i)).collect()).collect();
    let values = want.values.then_some(d[2].as_slice());
    m.backward(pass, &Derivatives { logprobs: &d[0], entropy: Some(&d[1]), values, value_into_trunk: true }).unwrap();
    let gradients = bits(&m.read_flat(Flat::Gradients).unwrap());
    numbers.into_iter().chain([gradients]).collect()
}
