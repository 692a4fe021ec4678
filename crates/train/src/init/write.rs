//! The configuration as people read it, with what each number is about.

use std::path::Path;

use super::Wanted;
use super::probe::Measured;
use super::sizes::Plan;
use super::survey::{Survey, Tokens};
use crate::config::{Column, Config, Format, Objective, Source, VocabularyKind};

/// Where what was measured is written, once it is.
pub(super) const HERE: &str = "# (not measured yet)\n";

/// The whole file.
pub(super) fn text(wanted: &Wanted, survey: &Survey, tokens: &Tokens, plan: &Plan) -> String {
    let objective = word(survey.objective);
    let stem = wanted.to.file_stem().map_or_else(|| objective.into(), |stem| stem.to_string_lossy());
    let vocabulary = &tokens.vocabulary;
    let kind = match vocabulary.kind {
        VocabularyKind::Unigram => "unigram",
        VocabularyKind::Bpe => "bpe",
        VocabularyKind::ByteBpe => "byte-bpe",
        VocabularyKind::Characters => "characters",
    };
    let sources: Vec<String> =
        survey.sources.iter().map(|source| format!("  {},\n", source_text(wanted, source))).collect();
    let held = if plan.held_out > 0.0 {
        format!("held_out = {}          # this share is not learned from, but checked with\n", plan.held_out)
    } else {
        "held_out = 0.0           # there are too few examples to check with some of them\n".to_owned()
    };
    let (short, running) = (plan.length, matches!(survey.objective, Objective::Generate | Objective::Fill));
    let length = if running {
        format!("length = {short}             # running text is learned from in pieces of so many tokens\n")
    } else {
        let within = 100.0 * tokens.lengths.iter().filter(|length| **length <= short).count() as f64
            / tokens.lengths.len().max(1) as f64;
        let longest = tokens.within(1.0);
        format!(
            "length = {short}             # the longest of a sample has {longest} tokens; {within:.1} % fit, longer ones are left out\n"
        )
    };
    let check = (plan.steps / 6).max(25);
    format!(
        r#"# Proposed by `glassformer train --init {objective}`: change what you like.
{about}{HERE}#   glassformer train {to}

out = {out}              # the vocabulary, checkpoints and the log; the model is in its folder model
objective = "{objective}"
seed = 1
precision = "f32"              # bf16 is faster on processors with AMX
# A shape that `glassformer formula --name {shape}` shows: a larger one learns more, and takes longer.
model.shape = {{ name = "{shape}", width = {width}, layers = {layers}, heads = {heads} }}
tokenizer = {{ kind = "{kind}", size = {size} }}   # tokens are learned from the data

[data]
train = [
{sources}]
{held}{length}
[batch]
tokens = {batch}            # so many at once

[optimiser]                # AdamW
decay = 0.01
clip = 1.0

[schedule]
steps = {steps}              # each example is seen {epochs:.0} times
rate = {rate}
warmup = {warmup}
decay = "linear"

[regularise]
dropout = 0.1              # more where it learns by heart: the loss falls, and on other data it rises

[checkpoint]               # the best on other data is kept
every = {check}
check = {check}
keep = 1
"#,
        about = about(survey, tokens),
        to = wanted.to.display(),
        out = quoted(&format!("runs/{stem}")),
        shape = plan.shape(),
        width = plan.width(),
        layers = plan.layers(),
        heads = plan.heads(),
        size = vocabulary.size,
        sources = sources.concat(),
        batch = plan.batch,
        steps = plan.steps,
        epochs = plan.epochs(tokens).max(1.0),
        rate = plan.rate(),
        warmup = plan.steps / 10,
    )
}

/// What the data are, as comments.
fn about(survey: &Survey, tokens: &Tokens) -> String {
    let mut lines = vec![format!(
        "{} examples with {} tokens, {} in the middle one and {} in the longest of a sample",
        survey.examples,
        tokens.all,
        tokens.within(0.5),
        tokens.within(1.0)
    )];
    if !survey.labels.is_empty() {
        lines.push(format!("{} labels: {}", survey.labels.len(), survey.label_counts()));
    }
    lines.extend(survey.notes.iter().cloned());
    // What comes from the data must not end a comment.
    lines
        .iter()
        .flat_map(|line| ["# ".to_owned(), line.replace(char::is_control, " "), "\n".to_owned()])
        .collect()
}

/// What was measured, as comments.
pub(super) fn expected(measured: &Measured, config: &Config) -> String {
    let minutes = measured.step * config.schedule.steps as f64 / 60.0;
    format!(
        "# Measured here with {} threads: {:.0} ms a step, so about {minutes:.1} minutes for {} steps. {} parameters, {:.0} MB with their\n\
         # gradients and moments.\n",
        measured.threads,
        measured.step * 1e3,
        config.schedule.steps,
        measured.parameters,
        measured.weights as f64 / 1e6,
    )
}

fn source_text(wanted: &Wanted, source: &Source) -> String {
    let mut parts = vec![format!("path = {}", path(&wanted.shown(&source.path)))];
    if let Some(format) = source.format {
        let word = match format {
            Format::Tsv => "tsv",
            Format::Jsonl => "jsonl",
            Format::Text => "text",
            Format::Conll => "conll",
            Format::Squad => "squad",
        };
        parts.push(format!("format = \"{word}\""));
    }
    if !source.columns.is_empty() {
        let column = |column: &Column| match column {
            Column::Number(number) => number.to_string(),
            Column::Key(key) => quoted(key),
        };
        parts.push(format!(
            "columns = [{}]",
            source.columns.iter().map(column).collect::<Vec<_>>().join(", ")
        ));
    }
    if source.skip > 0 {
        parts.push(format!("skip = {}", source.skip));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The objective as a configuration has it.
pub(super) fn word(objective: Objective) -> &'static str {
    match objective {
        Objective::Translate => "translate",
        Objective::Generate => "generate",
        Objective::Fill => "fill",
        Objective::Classify => "classify",
        Objective::Tag => "tag",
        Objective::Answer => "answer",
        Objective::Embed => "embed",
    }
}
