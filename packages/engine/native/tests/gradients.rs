//! Derivatives of whole small models against finite differences, and trees against separate sequences.

mod common;
use common::*;
use stateset_engine::simd::Level;
use stateset_engine::*;

struct Case {
    lora: bool,
    values: bool,
    recompute: bool,
    dropout: Option<u64>,
    temperature: f32,
}

fn loss(m: &mut Model, f: &Forest, case: &Case, grad: bool) -> f64 {
    let want = Want { grad, entropy: true, values: case.values, dropout_seed: case.dropout, recompute: case.recompute, ..WANT };
    let pass = m.forward(&f.batch(case.temperature), want).unwrap();
    let n = f.tokens.len();
    let weights = |stream: u64| -> Vec<f32> { (0..n).map(|i| uniform(stream, i)).collect() };
    let (a, b, c) = (weights(51), weights(52), weights(53));
    let mut total = 0f64;
    for i in 0..n {
        total += f64::from(a[i]) * f64::from(pass.logprobs[i]) + f64::from(b[i]) * f64::from(pass.entropy[i]);
        if case.values {
            total += f64::from(c[i]) * f64::from(pass.values[i]);
        }
    }
    if grad {
        // Tokens nobody wanted have no log-prob; their derivative must be ignored.
        let d = Derivatives { logprobs: &a, entropy: Some(&b), values: case.values.then_some(&c), value_into_trunk: true };
        m.backward(pass, &d).unwrap();
    }
    total
}

fn check(flavour: &str, case: Case) {
    let mut m = model(flavour, 2, Level::available()[0]);
    if case.values {
        m.add_value_head().unwrap();
    }
    if case.lora {
        m.add_lora(3, 6.0, if case.dropout.is_some() { 0.2 } else { 0.0 }, &["q", "k", "v", "o", "up", "down"], 9).unwrap();
    } else {
        m.set_trainable(Trainable::Full).unwrap();
    }
    // The head and the adapters' B start at zero, and would let no gradient through.
    randomise(&mut m);
    let f = forest(m.config().vocab);
    loss(&mut m, &f, &case, true);
    for spec in m.tensors().iter().filter(|s| s.trainable) {
        let n = spec.rows * spec.cols;
        let (mut g, mut w) = (vec![0f32; n], vec![0f32; n]);
        m.read_gradient(&spec.name, &mut g).unwrap();
        m.read_tensor(&spec.name, &mut w).unwrap();
        let norm = g.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        // Softmax does not see a constant added to all keys, so their bias has no derivative to speak of.
        assert!(norm > 1e-3 || spec.name.ends_with("k.bias"), "{flavour}: {} has gradient norm {norm}", spec.name);
        for direction in 0..2 {
            let along: Vec<f64> = (0..n)
                .map(|i| {
                    if direction == 0 && norm > 0.0 { f64::from(g[i]) / norm } else { f64::from(uniform(61, i)) / (n as f64 / 3.0).sqrt() }
                })
                .collect();
            let analytic: f64 = along.iter().zip(&g).map(|(a, g)| a * f64::from(*g)).sum();
            let eps = 4e-3;
            // Dropout is drawn only for a pass with gradients.
            let mut at = |sign: f64| {
                let moved: Vec<f32> = w.iter().zip(&along).map(|(w, a)| (f64::from(*w) + sign * eps * a) as f32).collect();
                m.set_tensor(&spec.name, &moved).unwrap();
                if case.dropout.is_some() {
                    let want = Want { grad: true, entropy: true, dropout_seed: case.dropout, ..WANT };
                    let pass = m.forward(&f.batch(case.temperature), want).unwrap();
                    (0..f.tokens.len())
                        .map(|i| {
                            f64::from(uniform(51, i)) * f64::from(pass.logprobs[i]) + f64::from(uniform(52, i)) * f64::from(pass.entropy[i])
                        })
                        .sum()
                } else {
                    loss(&mut m, &f, &case, false)
                }
            };
            let numeric: f64 = (at(1.0) - at(-1.0)) / (2.0 * eps);
            m.set_tensor(&spec.name, &w).unwrap();
            let error = (numeric - analytic).abs();
            assert!(error < 4e-3 + 1e-2 * analytic.abs(), "{flavour} {} direction {direction}: {numeric} against {analytic}", spec.name);
        }
    }
}

#[test]
fn full_gradients_match_finite_differences_in_every_flavour() {
    for flavour in FLAVOURS {
        check(flavour, Case { lora: false, values: true, recompute: false, dropout: None, temperature: 0.8 });
    }
}

