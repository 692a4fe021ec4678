//! A tensor as a matrix, a heat map or bars.

use super::heat::{Map, Scale};
use super::ink::{INDENT, Ink, MATRIX, Terminal};
use super::layout::{columns, left, right};
use super::numbers;
use crate::{Labels, Layout, Shown, Style};

/// So many rows of shares have a map before their numbers; fewer are read at once.
const MAPPED: usize = 4;
/// Columns of the longest bar.
const BAR: usize = 32;

impl Terminal {
    /// A tensor: its symbol, its name, and its numbers.
    pub(super) fn shown(&self, out: &mut Vec<String>, shown: &Shown) {
        let name = match shown.layout {
            Layout::AsHeld => shown.name.clone(),
            Layout::Transposed => format!("{}ᵀ", shown.name),
        };
        let room = self.width.saturating_sub(INDENT + columns(&name));
        let symbol = self.ink(Ink::Symbol, &left(&shown.symbol, room.max(columns(&shown.symbol) + 2)));
        out.push(format!("{}{symbol}{}", " ".repeat(INDENT), self.ink(Ink::Faint, &name)));
        match (shown.style, &shown.shape[..]) {
            (Style::Bars, [.., width]) => self.bars(out, shown, *width),
            (Style::Matrix | Style::Heat, [rows, keys, heads]) => {
                for head in 0..*heads {
                    let number = shown.columns.as_ref().map_or(head, |columns| columns[head]) + 1;
                    if *heads > 1 || shown.columns.is_some() {
                        let head = format!("{}{} {number}", " ".repeat(MATRIX), self.say("head", "头"));
                        out.push(self.ink(Ink::Faint, &head));
                    }
                    let numbers: Vec<f32> =
                        shown.numbers.iter().copied().skip(head).step_by(*heads).collect();
                    if shown.style == Style::Heat && *rows >= MAPPED {
                        self.map(out, shown, &numbers, (*rows, *keys));
                    }
                    self.matrix(out, shown, &numbers, (*rows, *keys));
                }
            }
            (Style::Matrix | Style::Heat, [rows, width]) => {
                self.matrix(out, shown, &shown.numbers, (*rows, *width));
            }
            (Style::Matrix | Style::Heat | Style::Bars, _) => {
                self.matrix(out, shown, &shown.numbers, (1, shown.numbers.len()));
            }
        }
    }

    /// Shares of many rows, to be seen at once before they are read.
    fn map(&self, out: &mut Vec<String>, shown: &Shown, numbers: &[f32], (rows, keys): (usize, usize)) {
        let count = |many: usize| (1..=many).map(|k| k.to_string()).collect::<Vec<String>>();
        let named = names(shown, 0);
        let rows = if named.len() == rows { named.to_vec() } else { count(rows) };
        let numbered = rows.iter().enumerate().map(|(k, name)| format!("{} {name}", k + 1));
        let rows: Vec<String> = if named.is_empty() { rows } else { numbered.collect() };
        let scale = Scale::Upto(1.0);
        self.heat(out, &Map { rows: &rows, columns: &count(keys), numbers, scale });
    }

    fn matrix(&self, out: &mut Vec<String>, shown: &Shown, given: &[f32], (rows, width): (usize, usize)) {
        let text = numbers::format(given);
        let (row_names, column_names) = (names(shown, 0), names(shown, 1));
        let label = row_names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let gap = if label > 0 { 2 } else { 0 };
        let cell = text.iter().chain(column_names).map(|text| columns(text)).max().unwrap_or(0);
        let fit = fitting(self.width.saturating_sub(MATRIX + label + gap), cell + 2, width);
        let more = if fit < width { "  …" } else { "" };
        let line = |name: &str, cells: Vec<String>| {
            let start = " ".repeat(MATRIX);
            format!("{start}{}{}{}{more}", left(name, label), " ".repeat(gap), cells.join("  "))
        };
        if !column_names.is_empty() {
            let header = column_names.iter().take(fit).map(|name| right(name, cell)).collect();
            out.push(self.ink(Ink::Faint, &line("", header)));
        }
        for row in 0..rows {
            let number = |at: usize| {
                let padded = right(&text[at], cell);
                match shown.style {
                    Style::Heat => self.ink(Ink::Heat((given[at] * 6.0).round() as usize), &padded),
                    Style::Matrix | Style::Bars => padded,
                }
            };
            let name = row_names.get(row).map_or("", String::as_str);
            out.push(line(name, (row * width..row * width + fit).map(number).collect()));
        }
    }

