//! Where there is no memory, every call that wants much of it fails with OUT_OF_MEMORY and changes nothing. The allocator of this process refuses
//! on demand: an allocation that cannot say no would end the process, and the test with it.

mod common;
use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use stateset_engine::simd::Level;
use stateset_engine::*;

struct Refusing;

thread_local! {
    /// Allocations of at least so many bytes are counted, and refused from the one on that is not allowed any more. Of one thread: tests run
    /// side by side, and the engine reserves what its helpers use in the thread that calls it.
    static LARGE: Cell<usize> = const { Cell::new(usize::MAX) };
    static ALLOWED: Cell<usize> = const { Cell::new(0) };
}

fn refuses(bytes: usize) -> bool {
    if bytes < LARGE.get() {
        return false;
    }
    let left = ALLOWED.get();
    ALLOWED.set(left.saturating_sub(1));
    left == 0
}

unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses(size) { std::ptr::null_mut() } else { unsafe { System.realloc(at, layout, size) } }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Tries `call` with room for no large allocation, for one, for two, … until it succeeds. Every try before must be OUT_OF_MEMORY and leave
/// the model scoring as it did. Returns what could not be reserved, in the words of the messages, and what the call gave at last.
fn starve<T>(m: &mut Model, large: usize, mut call: impl FnMut(&mut Model) -> Result<T, EngineError>) -> (BTreeSet<String>, T) {
    let before = present(m);
    let mut refused = BTreeSet::new();
    for allowed in 0..1000 {
        ALLOWED.set(allowed);
        LARGE.set(large);
        let result = call(m);
        LARGE.set(usize::MAX);
        let error = match result {
            Ok(value) => return (refused, value),
            Err(error) => error,
        };
        assert_eq!(error.code, "OUT_OF_MEMORY", "{error}");
        let what = error.message.split(" for ").nth(1).and_then(|rest| rest.split(". ").next());
        refused.insert(what.unwrap_or_else(|| panic!("{error}")).to_string());
        assert!(present(m) == before, "after {error}");
    }
    panic!("it wants more than 1000 large allocations: {refused:?}");
}

fn words(some: &[&str]) -> BTreeSet<String> {
    some.iter().map(|word| (*word).to_string()).collect()
}

const KIB: usize = 1 << 10;

#[test]
fn reading_all_parameters_or_gradients() {
    let mut m = trained("llama", false);
    add_gradients(&mut m);
    for what in [Flat::Parameters, Flat::Gradients] {
        let plenty = m.read_flat(what).unwrap();
        let (refused, at_last) = starve(&mut m, 4 * KIB, |m| m.read_flat(what));
        assert_eq!(refused, words(&["all parameters in one piece"]));
        assert!(at_last == plenty);
    }
}

#[test]
fn writing_all_parameters() {
    // Tensors of adapters are smaller.
    for (lora, large) in [(false, 4 * KIB), (true, KIB / 2)] {
        let mut m = trained("llama", lora);
        let was = m.read_flat(Flat::Parameters).unwrap();
        let new: Vec<f32> = (0..was.len()).map(|i| uniform(8, i)).collect();
        // Somebody holds the weights, so that changing them takes a copy.
        let held = m.weights().clone();
        let (refused, ()) = starve(&mut m, large, |m| {
            m.write_flat(&new).inspect_err(|_| assert!(held.version() == m.weights().version(), "a refused change is no change"))
        });
        assert_eq!(refused, words(&["a second version of the weights"]));
        assert_eq!(m.read_flat(Flat::Parameters).unwrap(), new);
    }
}

#[test]
fn hidden_states() {
    for grad in [false, true] {
        let mut m = trained("llama", false);
        let f = forest(m.config().vocab);
        let want = Want { hidden: true, grad, ..WANT };
        let plenty = m.forward(&f.batch(1.0), want).unwrap().hidden;
        let mut fresh = trained("llama", false);
        let (refused, pass) = starve(&mut fresh, 4 * KIB, |m| m.forward(&f.batch(1.0), want));
        assert!(refused.contains("hidden states"), "{refused:?}");
        assert!(pass.hidden == plenty);
    }
}

/// Longer than anything seen before, so that the tables of positions have to grow.
fn long_model() -> Model {
    let config = Config { head_dim: 64, max_positions: 4096, sliding_window: Some(16), ..config("llama") };
    let mut m = Model::with_level(config, 2, Level::available()[0]).unwrap();
    randomise(&mut m);
    m
}

#[test]
fn positions_beyond_those_seen_in_training_passes() {
    let tokens: Vec<u32> = (0..1500u32).map(|i| i % 1000).collect();
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &[0, 1500], node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
    let plenty = long_model().forward(&batch, WANT).unwrap().logprobs;
    let (refused, pass) = starve(&mut long_model(), 64 * KIB, |m| m.forward(&batch, WANT));
    assert!(refused.contains("rotary positions"), "{refused:?}");
    assert!(bits(&pass.logprobs) == bits(&plenty), "tables that were refused halfway grow whole later");
}

#[test]
fn positions_beyond_those_seen_in_decoding() {
    let tokens: Vec<u32> = (0..1500u32).map(|i| i % 1000).collect();
    let run = |m: &mut Model, segment: &Arc<KvSegment>| {
        let mut logits = Vec::new();
        m.infer(&[Chunk { path: &[], segment, tokens: &tokens, want_logits: Some(1.0), want_hidden: false }], &mut logits).map(|()| logits)
    };
    let mut m = long_model();
    let segment = m.new_segment(1500).unwrap();
    let plenty = run(&mut m, &segment).unwrap();
    let mut m = long_model();
    let segment = m.new_segment(1500).unwrap();
    let (refused, logits) = starve(&mut m, 64 * KIB, |m| {
        run(m, &segment).inspect_err(|_| assert!(segment.is_empty(), "a refused step leaves the segment as it was"))
    });
    assert!(refused.contains("rotary positions"), "{refused:?}");
    assert!(bits(&logits) == bits(&plenty));
}

#[test]
fn activations_that_find_no_memory_are_not_kept() {
    let mut m = trained("llama", false);
    let tokens: Vec<u32> = (0..40).collect();
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &[0, 40], node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
    let want = Want { grad: true, ..WANT };
    let plenty = bits(&m.forward(&batch, want).unwrap().logprobs);
    m.set_activation_bytes(64 << 20);
    let refusing = |on: bool| {
        ALLOWED.set(0);
        LARGE.set(if on { 4 * KIB } else { usize::MAX });
    };
    let segment = m.new_segment(40).unwrap();
    refusing(true);
    assert!(!m.keep_next(&segment, 40));
    refusing(false);
    assert!(m.keep_next(&segment, 40));
    m.infer(&[Chunk { path: &[], segment: &segment, tokens: &tokens[..39], want_logits: None, want_hidden: false }], &mut Vec::new())
        .unwrap();
    assert_eq!(segment.kept(), 39);
    let weights = m.weights().clone();
    let (refused, pass) =
        starve(&mut m, 4 * KIB, |m| m.forward_from(&weights, &batch, want, &|_| vec![KvSpan { segment: segment.clone(), used: 39 }]));
    assert!(refused.contains("activations"), "{refused:?}");
    assert!(bits(&pass.logprobs) == plenty);
}
