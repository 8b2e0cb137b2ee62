//! Bad input is an error with a code and a message to act on, never a crash.

mod common;
use common::*;
use stateset_engine::simd::Level;
use stateset_engine::*;

fn small() -> Model {
    model("gpt2", 1, Level::available()[0])
}

#[test]
fn impossible_configs_are_refused() {
    let base = config("llama");
    let bad = [
        Config { heads: 5, ..base.clone() },
        Config { vocab: 0, ..base.clone() },
        Config { head_dim: 7, ..base.clone() },
        Config { layers: 1 << 20, ..base.clone() },
        Config { rope_theta: -1.0, ..base.clone() },
        Config { norm_eps: f32::NAN, ..base.clone() },
        Config { sliding_window: Some(0), ..base.clone() },
        Config { full_layers: vec![0], ..base.clone() },
        Config { unrotated_layers: vec![2], ..base.clone() },
        Config { residual_scale: f32::NAN, ..base.clone() },
        Config { logit_scale: 0.0, ..base.clone() },
        Config { residual_scale: 0.5, ..config("gemma") },
        Config { rotary_dim: Some(14), ..base.clone() },
        Config { rotary_dim: Some(0), ..base.clone() },
        Config { embedding_scale: f32::INFINITY, ..base.clone() },
        Config { attention_scale: Some(0.0), ..base.clone() },
        Config { local_rope_theta: Some(-1.0), ..base.clone() },
        Config { embedding_scale: 2.0, ..config("gpt2") },
        Config { sliding_window: Some(7), full_layers: vec![2], ..base.clone() },
        Config { rope_scaling: RopeScaling::Linear { factor: 0.0 }, ..base.clone() },
    ];
    for c in bad {
        assert_eq!(code(Model::new(c, 1)), "INVALID_CONFIG");
    }
}

#[test]
fn sizes_whose_product_leaves_64_bits_are_refused_by_name() {
    let base = config("llama");
    let message = |c: Config| match Model::new(c, 1) {
        Err(e) => format!("{}: {}", e.code, e.message),
        Ok(_) => "no error".into(),
    };
    assert!(message(Config { vocab: 1 << 40, ..base.clone() }).contains("vocab is 1099511627776"));
    // heads·head_dim·hidden is 2⁶⁴, which wraps to nothing: the matrices would have no memory behind them.
    let wraps =
        Config { heads: 1 << 20, kv_heads: 1 << 20, head_dim: 1 << 20, hidden: 1 << 24, vocab: 16, inter: 1, layers: 1, ..base.clone() };
    assert!(message(wraps).contains("heads (1048576) times head_dim (1048576) is 1099511627776"));
    // The largest that pass one by one.
    let largest = Config {
        vocab: 1 << 24,
        hidden: 1 << 24,
        inter: 1 << 24,
        heads: 1 << 12,
        kv_heads: 1 << 12,
        head_dim: 1 << 12,
        layers: 4096,
        ..base
    };
    assert!(message(largest).starts_with("OUT_OF_MEMORY"));
}

#[test]
fn segments_of_any_capacity_are_an_error_or_have_their_memory() {
    let m = small();
    for capacity in [1usize << 34, 1 << 53, 1 << 61, usize::MAX / 16, usize::MAX - 7, usize::MAX] {
        assert_eq!(code(m.new_segment(capacity)), "OUT_OF_MEMORY", "{capacity}");
        assert!(m.segment_bytes(capacity) >= capacity, "{capacity}");
    }
}

#[test]
fn a_model_or_batch_too_large_for_the_memory_is_an_error_before_any_work() {
    let huge = Config { vocab: 1 << 22, hidden: 1 << 20, ..config("llama") };
    assert_eq!(code(Model::new(huge, 1)), "OUT_OF_MEMORY");
    assert_eq!(code(small().new_segment(1 << 34)), "OUT_OF_MEMORY");
}

#[test]
fn tensors_are_checked() {
    let mut m = small();
    assert_eq!(code(m.set_tensor("layers.9.q.weight", &[0.0])), "UNKNOWN_TENSOR");
    assert_eq!(code(m.set_tensor("final_norm.weight", &[0.0])), "INVALID_INPUT");
    let mut values = vec![0.5; 40];
    values[3] = f32::NAN;
    assert_eq!(code(m.set_tensor("final_norm.weight", &values)), "NOT_FINITE");
    assert_eq!(code(m.read_tensor("final_norm.weight", &mut [0.0])), "INVALID_INPUT");
    assert_eq!(code(m.write_flat(&[1.0])), "INVALID_INPUT");
    m.set_trainable(Trainable::Full).unwrap();
    let mut all = m.read_flat(Flat::Parameters).unwrap();
    all[7] = f32::INFINITY;
    assert_eq!(code(m.write_flat(&all)), "NOT_FINITE");
}

