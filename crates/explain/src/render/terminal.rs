//! A walkthrough for people, in a terminal or a file.

use super::claims;
use super::ink::{INDENT, Ink, MATRIX, Terminal};
use super::layout::{columns, left, wrap};
use crate::{Fact, Lang, Step, Walkthrough};

impl Terminal {
    /// The whole walkthrough: the summary, the steps, and at its end what the text got wrong.
    pub fn render(&self, walkthrough: &Walkthrough) -> String {
        let mut out = Vec::new();
        if let Some(summary) = &walkthrough.summary {
            self.summary(&mut out, summary);
            if walkthrough.steps.is_empty() {
                self.more(&mut out, summary);
            }
        }
        for step in &walkthrough.steps {
            self.step(&mut out, step);
        }
        if walkthrough.score().total > 0 {
            self.chapter(&mut out, self.say("The document's numbers", "文档中的数字"));
            out.push(String::new());
            out.extend(self.errata_lines(walkthrough));
        }
        let title = self.ink(Ink::Chapter, walkthrough.title.get(self.lang));
        format!("{title}\n{}\n", out.join("\n"))
    }

    /// What the text got wrong, alone.
    pub fn errata(&self, walkthrough: &Walkthrough) -> String {
        let title = self.ink(Ink::Chapter, walkthrough.title.get(self.lang));
        let meant = self.say(
            "The document is a Chinese introduction to the Transformer, which works this example out by hand.",
            "“文档”指一篇介绍 Transformer 的中文文档，其中手算了这个例子。",
        );
        let mut lines = self.indented(meant, INDENT);
        lines.push(String::new());
        lines.extend(self.errata_lines(walkthrough));
        format!("{title}\n\n{}\n", lines.join("\n"))
    }

    fn errata_lines(&self, walkthrough: &Walkthrough) -> Vec<String> {
        let score = walkthrough.score();
        let summary = match self.lang {
            Lang::English => format!(
                "The document prints {} numbers. {} are right, {} are wrong. A number is right if the engine's, \
                 rounded to the printed digits, equals it. Where a wrong number follows from earlier ones, it was \
                 computed once more from the document's own: ✓ there means that the slip is further up.",
                score.total, score.right, score.wrong
            ),
            Lang::Chinese => format!(
                "文档共印出 {} 个数，其中 {} 个正确，{} 个有误。引擎算出的数按印出的位数四舍五入后与之相等，即为正确。\
                 如果一个有误的数是由前面的数推得的，就再用文档自己的数算一遍：此处的 ✓ 表示错误出在更前面。",
                score.total, score.right, score.wrong
            ),
        };
        let mut out = self.indented(&summary, INDENT);
        for step in &walkthrough.steps {
            for group in claims::groups(&step.claims).filter(|group| claims::has_wrong(group)) {
                out.push(String::new());
                let lines = claims::lines(self, group).into_iter().enumerate();
                out.extend(lines.map(|(k, line)| {
                    let section = if k == 0 { step.section.as_str() } else { "" };
                    format!("{}{line}", left(section, INDENT))
                }));
            }
        }
        out
    }

    fn chapter(&self, out: &mut Vec<String>, title: &str) {
        let rule = "═".repeat(self.width.saturating_sub(columns(title) + 5));
        out.extend([String::new(), String::new(), self.ink(Ink::Chapter, &format!("═══ {title} {rule}"))]);
    }

    fn step(&self, out: &mut Vec<String>, step: &Step) {
        if let Some(chapter) = &step.chapter {
            self.chapter(out, chapter.get(self.lang));
        }
        let title = format!(
            "{}{}",
            left(&step.section, step.section.len().max(INDENT - 2) + 2),
            step.title.get(self.lang)
        );
        out.extend([String::new(), self.ink(Ink::Title, &title)]);
        for (k, text) in step.text.iter().enumerate() {
            if k > 0 {
                out.push(String::new());
            }
            out.extend(self.indented(text.get(self.lang), INDENT));
        }
        for shown in &step.tensors {
            out.push(String::new());
            self.shown(out, shown);
        }
        if !step.facts.is_empty() {
            out.push(String::new());
            self.facts(out, &step.facts);
        }
        if !step.claims.is_empty() {
            out.push(String::new());
            let heading = self.say("The document prints:", "文档印出的是：");
            out.push(format!("{}{heading}", " ".repeat(INDENT)));
            for group in claims::groups(&step.claims) {
                let lines = claims::lines(self, group).into_iter();
                out.extend(lines.map(|line| format!("{}{line}", " ".repeat(INDENT))));
            }
        }
    }

    fn indented(&self, text: &str, indent: usize) -> Vec<String> {
        let line = |line: String| format!("{}{line}", " ".repeat(indent));
        wrap(text, self.width.saturating_sub(indent).max(20), self.lang).into_iter().map(line).collect()
    }

    fn facts(&self, out: &mut Vec<String>, facts: &[Fact]) {
        let name = |fact: &Fact| fact.name.get(self.lang).to_owned();
        let label = facts.iter().map(|fact| columns(&name(fact))).max().unwrap_or(0);
        for fact in facts {
            let lines = self.indented(fact.text.get(self.lang), MATRIX + label + 2);
            out.extend(lines.into_iter().enumerate().map(|(k, line)| {
                let head = if k == 0 { name(fact) } else { String::new() };
                let head = self.ink(Ink::Symbol, &left(&head, label));
                format!("{}{head}  {}", " ".repeat(MATRIX), line.trim_start())
            }));
        }
    }
}
