//! Versions of the weights: they stay what they are, and share what is equal.

mod common;
use common::*;
use stateset_engine::model::Training;
use stateset_engine::simd::Level;
use stateset_engine::*;

/// The optimiser's of a tensor that is trained either way.
fn moments(m: &Model, training: &Training) -> Vec<u32> {
    let name = if m.tensors().iter().any(|spec| spec.name.ends_with("lora_b")) { "layers.1.q.lora_b" } else { "layers.1.q.weight" };
    let spec = m.tensors().into_iter().find(|spec| spec.name == name).unwrap();
    let (mut first, mut second) = (vec![0.0; spec.rows * spec.cols], vec![0.0; spec.rows * spec.cols]);
    m.read_moments(training, name, &mut first, &mut second).unwrap();
    bits(&[first, second].concat())
}

#[test]
fn a_version_that_is_held_keeps_its_scores_through_every_kind_of_change() {
    for lora in [false, true] {
        let mut m = trained("qwen3", lora);
        let change: [fn(&mut Model); 4] = [
            learn,
            |m| m.set_tensor("layers.0.q.weight", &vec![0.01; 96 * 40]).unwrap(),
            |m| {
                let moved: Vec<f32> = m.read_flat(Flat::Parameters).unwrap().iter().map(|value| value + 0.02).collect();
                m.write_flat(&moved).unwrap();
            },
            learn,
        ];
        let mut kept = Vec::new();
        for step in change {
            let (weights, now) = (m.weights().clone(), present(&mut m));
            let training = m.training();
            kept.push((weights, now.clone(), moments(&m, &training), training));
            step(&mut m);
            assert_ne!(present(&mut m), now);
        }
        let numbers: Vec<u64> = kept.iter().map(|(weights, ..)| weights.version()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        for (weights, now, then, training) in &kept {
            assert_eq!(&scores(&mut m, weights, true), now);
            assert_eq!(&moments(&m, training), then);
        }
        assert_eq!(kept.iter().map(|(.., training)| training.step_counts().0).collect::<Vec<_>>(), [0, 1, 1, 1]);
        assert_ne!(kept[0].2, kept[3].2);
        // Whether others hold versions or not, training gives the same bits.
        let mut alone = trained("qwen3", lora);
        change.iter().for_each(|step| step(&mut alone));
        assert_eq!(present(&mut m), present(&mut alone));
    }
}

#[test]
fn a_change_copies_only_what_it_writes_and_only_while_somebody_else_holds_it() {
    for lora in [false, true] {
        let mut m = trained("llama", lora);
        learn(&mut m);
        let before = m.memory_bytes();
        let mut known = Vec::new();
        let all = m.weights().bytes_beside(&mut known);
        learn(&mut m);
        assert_eq!(m.memory_bytes(), before, "in place");
        let kept = m.weights().clone();
        let beside = |m: &Model| {
            let mut known = Vec::new();
            m.weights().bytes_beside(&mut known);
            kept.bytes_beside(&mut known)
        };
        assert_eq!(beside(&m), 0, "keeping costs nothing");
        assert!(m.change_cost(&m.stores_in(Scope::All)) > 0);
        learn(&mut m);
        let copied = beside(&m);
        if lora {
            assert!(copied > 0 && copied < all / 4, "adapters alone: {copied} of {all}");
        } else {
            assert_eq!(copied, all);
        }
        learn(&mut m);
        assert_eq!(beside(&m), copied, "the second change has the store to itself");
        assert_eq!(m.change_cost(&m.stores_in(Scope::All)), 0);
    }
}

#[test]
fn decoding_goes_on_with_the_old_weights_beside_the_new_ones() {
    let mut m = trained("mistral", false);
    let vocab = m.config().vocab;
    let tokens: Vec<u32> = (0..30).map(|i| (i * 37 + 5) % vocab as u32).collect();
    let run = |m: &mut Model, weights: &Weights, segment: &std::sync::Arc<KvSegment>, at: usize| {
        let mut out = Inferred::default();
        let chunk = Chunk { path: &[], segment, tokens: &tokens[at..at + 1], want_logits: Some(1.0), want_hidden: false };
        m.infer_on(weights, &[chunk], &mut out).unwrap();
        bits(out.logits.row(0).logits)
    };
    let alone: Vec<Vec<u32>> = {
        let (weights, segment) = (m.weights().clone(), m.new_segment(30).unwrap());
        (0..30).map(|at| run(&mut m, &weights, &segment, at)).collect()
    };
    let (old, old_segment) = (m.weights().clone(), m.new_segment(30).unwrap());
    for at in 0..10 {
        assert_eq!(run(&mut m, &old, &old_segment, at), alone[at]);
    }
    learn(&mut m);
    let (new, new_segment) = (m.weights().clone(), m.new_segment(30).unwrap());
    let mut fresh = Vec::new();
    for at in 10..30 {
        assert_eq!(run(&mut m, &old, &old_segment, at), alone[at]);
        fresh.push(run(&mut m, &new, &new_segment, at - 10));
    }
    assert!(fresh.iter().zip(&alone).all(|(a, b)| a != b));
    let segment = m.new_segment(30).unwrap();
    assert!(fresh.iter().enumerate().all(|(at, row)| &run(&mut m, &new, &segment, at) == row));
}

#[test]
fn an_average_follows_the_weights_by_its_formula() {
    for lora in [false, true] {
        let mut m = trained("llama", lora);
        let mut average = m.weights().clone();
        m.blend(&mut average, 0.9).unwrap();
        assert_eq!(scores(&mut m, &average, true), present(&mut m), "of itself it is itself");
        let read = |m: &Model, weights: &Weights| -> Vec<f32> {
            let specs = m.tensors();
            specs
                .iter()
                .flat_map(|spec| {
                    let mut data = vec![0.0; spec.rows * spec.cols];
                    m.read_tensor_of(weights, &spec.name, &mut data).unwrap();
                    data
                })
                .collect()
        };
        for _ in 0..3 {
            let before = read(&m, &average);
            learn(&mut m);
            m.blend(&mut average, 0.9).unwrap();
            let (now, after) = (read(&m, &m.weights().clone()), read(&m, &average));
            for ((&e, &c), &a) in before.iter().zip(&now).zip(&after) {
                let want = if e == c { a } else { 0.9f32 * e + (1.0 - 0.9f32) * c };
                assert!((want - a).abs() <= 1e-6 * want.abs().max(1.0), "{e} {c} {a}");
            }
        }
        assert_eq!(code(m.blend(&mut average, 1.5)), "INVALID_INPUT");
        assert_eq!(code(m.blend(&mut average, f32::NAN)), "INVALID_INPUT");
    }
}

#[test]
fn under_lora_a_version_is_scored_with_and_without_its_adapters() {
    let mut m = trained("llama3", true);
    let start = m.weights().clone();
    let (with, without) = (scores(&mut m, &start, true), scores(&mut m, &start, false));
    assert_ne!(with, without);
    learn(&mut m);
    let now = m.weights().clone();
    assert_eq!(scores(&mut m, &start, true), with);
    assert_eq!(scores(&mut m, &now, false), without);
    // From before there was an adapter.
    let mut plain = model("llama3", 1, Level::available()[0]);
    let bare = plain.weights().clone();
    let before = scores(&mut plain, &bare, true);
    plain.add_lora(4, 8.0, 0.0, &["q"], 5).unwrap();
    randomise(&mut plain);
    assert_eq!(scores(&mut plain, &bare, true), before);
    assert_eq!(code(plain.read_tensor_of(&bare, "layers.0.q.lora_a", &mut [0.0; 4 * 64])), "UNKNOWN_TENSOR");
}

#[test]
fn a_digest_names_numbers_and_nothing_else() {
    let digest = |m: &Model| m.digest(m.weights()).unwrap();
    let (mut one, mut two) = (model("gpt2", 1, Level::available()[0]), model("gpt2", 2, Level::available()[0]));
    let first = digest(&one);
    assert_eq!(first, digest(&two));
    assert_eq!(first.len(), 16);
    one.add_value_head().unwrap();
    assert_eq!(digest(&one), first, "sampling does not depend on the value head");
    let mut norm = vec![0.0; 40];
    two.read_tensor("final_norm.weight", &mut norm).unwrap();
    norm[39] = f32::from_bits(norm[39].to_bits() + 1);
    two.set_tensor("final_norm.weight", &norm).unwrap();
    assert_ne!(digest(&two), first);
    norm[39] = f32::from_bits(norm[39].to_bits() - 1);
    two.set_tensor("final_norm.weight", &norm).unwrap();
    assert_eq!(digest(&two), first);
    two.add_lora(4, 8.0, 0.0, &["q"], 5).unwrap();
    assert_ne!(digest(&two), first);
}

#[test]
fn a_step_refuses_numbers_that_would_destroy_the_weights() {
    let mut m = trained("llama", false);
    let f = forest(m.config().vocab);
    let d = vec![1.0; f.tokens.len()];
    let bad = [
        StepOptions { eps: 0.0, ..STEP },
        StepOptions { eps: f32::NAN, ..STEP },
        StepOptions { beta1: 1.0, ..STEP },
        StepOptions { lora_plus_ratio: 0.0, ..STEP },
        StepOptions { lora_plus_ratio: f32::NAN, ..STEP },
        StepOptions { beta2: 1.0, ..STEP },
        StepOptions { beta2: -0.1, ..STEP },
        StepOptions { clip_norm: Some(-1.0), ..STEP },
        StepOptions { clip_norm: Some(f32::NAN), ..STEP },
        StepOptions { learning_rate: f32::INFINITY, ..STEP },
        StepOptions { value_learning_rate: Some(-1.0), ..STEP },
        StepOptions { weight_decay: f32::NAN, ..STEP },
    ];
    let before = m.read_flat(Flat::Parameters).unwrap();
    for options in bad {
        let pass = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap();
        m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
        assert_eq!(code(m.step(&options)), "INVALID_INPUT", "{options:?}");
    }
    assert_eq!(bits(&m.read_flat(Flat::Parameters).unwrap()), bits(&before));
    assert!(m.step(&STEP).unwrap().applied);
}
