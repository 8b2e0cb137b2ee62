//! The one error type of the crate: a stable code for programs and a message for people.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    /// Stable, upper-case, e.g. `INVALID_CONFIG`, `UNKNOWN_TENSOR`, `OUT_OF_MEMORY`.
    pub code: &'static str,
    pub message: String,
}

impl EngineError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        EngineError { code, message: message.into() }
    }
    pub fn config(message: impl Into<String>) -> Self {
        Self::new("INVALID_CONFIG", message)
    }
    pub fn input(message: impl Into<String>) -> Self {
        Self::new("INVALID_INPUT", message)
    }
    pub fn tensor(message: impl Into<String>) -> Self {
        Self::new("UNKNOWN_TENSOR", message)
    }
    pub fn memory(what: &str, bytes: usize) -> Self {
        Self::new(
            "OUT_OF_MEMORY",
            format!(
                "Could not reserve {:.1} MB for {what}. Use a smaller batch, shorter sequences, layer recomputation, or a machine with more memory.",
                bytes as f64 / 1e6
            ),
        )
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for EngineError {}
