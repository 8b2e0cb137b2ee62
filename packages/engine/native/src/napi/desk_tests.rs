//! The thread's turns without Node: tickets are numbers, answers are collected.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::super::state::{Load, Options, told_to_fail};
use super::*;
use crate::decode::Limits;
use crate::model::{Pass, Purpose, Scope, Trainable, TreeBatch, Want};
use crate::testing::{model, noise};

const OPTIONS: Options = Options {
    limits: Limits { slots: 4, cache_bytes: 16 << 20 },
    max_waiting: None,
    version_bytes: None,
    activation_bytes: 0,
    drain: Duration::from_secs(30),
    rest: Duration::from_secs(30),
    fails_after: None,
};

const LONG: u64 = 1;

fn state(options: Options) -> State {
    let mut model = model();
    for (seed, spec) in model.tensors().iter().enumerate() {
        model.set_tensor(&spec.name, &noise(seed as u64, spec.rows * spec.cols)).unwrap();
    }
    model.set_trainable(Trainable::Full).unwrap();
    State::new(model, options)
}

fn sample(id: u64, length: usize, max_tokens: usize) -> Job<u64> {
    let prompt = (0..length as u32).map(|i| (i * 7 + id as u32) % 32).collect();
    Job::Sample(Request { stream: true, ..Request::plain(id, prompt, max_tokens) }, id)
}

fn work(cost: Option<Cost>, run: impl FnOnce(&mut State) -> Result<Reply, EngineError> + Send + 'static, ticket: u64) -> Job<u64> {
    Job::Work(Work { cost, held: None, run: Box::new(run) }, ticket)
}

/// Sets a tensor, as a change of the weights.
fn change(ticket: u64) -> Job<u64> {
    let cost: Cost = Box::new(|state| state.model.change_cost(&state.model.stores_in(Scope::All)));
    let run = move |state: &mut State| {
        state.model.set_tensor("final_norm.weight", &noise(90 + ticket, 16))?;
        Ok(Reply::Object(state.changed(state.drained)))
    };
    work(Some(cost), run, ticket)
}

/// A tensor into a load, as `napi/weights.rs` does it.
fn load(id: u64, name: &'static str, data: Vec<f32>, ticket: u64) -> Job<u64> {
    let cost: Cost = Box::new(move |state| state.loads.get(&id).map_or(0, |load| state.model.stage_cost(&load.staged, name, false)));
    let run = move |state: &mut State| {
        state.load(
            id,
            |model, staged| model.stage_cost(staged, name, false),
            |model, staged, in_place| model.stage_tensor(staged, name, crate::model::Values::Floats(&data), in_place),
        )
    };
    Job::Work(Work { cost: Some(cost), held: Some(id), run: Box::new(run) }, ticket)
}

fn commit(id: u64, ticket: u64) -> Job<u64> {
    let run = move |state: &mut State| {
        let load = state.end_load(id)?;
        state.model.commit(load.staged)?;
        Ok(Reply::Object(state.changed(load.drained)))
    };
    Job::Work(Work { cost: None, held: Some(id), run: Box::new(run) }, ticket)
}

fn begin(state: &mut State) -> u64 {
    let (id, staged) = (state.next_id(), state.model.stage(Purpose::Present));
    state.loads.insert(id, Load { staged, drained: false });
    id
}

type Answers = Vec<(u64, Result<Reply, EngineError>)>;

/// Serves until all of `wanted` are answered. `on_step` is called after each decoding step, with the ids that drew a token in it.
fn serve(desk: &Desk<u64>, state: &mut State, wanted: usize, on_step: impl Fn(&Desk<u64>, &[u64])) -> Answers {
    let answers: RefCell<Answers> = RefCell::default();
    let steps = Cell::new(state.stats().counts.steps);
    desk.serve(state, &|event| match event {
        Event::Sampled(sampled) => {
            let ids: Vec<u64> = sampled.iter().map(|sampled| sampled.id).collect();
            steps.set(steps.get() + 1);
            assert_eq!(desk.stats().0.counts.steps, steps.get(), "every step is heard of");
            on_step(desk, &ids);
        }
        Event::Settle(ticket, outcome) => {
            answers.borrow_mut().push((ticket, outcome));
            if answers.borrow().len() == wanted {
                desk.close(None);
            }
        }
    });
    answers.into_inner()
}

fn field<'a>(answers: &'a Answers, ticket: u64, name: &str) -> &'a Reply {
    let (_, outcome) = answers.iter().find(|(other, _)| *other == ticket).unwrap();
    match outcome {
        Ok(Reply::Object(fields)) => &fields.iter().find(|(other, _)| *other == name).unwrap().1,
        Ok(_) => panic!("{ticket} has no fields"),
        Err(error) => panic!("{ticket}: {error}"),
    }
}

