//! Which of a machine's instructions are used.

use super::Level;
use crate::error::EngineError;
use crate::gemm::{amx_available, pairs_available};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instructions {
    pub level: Level,
    /// Products on the AMX unit.
    pub amx: bool,
    /// Gradient products of bf16 by AVX512-BF16, where the AMX unit does not make them.
    pub pairs: bool,
}

impl Instructions {
    /// The best the machine has, or what `STATESET_SIMD` asks for: the name of a level is that level and nothing beyond it.
    pub fn choose() -> Result<Instructions, EngineError> {
        match std::env::var("STATESET_SIMD") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Instructions { level: Level::available()[0], amx: amx_available(), pairs: pairs_available() }),
        }
    }

    fn named(name: &str) -> Result<Instructions, EngineError> {
        let levels = Level::available();
        let best = levels[0];
        let units = [("amx", amx_available()), ("avx512_bf16", pairs_available())];
        match name {
            "amx" if units[0].1 => return Ok(Instructions { level: best, amx: true, pairs: units[1].1 }),
            "avx512_bf16" if units[1].1 => return Ok(Instructions { level: best, amx: false, pairs: true }),
            _ => {}
        }
        let found = levels.iter().copied().find(|level| level.name() == name);
        found.map(|level| Instructions { level, amx: false, pairs: false }).ok_or_else(|| {
            let there = units.iter().filter(|(_, there)| *there).map(|(name, _)| *name);
            let names: Vec<_> = there.chain(levels.iter().map(|level| level.name())).collect();
            EngineError::config(format!("STATESET_SIMD is \"{name}\", which this machine cannot run. Use one of: {}.", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_says_and_nothing_beyond() {
        for level in Level::available() {
            assert_eq!(Instructions::named(level.name()).unwrap(), Instructions { level, amx: false, pairs: false });
        }
        for (name, there) in [("amx", amx_available()), ("avx512_bf16", pairs_available())] {
            assert_eq!(
                Instructions::named(name).is_ok_and(|found| if name == "amx" { found.amx } else { found.pairs && !found.amx }),
                there
            );
        }
        let refused = Instructions::named("sse").unwrap_err().message;
        assert!(refused.contains("\"sse\"") && refused.contains("scalar"), "{refused}");
        assert_eq!(refused.contains("avx512_bf16,"), pairs_available());
    }
}