#[test]
fn trees_are_checked() {
    let mut m = small();
    let tokens = [1u32, 2, 3, 4];
    let wanted = [1u8; 4];
    let mut run = |tokens: &[u32], start: &[u32], parent: &[i32], wanted: &[u8], temperature: f32| {
        let batch = TreeBatch { tokens, node_start: start, node_parent: parent, wanted, temperature };
        code(m.forward(&batch, WANT))
    };
    assert_eq!(run(&tokens, &[0, 2, 4], &[-1, 0], &wanted, 1.0), "no error");
    assert_eq!(run(&[], &[0], &[], &[], 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 2, 4], &[-1, 1], &wanted, 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 2, 4], &[-1, -2], &wanted, 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 2, 2], &[-1, 0], &wanted, 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 3, 2, 4], &[-1, 0, 0], &wanted, 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 4], &[-1], &wanted[..2], 1.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 4], &[-1], &wanted, 0.0), "INVALID_INPUT");
    assert_eq!(run(&tokens, &[0, 4], &[-1], &wanted, f32::NAN), "INVALID_INPUT");
    assert_eq!(run(&[1, 2, 3, 9999], &[0, 4], &[-1], &wanted, 1.0), "INVALID_INPUT");
    assert_eq!(run(&[1; 129], &[0, 129], &[-1], &[1; 129], 1.0), "CONTEXT_LENGTH");
}

#[test]
fn training_calls_out_of_order_are_refused() {
    let mut m = small();
    let f = forest(m.config().vocab);
    let zeros = vec![0f32; f.tokens.len()];
    let d = Derivatives { logprobs: &zeros, entropy: None, values: None, value_into_trunk: false };
    let grad = Want { grad: true, ..WANT };
    assert_eq!(code(m.forward(&f.batch(1.0), grad)), "INVALID_INPUT");
    assert_eq!(code(m.step(&STEP)), "INVALID_INPUT");
    assert_eq!(code(m.set_trainable(Trainable::Adapters)), "INVALID_INPUT");
    assert_eq!(code(m.forward(&f.batch(1.0), Want { values: true, ..WANT })), "INVALID_INPUT");
    assert_eq!(code(m.add_lora(0, 1.0, 0.0, &["q"], 1)), "INVALID_INPUT");
    assert_eq!(code(m.add_lora(4, 1.0, 1.0, &["q"], 1)), "INVALID_INPUT");
    assert_eq!(code(m.add_lora(4, 1.0, 0.0, &["gate"], 1)), "INVALID_INPUT");
    m.set_trainable(Trainable::Full).unwrap();
    let pass = m.forward(&f.batch(1.0), WANT).unwrap();
    assert_eq!(code(m.backward(pass, &d)), "INVALID_INPUT");
    let pass = m.forward(&f.batch(1.0), grad).unwrap();
    assert_eq!(code(m.backward(pass, &Derivatives { logprobs: &zeros[1..], ..d })), "INVALID_INPUT");
    let pass = m.forward(&f.batch(1.0), grad).unwrap();
    assert_eq!(code(m.backward(pass, &Derivatives { logprobs: &zeros, entropy: Some(&zeros), ..d })), "INVALID_INPUT");
    let pass = m.forward(&f.batch(1.0), grad).unwrap();
    m.step(&STEP).unwrap();
    assert_eq!(code(m.backward(pass, &d)), "INVALID_INPUT");
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing() {
    let mut m = small();
    m.set_trainable(Trainable::Full).unwrap();
    let f = forest(m.config().vocab);
    let before = m.read_flat(Flat::Parameters).unwrap();
    let pass = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap();
    let bad = vec![f32::INFINITY; f.tokens.len()];
    m.backward(pass, &Derivatives { logprobs: &bad, entropy: None, values: None, value_into_trunk: false }).unwrap();
    assert!(!m.step(&STEP).unwrap().applied);
    assert!(m.read_flat(Flat::Parameters).unwrap() == before);
    assert!(m.read_flat(Flat::Gradients).unwrap().iter().all(|g| *g == 0.0));
}

#[test]
fn inference_steps_are_checked() {
    let mut m = small();
    let (a, b) = (m.new_segment(4).unwrap(), m.new_segment(200).unwrap());
    let mut logits = Vec::new();
    let chunk = |segment, tokens| Chunk { path: &[], segment, tokens, want_logits: Some(1.0), want_hidden: false };
    assert_eq!(code(m.infer(&[chunk(&a, &[])], &mut logits)), "INVALID_INPUT");
    assert_eq!(code(m.infer(&[chunk(&a, &[1, 2, 3, 4, 5])], &mut logits)), "INVALID_INPUT");
    assert_eq!(code(m.infer(&[chunk(&a, &[1]), chunk(&a, &[2])], &mut logits)), "INVALID_INPUT");
    assert_eq!(code(m.infer(&[chunk(&a, &[99_999])], &mut logits)), "INVALID_INPUT");
    assert_eq!(code(m.infer(&[chunk(&b, &[1; 129])], &mut logits)), "CONTEXT_LENGTH");
    let path = [KvSpan { segment: b.clone(), used: 1 }];
    assert_eq!(
        code(m.infer(&[Chunk { path: &path, segment: &a, tokens: &[1], want_logits: Some(1.0), want_hidden: false }], &mut logits)),
        "INVALID_INPUT"
    );
    assert!(a.is_empty() && b.is_empty(), "a refused step leaves the segments as they were");
    assert_eq!(code(m.infer(&[chunk(&a, &[1, 2]), chunk(&b, &[3])], &mut logits)), "no error");
    assert_eq!((a.len(), b.len(), logits.len()), (2, 1, 2 * m.config().vocab));
}