    /// The last row, one bar a number.
    fn bars(&self, out: &mut Vec<String>, shown: &Shown, width: usize) {
        let row = shown.numbers.len().saturating_sub(width)..;
        let last = &shown.numbers[row];
        let mut names = names(shown, shown.shape.len() - 1).to_vec();
        if names.is_empty() {
            names = (0..last.len()).map(|k| k.to_string()).collect();
        }
        let label = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        for ((name, &x), text) in names.iter().zip(last).zip(numbers::format(last)) {
            let bar = "█".repeat((x.clamp(0.0, 1.0) * BAR as f32).round() as usize);
            let line =
                format!("{}{}  {text}  {}", " ".repeat(MATRIX), left(name, label), self.ink(Ink::Good, &bar));
            out.push(line.trim_end().to_owned());
        }
    }
}

/// The names along an axis; none where its places have none.
fn names(shown: &Shown, axis: usize) -> &[String] {
    match shown.labels.get(axis) {
        Some(Labels::Names(names)) => names,
        Some(Labels::Count(_) | Labels::Heads(_)) | None => &[],
    }
}

/// How many of `width` cells fit; where not all do, one place is left for "…".
fn fitting(room: usize, cell: usize, width: usize) -> usize {
    let fit = room / cell.max(1);
    if fit < width { fit.saturating_sub(1).max(1) } else { width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lang, Paint};

    fn shown(style: Style, shape: &[usize], labels: Vec<Labels>) -> Shown {
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|k| k as f32 / 10.0).collect();
        let (name, symbol) = ("a.b".to_owned(), "A".to_owned());
        let (operands, rows, columns) = (Vec::new(), None, None);
        let (layout, shape) = (Layout::AsHeld, shape.to_vec());
        Shown { name, symbol, operands, rows, columns, style, layout, shape, labels, numbers }
    }

    fn lines(shown: &Shown) -> Vec<String> {
        let mut out = Vec::new();
        Terminal { lang: Lang::English, paint: Paint::Plain, width: 40 }.shown(&mut out, shown);
        out
    }

    #[test]
    fn a_row_that_does_not_fit_ends_in_an_ellipsis() {
        let wide = shown(Style::Matrix, &[1, 100], vec![Labels::Count(1), Labels::Count(100)]);
        let lines = lines(&wide);
        assert_eq!(lines[1], "       0.0  0.1  0.2  0.3  0.4  …");
    }

    #[test]
    fn every_head_has_a_matrix_of_its_own() {
        let words = || Labels::Names(vec!["a".into(), "猫".into()]);
        let heads = shown(Style::Heat, &[2, 2, 2], vec![words(), words(), Labels::Heads(2)]);
        let expected = [
            "       head 1",
            "             a   猫",
            "       a   0.0  0.2",
            "       猫  0.4  0.6",
            "       head 2",
            "             a   猫",
            "       a   0.1  0.3",
            "       猫  0.5  0.7",
        ];
        assert_eq!(lines(&heads)[1..], expected);
    }

    #[test]
    fn bars_show_the_last_row() {
        let words = Labels::Names(vec!["a".into(), "b".into()]);
        let lines = lines(&shown(Style::Bars, &[2, 2], vec![Labels::Count(2), words]));
        assert_eq!(lines[1..], ["       a  0.2  ██████", "       b  0.3  ██████████"]);
    }

    #[test]
    fn a_tensor_of_any_shape_is_shown() {
        for shape in [&[][..], &[3], &[0, 4], &[1, 2, 1, 2]] {
            let labels = shape.iter().map(|&size| Labels::Count(size)).collect();
            assert!(!lines(&shown(Style::Matrix, shape, labels)).is_empty());
        }
    }
}