fn number(answers: &Answers, ticket: u64, name: &str) -> f64 {
    match field(answers, ticket, name) {
        Reply::Number(number) => *number,
        _ => panic!("{name} is no number"),
    }
}

fn flag(answers: &Answers, ticket: u64, name: &str) -> bool {
    matches!(field(answers, ticket, name), Reply::Flag(true))
}

fn code(answers: &Answers, ticket: u64) -> &'static str {
    let (_, outcome) = answers.iter().find(|(other, _)| *other == ticket).unwrap();
    outcome.as_ref().map_or_else(|error| error.code, |_| "no error")
}

fn put(desk: &Desk<u64>, job: Job<u64>) {
    assert!(desk.put(job).is_ok());
}

/// After five tokens of a 900-token reply: a change and, behind it, a request of 256 tokens. Gives the answers, the steps from there to
/// the request's first token, and the engine's statistics at that moment.
fn behind_a_change(state: &mut State) -> (Answers, u64, Stats) {
    let desk = Desk::new(4, None);
    put(&desk, sample(LONG, 20, 900));
    let (heard, asked, first) = (Cell::new(0), Cell::new(0), Cell::new(None));
    let answers = serve(&desk, state, 3, |desk, ids| {
        heard.set(heard.get() + ids.iter().filter(|&&id| id == LONG).count());
        let steps = desk.stats().0.counts.steps;
        if heard.get() == 5 && asked.get() == 0 {
            asked.set(steps);
            put(desk, change(2));
            put(desk, sample(3, 256, 8));
        }
        if ids.contains(&3) && first.get().is_none() {
            first.set(Some((steps - asked.get(), desk.stats().0)));
        }
    });
    let (steps, stats) = first.get().unwrap();
    (answers, steps, stats)
}

#[test]
fn the_first_token_behind_a_change_and_a_long_reply_comes_within_three_steps() {
    let mut state = state(OPTIONS);
    let version = state.model.version();
    let (answers, steps, stats) = behind_a_change(&mut state);
    assert!(steps <= 3, "{steps} steps");
    assert_eq!((stats.versions, stats.running), (2, 2), "two versions live side by side");
    assert!(!flag(&answers, 2, "drained"));
    let versions = [LONG, 2, 3].map(|ticket| number(&answers, ticket, "version") as u64);
    assert_eq!(versions, [version, version + 1, version + 1]);
    assert_eq!(state.stats().versions, 1);
    assert_eq!(state.beside(), (0, 0), "the old version went with its last reply");
}

#[test]
fn without_room_for_a_second_version_a_change_waits_for_the_replies_and_says_so() {
    let mut state = state(Options { version_bytes: Some(0), ..OPTIONS });
    let version = state.model.version();
    let memory = state.model.memory_bytes();
    let (answers, steps, stats) = behind_a_change(&mut state);
    assert!(steps > 800, "{steps} steps");
    assert_eq!((stats.versions, stats.running, stats.drains), (1, 1, 1));
    assert!(flag(&answers, 2, "drained"));
    let versions = [LONG, 2, 3].map(|ticket| number(&answers, ticket, "version") as u64);
    assert_eq!(versions, [version, version + 1, version + 1]);
    // Scratch grew with the sampling; the weights were not copied.
    assert!(state.model.memory_bytes() >= memory && state.beside() == (0, 0));
}

#[test]
fn a_change_that_waits_too_long_fails_and_the_replies_go_on() {
    let mut state = state(Options { version_bytes: Some(0), drain: Duration::ZERO, ..OPTIONS });
    let version = state.model.version();
    let (answers, steps, _) = behind_a_change(&mut state);
    assert_eq!(code(&answers, 2), "DRAIN_TIMEOUT");
    assert!(steps <= 3, "{steps} steps");
    assert_eq!([LONG, 3].map(|ticket| number(&answers, ticket, "version") as u64), [version; 2]);
    // Nothing runs any more: now it goes through.
    let desk = Desk::new(4, None);
    put(&desk, change(9));
    let answers = serve(&desk, &mut state, 1, |_, _| {});
    assert!(!flag(&answers, 9, "drained"));
}

#[test]
fn a_load_beside_running_replies_is_one_change() {
    let mut state = state(OPTIONS);
    let version = state.model.version();
    let id = begin(&mut state);
    let desk = Desk::new(4, None);
    put(&desk, sample(LONG, 20, 200));
    let answers = serve(&desk, &mut state, 6, |desk, ids| {
        let steps = desk.stats().0.counts.steps;
        match steps {
            5 => put(desk, load(id, "embed", noise(70, 32 * 16), 2)),
            // Asked for in the middle of the load: still all old.
            6 => put(desk, sample(3, 10, 20)),
            7 => put(desk, load(id, "final_norm.weight", noise(71, 16), 4)),
            8 => {
                put(desk, commit(id, 5));
                put(desk, sample(6, 10, 20));
            }
            _ => assert!(!ids.is_empty()),
        }
    });
    let versions = [LONG, 3, 5, 6].map(|ticket| number(&answers, ticket, "version") as u64);
    assert_eq!(versions, [version, version, version + 1, version + 1]);
    assert!(!flag(&answers, 5, "drained"));
    assert_eq!(state.beside(), (0, 0));
}