#[test]
fn lora_gradients_match_finite_differences() {
    for flavour in ["gpt2", "llama", "qwen2", "qwen3", "gemma", "granite"] {
        check(flavour, Case { lora: true, values: true, recompute: false, dropout: None, temperature: 1.3 });
        check(flavour, Case { lora: true, values: false, recompute: false, dropout: Some(11), temperature: 1.0 });
    }
}

#[test]
fn recomputation_gives_the_same_bits() {
    for flavour in ["gpt2", "qwen3", "gemma", "granite"] {
        let mut flat = Vec::new();
        for recompute in [false, true] {
            let mut m = model(flavour, 2, Level::available()[0]);
            m.set_trainable(Trainable::Full).unwrap();
            let f = forest(m.config().vocab);
            loss(&mut m, &f, &Case { lora: false, values: false, recompute, dropout: None, temperature: 1.0 }, true);
            flat.push(m.read_flat(Flat::Gradients).unwrap());
        }
        assert!(flat[0] == flat[1]);
    }
}

#[test]
fn a_tree_gives_the_gradients_of_its_sequences() {
    for flavour in FLAVOURS {
        let mut m = model(flavour, 2, Level::available()[0]);
        m.set_trainable(Trainable::Full).unwrap();
        let f = forest(m.config().vocab);
        let n = f.tokens.len();
        let weight: Vec<f32> = (0..n).map(|i| uniform(71, i) / n as f32).collect();
        let pass = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap();
        let tree_logprobs = pass.logprobs.clone();
        m.backward(pass, &Derivatives { logprobs: &weight, entropy: None, values: None, value_into_trunk: false }).unwrap();
        let tree = m.read_flat(Flat::Gradients).unwrap();
        m.zero_gradients();
        // Each token's derivative goes to the first path that holds it.
        let mut given = vec![false; n];
        for path in f.paths() {
            let tokens: Vec<u32> = path.iter().map(|&i| f.tokens[i]).collect();
            let wanted: Vec<u8> = path.iter().map(|&i| f.wanted[i]).collect();
            let start = [0, tokens.len() as u32];
            let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
            let pass = m.forward(&batch, Want { grad: true, ..WANT }).unwrap();
            let mut d = vec![0f32; tokens.len()];
            for (at, &i) in path.iter().enumerate() {
                assert_eq!(pass.logprobs[at].to_bits(), tree_logprobs[i].to_bits(), "{flavour} token {i}");
                if !given[i] {
                    d[at] = weight[i];
                    given[i] = true;
                }
            }
            m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
        }
        let separate = m.read_flat(Flat::Gradients).unwrap();
        let worst = tree.iter().zip(&separate).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst < 1e-5, "{flavour}: worst difference {worst}");
    }
}

#[test]
fn adapters_off_is_the_base_model() {
    let mut m = model("llama", 1, Level::available()[0]);
    let f = forest(m.config().vocab);
    let before = m.forward(&f.batch(1.0), WANT).unwrap().logprobs;
    m.add_lora(4, 8.0, 0.0, &["q", "down"], 1).unwrap();
    assert!(m.forward(&f.batch(1.0), WANT).unwrap().logprobs == before, "B starts at zero");
    let spec = m.tensors().into_iter().find(|s| s.name == "layers.0.q.lora_b").unwrap();
    m.set_tensor(&spec.name, &vec![0.1; spec.rows * spec.cols]).unwrap();
    assert!(m.forward(&f.batch(1.0), WANT).unwrap().logprobs != before);
    assert!(m.forward(&f.batch(1.0), Want { adapters: false, ..WANT }).unwrap().logprobs == before);
}

#[test]
fn the_amx_unit_gives_the_same_gradients_to_its_precision_for_any_number_of_threads() {
    if !stateset_engine::gemm::amx_available() {
        eprintln!("no AMX on this machine: nothing to check");
        return;
    }
    for flavour in ["gpt2", "qwen3", "gemma", "granite"] {
        let mut flat = Vec::new();
        for (amx, threads) in [(false, 1), (true, 1), (true, 3)] {
            let mut m = model(flavour, threads, Level::available()[0]);
            m.set_amx(amx);
            m.set_trainable(Trainable::Full).unwrap();
            let f = forest(m.config().vocab);
            loss(&mut m, &f, &Case { lora: false, values: false, recompute: false, dropout: None, temperature: 1.0 }, true);
            flat.push(m.read_flat(Flat::Gradients).unwrap());
        }
        assert!(flat[1] == flat[2], "{flavour}: threads change bits");
        let norm = flat[0].iter().map(|x| x * x).sum::<f32>().sqrt();
        let error = flat[0].iter().zip(&flat[1]).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
        assert!(error > 0.0 && error < 1e-4 * norm, "{flavour}: {error} of {norm}");
    }
}
