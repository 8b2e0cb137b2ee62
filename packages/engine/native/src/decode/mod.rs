//! Turns prompts into sampled tokens: who runs when (scheduler), what is already computed (cache), which token comes next (sampler).

pub mod cache;
pub mod random;
pub mod sampler;
pub mod scheduler;

pub use sampler::Sampling;
pub use scheduler::{Finish, Limits, Outcome, Request, Sampled, Scheduler};