#[test]
fn a_load_without_room_works_in_place_and_lets_nobody_see_it_half_done() {
    let mut state = state(Options { version_bytes: Some(0), ..OPTIONS });
    let version = state.model.version();
    let id = begin(&mut state);
    let desk = Desk::new(4, None);
    put(&desk, load(id, "embed", noise(70, 32 * 16), 2));
    // These come in the middle of the load, and wait for its end.
    put(&desk, sample(3, 10, 20));
    put(&desk, work(None, |state| Ok(Reply::Text(state.model.digest(state.model.weights())?)), 4));
    put(&desk, load(id, "final_norm.weight", noise(71, 16), 5));
    put(&desk, commit(id, 6));
    let answers = serve(&desk, &mut state, 5, |_, _| {});
    let order: Vec<u64> = answers.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(order, [2, 5, 6, 4, 3]);
    assert!(flag(&answers, 6, "drained"));
    assert_eq!(number(&answers, 3, "version") as u64, version + 1);
    assert_eq!(state.stats().drains, 1);
}

#[test]
fn the_first_weights_of_a_model_are_loaded_in_place() {
    let mut state = State::new(model(), OPTIONS);
    let memory = state.model.memory_bytes();
    let id = begin(&mut state);
    let desk = Desk::new(4, None);
    put(&desk, load(id, "embed", noise(70, 32 * 16), 2));
    put(&desk, work(None, |state| Ok(Reply::Number(state.beside().0 as f64)), 9));
    put(&desk, commit(id, 3));
    let answers = serve(&desk, &mut state, 3, |_, _| {});
    assert_eq!(number(&answers, 3, "version"), 1.0);
    assert!(!flag(&answers, 3, "drained"));
    assert_eq!(state.model.memory_bytes(), memory);
}

#[test]
fn a_load_that_javascript_forgets_is_discarded_and_a_broken_one_is_known() {
    let mut state = state(OPTIONS);
    let (version, id) = (state.model.version(), begin(&mut state));
    let desk = Desk::new(4, None);
    put(&desk, load(id, "embed", noise(70, 32 * 16), 2));
    put(&desk, Job::Forget(id));
    put(&desk, commit(id, 3));
    put(&desk, sample(4, 10, 5));
    let answers = serve(&desk, &mut state, 3, |_, _| {});
    assert_eq!([2, 3, 4].map(|ticket| code(&answers, ticket)), ["no error", "INVALID_INPUT", "no error"]);
    assert_eq!(number(&answers, 4, "version") as u64, version);
    assert_eq!(state.beside(), (0, 0));

    state.options.version_bytes = Some(0);
    let id = begin(&mut state);
    let desk = Desk::new(4, None);
    put(&desk, load(id, "embed", noise(70, 32 * 16), 2));
    put(&desk, sample(4, 10, 5));
    put(&desk, change(5));
    put(&desk, Job::Forget(id));
    let answers = serve(&desk, &mut state, 3, |_, _| {});
    assert_eq!([2, 4, 5].map(|ticket| code(&answers, ticket)), ["no error", "WEIGHTS_INCOMPLETE", "WEIGHTS_INCOMPLETE"]);
    // Only something whole helps.
    let id = begin(&mut state);
    let desk = Desk::new(4, None);
    let specs = state.model.tensors();
    for (i, spec) in specs.iter().enumerate() {
        let name: &'static str = spec.name.clone().leak();
        put(&desk, load(id, name, noise(i as u64, spec.rows * spec.cols), 10 + i as u64));
    }
    put(&desk, commit(id, 8));
    put(&desk, sample(9, 10, 5));
    let answers = serve(&desk, &mut state, specs.len() + 2, |_, _| {});
    assert_eq!([8, 9].map(|ticket| code(&answers, ticket)), ["no error", "no error"]);
}

