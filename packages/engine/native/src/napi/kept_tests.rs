//! Memory for activations of sampling: when the thread keeps it, and when it gives it back.

use super::*;

const KEEPING: Options = Options { limits: Limits { slots: 1, cache_bytes: 16 << 20 }, activation_bytes: 1 << 20, ..OPTIONS };

fn kept(id: u64) -> Job<u64> {
    let prompt = (0..20).map(|i| (i * 7 + id as u32) % 32).collect();
    Job::Sample(Request { keep: true, ..Request::plain(id, prompt, 40) }, id)
}

/// Bytes reserved after a kept reply and a change of the weights.
fn trained(state: &mut State) -> usize {
    for job in [kept(LONG), change(2)] {
        let desk = Desk::new(1, None);
        put(&desk, job);
        serve(&desk, state, 1, |_, _| {});
    }
    state.model.activation_bytes()
}

#[test]
fn who_trained_and_then_only_samples_gives_the_memory_back_in_time() {
    let mut state = state(KEEPING);
    let held = trained(&mut state);
    assert!(held > 0, "the next rollout will take it");
    let desk = Desk::new(1, None);
    [3, 4].into_iter().for_each(|id| put(&desk, sample(id, 10, 1200)));
    let (first, last) = (state.stats().counts.steps, Cell::new(0));
    serve(&desk, &mut state, 2, |desk, _| {
        let stats = desk.stats().0;
        // An evaluation between two updates is shorter.
        assert!(stats.counts.steps > first + 2000 || stats.activation_bytes == held);
        last.set(stats.activation_bytes);
    });
    assert_eq!((last.get(), state.model.activation_bytes()), (0, 0));
    assert!(trained(&mut state) > 0, "and takes it again when it trains again");
}

#[test]
fn replies_that_are_kept_hold_it_however_long_they_are() {
    let mut state = state(KEEPING);
    let desk = Desk::new(1, None);
    (1..=60).for_each(|id| put(&desk, kept(id)));
    serve(&desk, &mut state, 60, |_, _| {});
    assert!(state.stats().counts.steps > 2048 && state.model.activation_bytes() > 0);
}

#[test]
fn who_has_nothing_to_do_gives_the_memory_back() {
    let mut state = state(Options { rest: Duration::ZERO, ..KEEPING });
    let desk = Desk::new(1, None);
    put(&desk, kept(LONG));
    let held = Cell::new(0);
    std::thread::scope(|scope| {
        let desk = &desk;
        let (settled, answered) = std::sync::mpsc::channel();
        scope.spawn(move || {
            answered.recv().unwrap();
            // As long as a test may take, where it is never given back.
            (0..2000).take_while(|_| desk.stats().0.activation_bytes > 0).for_each(|_| std::thread::sleep(Duration::from_millis(5)));
            desk.close(None);
        });
        desk.serve(&mut state, &|event| match event {
            Event::Settle(LONG, _) => put(desk, change(2)),
            Event::Settle(..) => {
                held.set(desk.stats().0.activation_bytes);
                settled.send(()).unwrap();
            }
            Event::Sampled(_) => {}
        });
    });
    assert_eq!((held.get() > 0, state.model.activation_bytes()), (true, 0));
}

#[test]
fn what_needs_memory_gets_what_is_free_of_it_before_it_is_said_that_there_is_none() {
    let mut state = state(KEEPING);
    assert!(trained(&mut state) > 0);
    assert!(!state.has_room(1 << 60));
    assert_eq!(state.model.activation_bytes(), 0);
    // What is kept of the present weights stays: nothing has changed yet.
    let desk = Desk::new(1, None);
    put(&desk, kept(3));
    serve(&desk, &mut state, 1, |_, _| {});
    assert!(!state.has_room(1 << 60) && state.model.activation_bytes() > 0);
    // The first step drops it, too.
    state.make_room_for_moments(Scope::All);
    assert_eq!(state.model.activation_bytes(), 0);
}

#[test]
fn passes_that_compute_twice_keep_nothing_and_others_keep_again() {
    let mut state = state(KEEPING);
    let mut held_after = |recompute: bool| {
        let (tokens, wanted) = ([1u32; 8], [1u8; 8]);
        let batch = TreeBatch { tokens: &tokens, node_start: &[0, 8], node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
        let want = Want { grad: true, entropy: false, values: false, hidden: false, adapters: true, recompute, dropout_seed: None };
        state.forward(None, &batch, want).unwrap();
        let before = state.model.activation_bytes();
        let desk = Desk::new(1, None);
        put(&desk, kept(LONG));
        serve(&desk, &mut state, 1, |_, _| {});
        (before, state.model.activation_bytes())
    };
    assert!(held_after(false).1 > 0);
    assert_eq!(held_after(true), (0, 0), "neither activations nor logits");
    assert!(held_after(false).1 > 0);
}
