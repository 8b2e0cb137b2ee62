//! Loads of many tensors: seen whole or not at all, with the optimiser's state that they bring.

mod common;
use common::*;
use stateset_engine::model::{Purpose, Staged};
use stateset_engine::*;

/// Sets every trainable tensor of a load to what another model has.
fn copy_weights(m: &mut Model, staged: &mut Staged, from: &Model, in_place: bool) {
    for spec in from.tensors().iter().filter(|spec| spec.trainable) {
        let mut data = vec![0.0; spec.rows * spec.cols];
        from.read_tensor(&spec.name, &mut data).unwrap();
        m.stage_tensor(staged, &spec.name, Values::Floats(&data), in_place).unwrap();
    }
}

/// With the moments and step counts.
fn copy_all(m: &mut Model, staged: &mut Staged, from: &Model, in_place: bool) {
    copy_weights(m, staged, from, in_place);
    for spec in from.tensors().iter().filter(|spec| spec.trainable) {
        let (mut first, mut second) = (vec![0.0; spec.rows * spec.cols], vec![0.0; spec.rows * spec.cols]);
        from.read_moments(&from.training(), &spec.name, &mut first, &mut second).unwrap();
        m.stage_moments(staged, &spec.name, &first, &second, in_place).unwrap();
    }
    let (policy, value) = from.training().step_counts();
    m.stage_steps(staged, policy, value);
}

#[test]
fn a_load_is_seen_whole_or_not_at_all_and_brings_the_optimiser_along() {
    for (lora, in_place, precision) in [
        (false, false, Precision::F32),
        (true, false, Precision::F32),
        (false, true, Precision::F32),
        (true, true, Precision::F32),
        (false, false, Precision::Bf16),
        (true, true, Precision::Bf16),
    ] {
        let [mut source, mut m] = [0; 2].map(|_| {
            let mut m = trained("gpt2", lora);
            m.set_moment_precision(precision).unwrap();
            m
        });
        (0..3).for_each(|_| learn(&mut source));
        learn(&mut m);
        let before = present(&mut m);
        let version = m.version();
        let mut staged = m.stage(Purpose::Present);
        copy_all(&mut m, &mut staged, &source, in_place);
        if in_place {
            assert_eq!(code(m.forward(&forest(1070).batch(1.0), WANT)), "WEIGHTS_INCOMPLETE");
        } else {
            assert_eq!(present(&mut m), before);
        }
        m.commit(staged).unwrap();
        assert!(m.version() > version);
        assert_eq!(present(&mut m), present(&mut source));
        learn(&mut m);
        learn(&mut source);
        assert_eq!(
            bits(&m.read_flat(Flat::Parameters).unwrap()),
            bits(&source.read_flat(Flat::Parameters).unwrap()),
            "lora {lora} in place {in_place} {precision:?}"
        );
    }
}

#[test]
fn a_load_without_moments_leaves_none_of_the_old_ones() {
    for (lora, in_place) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut used, mut fresh) = (trained("gpt2", lora), trained("gpt2", lora));
        (0..5).for_each(|_| learn(&mut used));
        // Gradients of the weights before are no concern of those after.
        add_gradients(&mut used);
        let mut source = trained("gpt2", lora);
        learn(&mut source);
        for m in [&mut used, &mut fresh] {
            let mut staged = m.stage(Purpose::Present);
            copy_weights(m, &mut staged, &source, in_place);
            m.commit(staged).unwrap();
            assert_eq!(m.training().step_counts(), (0, 0));
            learn(m);
        }
        assert_eq!(
            bits(&used.read_flat(Flat::Parameters).unwrap()),
            bits(&fresh.read_flat(Flat::Parameters).unwrap()),
            "lora {lora} in place {in_place}"
        );
    }
}

#[test]
fn moments_that_a_load_does_not_set_become_zero() {
    for in_place in [false, true] {
        let mut m = trained("llama", false);
        m.add_value_head().unwrap();
        (0..2).for_each(|_| learn(&mut m));
        let (mut first, mut second) = (vec![0.0; 1070 * 40], vec![0.0; 1070 * 40]);
        let mut staged = m.stage(Purpose::Present);
        m.stage_moments(&mut staged, "final_norm.weight", &[0.5; 40], &[0.25; 40], in_place).unwrap();
        if in_place {
            assert_eq!(code(m.step(&STEP)), "WEIGHTS_INCOMPLETE", "there are no moments to step with");
        }
        m.commit(staged).unwrap();
        m.read_moments(&m.training(), "embed", &mut first, &mut second).unwrap();
        assert!(first.iter().chain(&second).all(|&x| x == 0.0));
        m.read_moments(&m.training(), "final_norm.weight", &mut first[..40], &mut second[..40]).unwrap();
        assert_eq!((first[39], second[39]), (0.5, 0.25));
        assert_eq!(m.training().step_counts(), (0, 2), "the value head was not loaded");
        learn(&mut m);
    }
}

