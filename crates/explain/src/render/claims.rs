//! What a text printed, beside what the engine computed.

use super::ink::{Ink, Terminal};
use super::layout::{columns, left};
use super::numbers;
use crate::{Judged, OwnTruth, Relation, Verdict};

/// Claims that stand together: one vector of the text.
pub(super) fn groups(claims: &[Judged]) -> impl Iterator<Item = &[Judged]> {
    claims.chunk_by(|a, b| a.claim.section == b.claim.section && a.claim.what == b.claim.what)
}

/// Whether any claim of a group is wrong.
pub(super) fn has_wrong(group: &[Judged]) -> bool {
    group.iter().any(|judged| judged.verdict == Verdict::Wrong)
}

/// One group in lines: a right one in one line, a wrong one number by number with the truth below.
pub(super) fn lines(terminal: &Terminal, group: &[Judged]) -> Vec<String> {
    let Some(first) = group.first() else { return Vec::new() };
    let printed: Vec<&str> = group.iter().map(|judged| judged.claim.printed.as_str()).collect();
    if !has_wrong(group) {
        let relation = match first.claim.relation {
            Relation::Equal => '=',
            Relation::About => '≈',
        };
        let value =
            if let [one] = printed[..] { one.to_owned() } else { format!("[{}]", printed.join(", ")) };
        return vec![format!("{} {} {relation} {value}", terminal.mark(Verdict::Right), first.claim.what)];
    }
    table(terminal, group, &printed)
}

/// A line of a table: what it is, and its numbers with their verdicts.
struct Row<'a> {
    name: &'a str,
    cells: Vec<(String, Option<Verdict>)>,
}

fn table(terminal: &Terminal, group: &[Judged], printed: &[&str]) -> Vec<String> {
    let decimals = group.iter().map(|judged| judged.claim.decimals()).max().unwrap_or(0);
    let said = printed.iter().zip(group).map(|(number, judged)| ((*number).to_owned(), Some(judged.verdict)));
    let truth: Vec<f32> = group.iter().map(|judged| judged.truth).collect();
    let truth = numbers::format_to(&truth, decimals).into_iter().map(|number| (number, None));
    let mut rows = vec![
        Row { name: &group[0].claim.what, cells: said.collect() },
        Row { name: terminal.say("engine", "引擎算出"), cells: truth.collect() },
    ];
    let own: Vec<OwnTruth> = group.iter().filter_map(|judged| judged.given_own).collect();
    if own.len() == group.len() {
        let values: Vec<f32> = own.iter().map(|own| own.value).collect();
        let values = numbers::format_to(&values, decimals).into_iter();
        let cells = values.zip(&own).map(|(number, own)| (number, Some(own.verdict))).collect();
        rows.push(Row { name: terminal.say("from its own numbers", "由文档自己的数推得"), cells });
    }
    let label = rows.iter().map(|row| columns(row.name)).max().unwrap_or(0);
    let cell = rows.iter().flat_map(|row| &row.cells).map(|(number, _)| columns(number)).max().unwrap_or(0);
    let line = |(k, row): (usize, &Row<'_>)| {
        let cells = row.cells.iter().map(|(number, verdict)| match verdict {
            Some(verdict) => format!("  {} {}", left(number, cell), terminal.mark(*verdict)),
            None => format!("  {}  ", left(number, cell)),
        });
        let name = left(row.name, label);
        let start = match k {
            0 => format!("{} {name}", terminal.mark(Verdict::Wrong)),
            _ => format!("  {}", terminal.ink(Ink::Faint, &name)),
        };
        format!("{start}{}", cells.collect::<String>()).trim_end().to_owned()
    };
    rows.iter().enumerate().map(line).collect()
}
