//! From a file to a configuration that can be: read, with paths made plain, and checked.
//!
//! A key that is not known is an error that names the nearest one. Paths are relative to the file.

use std::path::{Component, Path, PathBuf};

use glassformer_tokens::Learn;

use super::{Config, FormulaText, Objective, Optimiser, Regularise, Source};
use crate::Error;

/// The most tokens of a batch: a thousand times what one machine takes.
const MOST_TOKENS: usize = 1 << 24;

/// The highest rank of what learns beside a matrix: no matrix has a higher one.
const MOST_RANK: usize = 1 << 16;

impl Config {
    /// Reads the configuration at `path`.
    ///
    /// # Errors
    /// If it cannot be read, has a key that is not known, or says what cannot be.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        config.resolve(&folder);
        Ok(config)
    }

    /// Reads a configuration from `text`; `place` names it in errors.
    ///
    /// # Errors
    /// If it has a key that is not known, or says what cannot be.
    pub fn parse(text: &str, place: &str) -> Result<Self, Error> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or(place.to_owned(), |line| format!("{place}, line {line}"));
            let (what, hint) = explain(error.message());
            Error::Config { place, what, hint }
        })?;
        config.check()?;
        Ok(config)
    }

    /// Where the configuration is kept that its folder was begun with.
    pub(crate) fn begun_with(&self) -> PathBuf {
        self.out.join("config.json")
    }

    /// Makes all paths relative to `folder`, and straight.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        let fix = |path: &mut PathBuf| *path = straight(&folder.join(&*path));
        fix(&mut self.out);
        self.tokenizer.folder.iter_mut().for_each(fix);
        self.model.checkpoint.iter_mut().for_each(fix);
        if let Some(FormulaText::File(path)) = &mut self.model.formula {
            fix(path);
        }
        self.data.train.iter_mut().chain(&mut self.data.valid).for_each(|source| fix(&mut source.path));
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |wrong: bool, what: &str, hint: &str| {
            if wrong { Err(Error::config(what, hint)) } else { Ok(()) }
        };
        let model = &self.model;
        let given = [model.formula.is_some(), model.shape.is_some(), model.checkpoint.is_some()];
        wrong(
            given.into_iter().filter(|given| *given).count() != 1,
            "[model] needs either formula, shape or checkpoint",
            "give exactly one of them",
        )?;
        wrong(
            model.lora.is_some() && model.checkpoint.is_none(),
            "model.lora needs a checkpoint",
            "train all weights of a formula, or name a checkpoint",
        )?;
        let rank = model.lora.as_ref().map(|lora| lora.rank);
        wrong(rank == Some(0), "model.lora.rank is 0", "8 is usual")?;
        wrong(rank > Some(MOST_RANK), "model.lora.rank is more than 2¹⁶", "8 is usual")?;
        let learns = model.checkpoint.is_none() && self.tokenizer.folder.is_none();
        wrong(
            learns && self.tokenizer.size > Learn::LARGEST,
            "tokenizer.size is more than 2²²",
            "8000 is usual, and 250000 for many languages",
        )?;
        wrong(self.data.train.is_empty(), "data.train is empty", "name a file to learn from")?;
        wrong(self.schedule.steps == 0, "schedule.steps is 0", "say how many steps to train for")?;
        let positive = |x: f32| x.is_finite() && x > 0.0;
        wrong(!positive(self.schedule.rate), "schedule.rate is not a positive number", "0.001 is usual")?;
        let longest = match self.objective {
            Objective::Embed => self.data.length.saturating_mul(2),
            _ => self.data.length.saturating_add(2),
        };
        wrong(
            self.batch.tokens < longest,
            "batch.tokens is less than the longest text with its marks, or than both texts of a pair",
            "raise batch.tokens or lower data.length",
        )?;
        wrong(self.batch.tokens > MOST_TOKENS, "batch.tokens is more than 2²⁴", "4096 is usual")?;
        wrong(self.batch.accumulate == 0 || self.batch.pool == 0, "a batch setting is 0", "1 is the least")?;
        wrong(self.data.length < 4, "data.length is less than 4", "128 is usual")?;
        wrong(!(0.0..1.0).contains(&self.data.held_out), "data.held_out is not in [0, 1)", "0.01 is usual")?;
        wrong(
            !(self.data.hidden > 0.0 && self.data.hidden < 1.0),
            "data.hidden is not between 0 and 1",
            "0.15 is usual",
        )?;
        let share = |x: f32| (0.0..1.0).contains(&x);
        let Optimiser { beta1, beta2, epsilon, decay, clip, group } = &self.optimiser;
        wrong(
            !share(*beta1) || !share(*beta2),
            "a beta of the optimiser is not in [0, 1)",
            "0.9 and 0.98 are usual",
        )?;
        wrong(!positive(*epsilon), "optimiser.epsilon is not a positive number", "1e-8 is usual")?;
        let finite = |x: f32| x.is_finite() && x >= 0.0;
        let decays = group.iter().filter_map(|group| group.decay).chain([*decay, *clip]);
        wrong(
            !decays.into_iter().chain(group.iter().map(|group| group.rate)).all(finite),
            "a decay, clip or rate of the optimiser is not a number from 0 on",
            "0.01, 1.0 and 1.0 are usual",
        )?;
        wrong(!(0.0..=1.0).contains(&self.schedule.last), "schedule.last is not in [0, 1]", "0.1 is usual")?;
        let alpha = model.lora.as_ref().map_or(0.0, |lora| lora.alpha);
        wrong(!alpha.is_finite(), "model.lora.alpha is not a number", "twice the rank is usual")?;
        let Regularise { dropout, smoothing, average } = self.regularise;
        wrong(!share(dropout), "regularise.dropout is not in [0, 1)", "0.1 is usual")?;
        wrong(!share(smoothing), "regularise.smoothing is not in [0, 1)", "0.1 is usual")?;
        wrong(!share(average), "regularise.average is not in [0, 1)", "0.999 is usual")?;
        let kept = &self.checkpoint;
        wrong(
            kept.every == 0 || kept.check == 0 || kept.keep == 0,
            "a checkpoint setting is 0",
            "1 is the least",
        )?;
        let bad = |source: &Source| !(source.weight >= 0.0 && source.weight <= 1000.0);
        wrong(self.data.train.iter().any(bad), "a weight of data.train is not in 0 to 1000", "1 is usual")
    }
}

