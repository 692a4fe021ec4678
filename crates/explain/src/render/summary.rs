//! A summary: one screen of at most [`LINES`] lines.

use super::ink::{Ink, Terminal};
use super::layout::{columns, left, wrap};
use crate::{Choice, Look, Summary, Text};

/// The most lines of a summary, its title and the lines around it included.
const LINES: usize = 30;
/// Lines that are neither tokens nor looks nor choices: the title, headings, blanks, and what to ask for next.
const FIXED: usize = 12;
/// The most lines of tokens, and of the formula.
const TOKENS: usize = 3;
const FORMULA: usize = 4;
/// Columns of what stands before a line.
const LABEL: usize = 9;

impl Terminal {
    /// The summary below its title.
    pub(super) fn summary(&self, out: &mut Vec<String>, summary: &Summary) {
        out.push(String::new());
        let tokens: Vec<String> =
            summary.tokens.iter().map(|token| format!("{} {}", token.text, token.id)).collect();
        self.labelled(out, self.say("tokens", "词元"), &tokens.join(" · "), TOKENS);
        self.labelled(out, self.say("formula", "公式"), &summary.formula.replace('\n', " "), FORMULA);
        let room = LINES - FIXED - (out.len() - 1);
        let notes = summary.note.as_ref().map_or(0, |_| 2);
        // Half of the room each, and what one does not need is the other's.
        let half = room.saturating_sub(notes) / 2;
        let looks = summary.looks.len().min(half.max(room.saturating_sub(notes + summary.choices.len())));
        let choices = summary.choices.len().min(room.saturating_sub(notes + looks));
        if looks > 0 {
            self.heading(out, &self.who_looks(summary));
            self.looks(out, &summary.looks, looks);
        }
        if choices > 0 {
            self.heading(out, self.say("what was chosen, and from what", "选了什么，从哪些当中选"));
            self.choices(out, &summary.choices, choices);
        }
        if !summary.vector.is_empty() {
            self.heading(out, self.say("the text as a vector, its first numbers", "文本的向量，前几个数"));
            let numbers = super::numbers::format(&summary.vector);
            out.push(format!("  {}  …", numbers.join("  ")));
        }
        if let Some(note) = &summary.note {
            let lines = wrap(note.get(self.lang), self.width.saturating_sub(2).max(20), self.lang);
            out.extend(lines.into_iter().take(notes).map(|line| format!("  {line}")));
        }
    }

    /// What can be asked for next.
    pub(super) fn more(&self, out: &mut Vec<String>, summary: &Summary) {
        let step = summary.choices.iter().any(|choice| choice.place.en.parse::<usize>().is_ok());
        let text = Text {
            en: format!(
                "every number: --layer 1, --head 1, {}or --full",
                if step { "--step 1 (how the first word was written), " } else { "" }
            ),
            zh: format!(
                "查看每一个数：--layer 1（第一层）、--head 1（第一个头）{}，或 --full（全部）",
                if step { "、--step 1（第一个词如何写出）" } else { "" }
            ),
        };
        out.push(String::new());
        out.extend(
            wrap(text.get(self.lang), self.width, self.lang).iter().map(|line| self.ink(Ink::Faint, line)),
        );
    }

    fn heading(&self, out: &mut Vec<String>, text: &str) {
        out.push(String::new());
        out.push(self.ink(Ink::Title, text));
    }

    fn who_looks(&self, summary: &Summary) -> String {
        let (layer, source) =
            (summary.layer, summary.attention.as_ref().is_some_and(|name| name.contains(".cross")));
        match (self.lang, source) {
            (crate::Lang::English, true) => {
                format!("who looks at whom in the source (layer {layer}; h: the head)")
            }
            (crate::Lang::English, false) => format!("who looks at whom (layer {layer}; h: the head)"),
            (crate::Lang::Chinese, true) => format!("谁看向源句中的谁（第 {layer} 层；h 表示头）"),
            (crate::Lang::Chinese, false) => format!("谁看向谁（第 {layer} 层；h 表示头）"),
        }
    }

    fn labelled(&self, out: &mut Vec<String>, label: &str, text: &str, most: usize) {
        let room = self.width.saturating_sub(LABEL).max(20);
        let mut lines = wrap(text, room, crate::Lang::Chinese);
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                last.push_str(" …");
            }
        }
        for (k, line) in lines.iter().enumerate() {
            let label = if k == 0 { label } else { "" };
            out.push(format!("{}{line}", self.ink(Ink::Symbol, &left(label, LABEL))));
        }
    }

    fn looks(&self, out: &mut Vec<String>, looks: &[Look], most: usize) {
        let shown = fitting(looks, most);
        let label = shown.iter().map(|look| columns(&look.token)).max().unwrap_or(0);
        for look in shown {
            let seen: Vec<String> = look
                .seen
                .iter()
                .map(|seen| format!("{} {:.2} h{}", seen.token, seen.share, seen.head))
                .collect();
            self.line(out, &look.token, label, &seen.join(" · "));
        }
        self.rest(out, looks.len() - shown.len());
    }

    fn choices(&self, out: &mut Vec<String>, choices: &[Choice], most: usize) {
        let shown = fitting(choices, most);
        let place = |choice: &Choice| choice.place.get(self.lang).to_owned();
        let label = shown.iter().map(|choice| columns(&place(choice))).max().unwrap_or(0);
        let wide = shown.iter().map(|choice| columns(&choice.chosen)).max().unwrap_or(0);
        for choice in shown {
            let candidates: Vec<String> = choice
                .candidates
                .iter()
                .map(|candidate| format!("{} {:.4}", candidate.text, candidate.score))
                .collect();
            let chosen = self.ink(Ink::Good, &left(&choice.chosen, wide));
            self.line(out, &place(choice), label, &format!("{chosen}  ← {}", candidates.join(" · ")));
        }
        self.rest(out, choices.len() - shown.len());
    }

    fn line(&self, out: &mut Vec<String>, label: &str, width: usize, text: &str) {
        let start = if width > 0 { format!("  {}  ", left(label, width)) } else { "  ".to_owned() };
        let room = self.width.saturating_sub(columns(&start)).max(20);
        out.push(format!("{start}{}", cut(text, room)).trim_end().to_owned());
    }

    fn rest(&self, out: &mut Vec<String>, count: usize) {
        if count > 0 {
            let text = match self.lang {
                crate::Lang::English => format!("  … and {count} more"),
                crate::Lang::Chinese => format!("  …… 还有 {count} 个"),
            };
            out.push(self.ink(Ink::Faint, &text));
        }
    }
}

/// As many of `all` as fit into `most` lines, one of which says how many are left out.
fn fitting<T>(all: &[T], most: usize) -> &[T] {
    if all.len() <= most { all } else { &all[..most.saturating_sub(1)] }
}

/// `text` in one line of `room` columns; candidates that do not fit are left out as a whole. Colours take no columns.
fn cut(text: &str, room: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (k, piece) in text.split(" · ").enumerate() {
        let needed = columns(&plain(piece)) + if k > 0 { 3 } else { 0 };
        if k > 0 && used + needed > room {
            break;
        }
        if k > 0 {
            line.push_str(" · ");
        }
        line.push_str(piece);
        used += needed;
    }
    line
}

/// `text` without escape sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}
