//! Turns prompts into sampled tokens: who runs when (scheduler), what is already computed (cache), which token comes next (sampler).

mod active;
pub mod cache;
mod caches;
pub mod constraint;
pub mod history;
mod keeping;
mod loops;
pub mod prompt;
pub mod random;
pub mod request;
pub mod sampler;
pub mod scheduler;
pub mod vocabulary;

pub use cache::Namespace;
pub use constraint::{Automaton, Constraint, Masked};
pub use prompt::{AboutPrompt, PromptRead};
pub use request::{Counts, Drawn, Finish, Limits, Outcome, Request, Sampled};
pub use sampler::{PLAIN, Sampling};
pub use scheduler::{Produced, Scheduler};
pub use vocabulary::Vocabulary;