/// The same path without `x/..`, where x is no link to elsewhere: people read it.
fn straight(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for part in path.components() {
        let back = part == Component::ParentDir
            && matches!(all.components().next_back(), Some(Component::Normal(_)))
            && !all.is_symlink();
        if back {
            all.pop();
        } else if part != Component::CurDir {
            all.push(part);
        }
    }
    if all.as_os_str().is_empty() { PathBuf::from(".") } else { all }
}

/// What serde says, in our words: a key that is not known, and the nearest one that is.
fn explain(message: &str) -> (String, String) {
    let first = message.lines().next().unwrap_or(message);
    let quoted: Vec<&str> = first.split('`').skip(1).step_by(2).collect();
    let unknown = first.starts_with("unknown field") || first.starts_with("unknown variant");
    if let (true, Some((found, expected))) = (unknown, quoted.split_first()) {
        let nearest = glassformer_families::nearest(expected.iter().copied(), found);
        let kind = if first.starts_with("unknown field") { "key" } else { "value" };
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}? There are {}", expected.join(", ")),
            None => format!("there are {}", expected.join(", ")),
        };
        return (format!("the {kind} {found} is not known"), hint);
    }
    (glassformer_tokens::in_words(first), "`glassformer train --help` shows a whole configuration".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Decay;

    const LEAST: &str = r#"
        out = "out"
        objective = "translate"
        model.formula = "formula.toml"
        data.train = [{ path = "a.tsv" }]
        schedule = { steps = 10, rate = 1e-3 }
    "#;

    fn refused(text: &str) -> String {
        Config::parse(text, "c.toml").expect_err("it is wrong").to_string()
    }

    #[test]
    fn the_least_configuration_has_defaults() {
        let config = Config::parse(LEAST, "c.toml").unwrap();
        assert_eq!(config.schedule.decay, Decay::InverseSquareRoot);
        assert_eq!(config.batch.tokens, 4096);
        assert!(config.data.filter.duplicates);
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_key() {
        let error = refused(&format!("sed = 3\n{LEAST}"));
        assert!(error.starts_with("c.toml, line 1: the key sed is not known; did you mean seed?"), "{error}");
        let error = refused(&LEAST.replace("rate = 1e-3", "rate = 1e-3, warmpu = 4"));
        assert!(error.contains("did you mean warmup?"), "{error}");
        let error = refused(&LEAST.replace("translate", "translation"));
        assert!(error.contains("did you mean translate?"), "{error}");
    }

    /// It was told of "struct Start" and "usize".
    #[test]
    fn a_wrong_value_is_told_without_the_names_of_types() {
        for text in ["model = 3", "schedule = { steps = \"ten\", rate = 1e-3 }", "data = []"] {
            let error = refused(&format!("out = \"out\"\nobjective = \"fill\"\n{text}"));
            assert!(!["struct", "usize", "f64", "u64"].iter().any(|name| error.contains(name)), "{error}");
        }
    }

    #[test]
    fn paths_are_shown_without_detours() {
        let shown = |path: &str| straight(Path::new(path)).display().to_string();
        assert_eq!(shown("no-such/example/../../runs/a"), "runs/a");
        assert_eq!(shown("../../runs"), "../../runs");
        assert_eq!(shown("/no-such/../x/./y"), "/x/y");
        assert_eq!(shown("a/.."), ".");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_a_path_is_followed_before_going_back() {
        let folder = std::env::temp_dir().join(format!("glassformer-link-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("far/inside")).unwrap();
        std::os::unix::fs::symlink("far/inside", folder.join("link")).unwrap();
        let path = folder.join("link/../x");
        assert_eq!(straight(&path), path);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(refused(&LEAST.replace("steps = 10", "steps = 0")).contains("schedule.steps"));
        assert!(refused(&LEAST.replace("1e-3", "nan")).contains("schedule.rate"));
        assert!(refused(&format!("{LEAST}\nmodel.checkpoint = \"x\"")).contains("exactly one"));
        assert!(refused(&format!("{LEAST}\nbatch.tokens = 64")).contains("batch.tokens"));
        assert!(refused(&format!("{LEAST}\nbatch.tokens = 99999999999")).contains("more than 2²⁴"));
        let low = LEAST.replace("model.formula", "model.checkpoint");
        let rank = refused(&format!("{low}\nmodel.lora.rank = 4611686018427387904"));
        assert!(rank.contains("model.lora.rank is more than 2¹⁶"), "{rank}");
        assert!(
            refused(&format!("{LEAST}\ntokenizer.size = 100000000000")).contains("tokenizer.size is more")
        );
    }
}