#[test]
fn a_load_that_is_broken_off_changes_nothing_or_says_that_it_did() {
    let source = trained("llama", false);
    let mut m = trained("llama", false);
    learn(&mut m);
    let before = present(&mut m);
    let mut staged = m.stage(Purpose::Present);
    m.stage_tensor(&mut staged, "embed", Values::Floats(&vec![0.5; 1070 * 40]), false).unwrap();
    assert_eq!(code(m.stage_tensor(&mut staged, "embed", Values::Floats(&[f32::NAN; 1070 * 40]), false)), "NOT_FINITE");
    assert_eq!(code(m.stage_tensor(&mut staged, "nothing", Values::Floats(&[]), false)), "UNKNOWN_TENSOR");
    drop(staged);
    assert_eq!(present(&mut m), before);

    let mut staged = m.stage(Purpose::Present);
    m.stage_tensor(&mut staged, "embed", Values::Floats(&vec![0.5; 1070 * 40]), true).unwrap();
    drop(staged);
    let f = forest(m.config().vocab);
    assert_eq!(code(m.forward(&f.batch(1.0), WANT)), "WEIGHTS_INCOMPLETE");
    assert_eq!(code(m.step(&STEP)), "WEIGHTS_INCOMPLETE");
    assert_eq!(code(m.read_tensor("embed", &mut vec![0.0; 1070 * 40])), "WEIGHTS_INCOMPLETE");
    assert_eq!(code(m.set_tensor("embed", &vec![0.0; 1070 * 40])), "WEIGHTS_INCOMPLETE");
    let mut part = m.stage(Purpose::Present);
    m.stage_tensor(&mut part, "embed", Values::Floats(&vec![0.5; 1070 * 40]), false).unwrap();
    assert_eq!(code(m.commit(part)), "INVALID_INPUT");
    let mut whole = m.stage(Purpose::Present);
    copy_all(&mut m, &mut whole, &source, false);
    m.commit(whole).unwrap();
    let mut source = source;
    assert_eq!(present(&mut m), present(&mut source));
}

#[test]
fn a_load_of_a_part_is_refused_when_the_rest_has_changed() {
    let mut m = trained("llama", false);
    let mut part = m.stage(Purpose::Present);
    m.stage_tensor(&mut part, "embed", Values::Floats(&vec![0.25; 1070 * 40]), false).unwrap();
    learn(&mut m);
    let now = present(&mut m);
    assert_eq!(code(m.commit(part)), "INVALID_INPUT");
    assert_eq!(present(&mut m), now);
    // All of it may come whatever happened meanwhile.
    let mut source = trained("llama", false);
    learn(&mut source);
    learn(&mut source);
    let mut whole = m.stage(Purpose::Present);
    copy_all(&mut m, &mut whole, &source, false);
    learn(&mut m);
    m.commit(whole).unwrap();
    assert_eq!(present(&mut m), present(&mut source));
}

#[test]
fn weights_loaded_beside_are_scored_with_and_never_become_the_present_ones() {
    let mut source = trained("qwen2", false);
    learn(&mut source);
    let mut m = trained("qwen2", false);
    let before = present(&mut m);
    let mut beside = m.stage(Purpose::Beside);
    for spec in source.tensors() {
        let mut data = vec![0.0; spec.rows * spec.cols];
        source.read_tensor(&spec.name, &mut data).unwrap();
        // Asked to work in place it still makes a copy: the present weights are to stay.
        m.stage_tensor(&mut beside, &spec.name, Values::Floats(&data), true).unwrap();
    }
    let kept = m.keep(beside).unwrap();
    assert_eq!(scores(&mut m, &kept, true), present(&mut source));
    assert_eq!(present(&mut m), before);
    assert_ne!(kept.version(), m.version());
    let other = m.stage(Purpose::Beside);
    assert_eq!(code(m.commit(other)), "INVALID_INPUT");
    let grad = Want { grad: true, ..WANT };
    assert_eq!(code(m.forward_on(&kept, &forest(1070).batch(1.0), grad)), "INVALID_INPUT");
}
