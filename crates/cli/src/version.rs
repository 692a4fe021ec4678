//! `glassformer --version -v`: which program this is.

use glassformer::Cpu;
use glassformer::cpu::lowp::Dot;

use crate::settings::Settings;

/// Whether details are asked for. The parser stops at `--version` and looks at no other flag.
pub fn is_detailed(words: impl Iterator<Item = String>) -> bool {
    let short = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.contains('v');
    words.take_while(|word| word != "--").any(|word| word == "--verbose" || short(&word))
}

/// The version with all that tells this program from another.
pub fn details() -> String {
    let cpu = Cpu::new(1);
    let known: Vec<&str> = Dot::available().iter().map(|dot| dot.word()).collect();
    let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    let lines = [
        ("commit", env!("GLASSFORMER_COMMIT").to_owned()),
        ("built for", env!("GLASSFORMER_TARGET").to_owned()),
        (
            "instructions",
            format!("{}, and {} for few bits; this machine has {}", cpu.isa(), cpu.dot(), known.join(", ")),
        ),
        ("features", or_none(env!("GLASSFORMER_FEATURES"))),
        (
            "configuration",
            Settings::file().map_or("none".to_owned(), |path| {
                let there = if path.exists() { "" } else { " (not there)" };
                format!("{}{there}", path.display())
            }),
        ),
    ];
    let lines = lines.iter().map(|(name, text)| format!("{name:<14} {text}\n"));
    format!("glassformer {}\n{}", env!("CARGO_PKG_VERSION"), lines.collect::<String>())
}