fn training_pass(state: &mut State) -> Pass {
    let (tokens, wanted) = ([1u32; 64], [1u8; 64]);
    let batch = TreeBatch { tokens: &tokens, node_start: &[0, 64], node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
    let want = Want { grad: true, entropy: false, values: false, hidden: false, adapters: true, recompute: false, dropout_seed: None };
    state.forward(None, &batch, want).unwrap()
}

#[test]
fn a_training_pass_takes_the_split_copy_of_the_weights_only_when_nobody_samples_from_them() {
    const FLOATS: usize = 1 << 16;
    let mut state = state(OPTIONS);
    let bytes = |state: &State| state.model.weights().bytes_beside(&mut Vec::new());
    let plain = bytes(&state);
    let copied = plain + 4 * FLOATS;
    // Somebody waits for a slot, then runs.
    let request = Request::plain(LONG, vec![1, 2, 3], 900);
    state.scheduler.submit(&state.model, request).unwrap();
    for _ in 0..3 {
        state.model.plant_split(FLOATS);
        assert_eq!((training_pass(&mut state).bytes() < 4 * FLOATS, bytes(&state)), (true, copied));
        state.scheduler.step(&mut state.model);
    }
    // Of other weights than those that are trained now.
    state.model.set_tensor("final_norm.weight", &noise(5, 16)).unwrap();
    state.model.plant_split(FLOATS);
    assert_eq!((training_pass(&mut state).bytes(), bytes(&state)), (4 * FLOATS, plain));
    assert!(state.scheduler.held().all(|held| held.bytes_beside(&mut Vec::new()) == copied));
    state.scheduler.cancel(LONG);
    state.model.plant_split(FLOATS);
    assert_eq!((training_pass(&mut state).bytes(), bytes(&state)), (4 * FLOATS, plain));
}

#[test]
fn a_pass_that_javascript_forgets_is_freed() {
    let mut state = state(OPTIONS);
    let pass = training_pass(&mut state);
    assert!(pass.bytes() > 0);
    let id = state.next_id();
    state.passes.insert(id, pass);
    let desk = Desk::new(4, None);
    put(&desk, Job::Forget(id));
    put(&desk, work(None, |state| Ok(Reply::Number(state.passes.len() as f64)), 1));
    serve(&desk, &mut state, 1, |_, _| {});
    assert!(state.passes.is_empty());
}

#[test]
fn requests_beyond_those_that_may_wait_are_refused_at_once_and_all_are_counted() {
    let mut state = state(Options { limits: Limits { slots: 2, ..OPTIONS.limits }, ..OPTIONS });
    let desk = Desk::new(2, Some(3));
    let refused: Vec<Option<u64>> =
        (1..=8).map(|id| desk.put(sample(id, 10, 6)).err().and_then(|(ticket, error)| ticket.filter(|_| error.code == "BUSY"))).collect();
    assert_eq!(refused, [None, None, None, None, None, Some(6), Some(7), Some(8)]);
    assert_eq!(desk.stats().1, 5);
    desk.cancel(5);
    let answers = serve(&desk, &mut state, 5, |desk, _| {
        let (stats, waiting) = desk.stats();
        assert!(stats.running <= 2 && waiting <= 2);
        assert_eq!(stats.slots, 2);
    });
    assert_eq!(answers.len(), 5);
    let (stats, waiting) = desk.stats();
    assert_eq!((stats.running, waiting), (0, 0));
    assert_eq!((stats.counts.prompt_tokens, stats.counts.sampled_tokens), (40, 24));
    assert!(stats.cache_bytes > 0);
    assert!(desk.put(sample(9, 10, 6)).err().is_some_and(|(_, error)| error.code == "CLOSED"));
}

#[test]
fn a_panic_ends_the_engine_and_everybody_is_told() {
    let mut state = state(OPTIONS);
    let desk = Desk::new(4, None);
    put(&desk, sample(LONG, 20, 900));
    let answers = serve(&desk, &mut state, usize::MAX, |desk, _| {
        if desk.stats().0.counts.steps == 3 {
            put(desk, work(None, |_| panic!("on purpose"), 2));
        }
    });
    assert_eq!([2, LONG].map(|ticket| code(&answers, ticket)), ["ENGINE_FAILED", "ENGINE_FAILED"]);
    assert!(desk.failed());
    // Who comes later is told the same, also once it is closed.
    desk.close(None);
    assert!(desk.put(sample(3, 10, 6)).err().is_some_and(|(_, error)| error.code == "ENGINE_FAILED"));
    assert!(desk.exit().2.message.contains("on purpose") && desk.stats().0.running == 0);
}

#[test]
fn an_engine_that_is_told_to_fails_in_that_step() {
    assert_eq!([0, 1, 2].map(|failures| told_to_fail(Some("50, 20"), failures)), [Some(50), Some(20), None]);
    assert_eq!(told_to_fail(None, 0), None);
    let mut state = state(Options { fails_after: Some(7), ..OPTIONS });
    let desk = Desk::new(4, None);
    put(&desk, sample(LONG, 20, 900));
    let answers = serve(&desk, &mut state, usize::MAX, |_, _| {});
    assert_eq!((code(&answers, LONG), state.stats().counts.steps), ("ENGINE_FAILED", 7));
    assert!(desk.failed());
}

#[path = "kept_tests.rs"]
mod kept;
