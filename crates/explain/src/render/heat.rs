//! Heat maps in text: half blocks in all colours or in 256, else blocks, else letters.

use super::ink::{Ink, MATRIX, Paint, Terminal};
use super::layout::{columns, cut, left, right};

/// What the numbers of a map are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From 0 up to this.
    Upto(f32),
    /// From minus this up to this; zero says nothing.
    Signed(f32),
}

/// Numbers with names at their rows and columns. What is no number is not there.
pub(super) struct Map<'m> {
    pub rows: &'m [String],
    pub columns: &'m [String],
    pub numbers: &'m [f32],
    pub scale: Scale,
}

type Rgb = [u8; 3];

/// From nothing to all: dark violet to yellow (viridis).
const RAMP: [Rgb; 5] = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
/// From less to more: blue, white, orange.
const SIGNED: [Rgb; 3] = [[33, 102, 172], [247, 247, 247], [230, 97, 1]];
const BLOCKS: [&str; 5] = [" ", "░", "▒", "▓", "█"];
const LETTERS: [&str; 10] = [" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"];
/// More rows than these share lines two by two.
const SINGLE: usize = 8;
/// Columns of the name of a row.
const LABEL: usize = 14;

impl Terminal {
    /// A map with a legend.
    pub(super) fn heat(&self, out: &mut Vec<String>, map: &Map<'_>) {
        let width = map.columns.len();
        if width == 0 || map.rows.is_empty() {
            return;
        }
        let label = map.rows.iter().map(|name| columns(name)).max().unwrap_or(0).min(LABEL);
        let halves = self.paint.is_coloured() && map.rows.len() > SINGLE;
        let sides = if halves { 2 } else { 1 };
        let room = self.width.saturating_sub(MATRIX + sides * (label + 1)).max(8);
        let widest = map.columns.iter().map(|name| columns(name)).max().unwrap_or(1) + 1;
        // Signs stand before blocks.
        let least = if self.paint.is_coloured() || matches!(map.scale, Scale::Upto(_)) { 1 } else { 2 };
        let cell = if widest * width <= room { widest.max(least) } else { least };
        let shown = (room / cell).min(width);
        let start = " ".repeat(MATRIX);
        let header = Self::header(map, cell, shown);
        out.push(self.ink(Ink::Faint, &format!("{start}{} {header}", left("", label))));
        let more = if shown < width { "…" } else { "" };
        let name = |row: usize| map.rows.get(row).map_or_else(String::new, |name| cut(name, label));
        let at = |row: usize, column: usize| {
            map.numbers.get(row * width + column).copied().filter(|x| x.is_finite())
        };
        for row in (0..map.rows.len()).step_by(sides) {
            let cells: String = (0..shown)
                .map(|column| {
                    if halves {
                        let lower = (row + 1 < map.rows.len()).then(|| at(row + 1, column)).flatten();
                        self.half(map.scale, at(row, column), lower, cell)
                    } else {
                        self.cell(map.scale, at(row, column), cell)
                    }
                })
                .collect();
            let lower = if halves { format!(" {}", name(row + 1)) } else { String::new() };
            let line = format!("{start}{} {cells}{more}{lower}", left(&name(row), label));
            out.push(line.trim_end().to_owned());
        }
        out.push(self.legend(map.scale, halves));
    }

    /// The names of the columns; where they do not fit, every tenth.
    fn header(map: &Map<'_>, cell: usize, shown: usize) -> String {
        if map.columns.iter().all(|name| columns(name) < cell || cell == 1 && columns(name) == 1) {
            return map.columns[..shown].iter().map(|name| right(name, cell)).collect();
        }
        let mut header = String::new();
        for column in (0..shown).filter(|column| *column == 0 || (column + 1) % 10 == 0) {
            let name = &map.columns[column];
            let end = (column + 1) * cell;
            let from = end.saturating_sub(columns(name));
            if columns(&header) <= from {
                header.push_str(&" ".repeat(from - columns(&header)));
                header.push_str(name);
            }
        }
        header
    }

    /// One number, `cell` columns wide.
    fn cell(&self, scale: Scale, x: Option<f32>, cell: usize) -> String {
        let Some(x) = x else { return right("·", cell) };
        if let Some(colour) = self.colour(scale, x) {
            return format!("\x1b[48;{colour}m{}\x1b[0m", " ".repeat(cell));
        }
        let (sign, size) = match scale {
            Scale::Upto(most) => ("", x / most.max(f32::MIN_POSITIVE)),
            Scale::Signed(most) => (if x < 0.0 { "-" } else { "+" }, x.abs() / most.max(f32::MIN_POSITIVE)),
        };
        let glyphs: &[&str] = if self.paint == Paint::Ascii { &LETTERS } else { &BLOCKS };
        let step = (size.clamp(0.0, 1.0) * (glyphs.len() - 1) as f32).round() as usize;
        if step == 0 {
            return " ".repeat(cell);
        }
        match scale {
            Scale::Upto(_) => glyphs[step].repeat(cell),
            Scale::Signed(_) => right(&format!("{sign}{}", glyphs[step]), cell),
        }
    }

    /// Two numbers, one above the other, in half blocks.
    fn half(&self, scale: Scale, upper: Option<f32>, lower: Option<f32>, cell: usize) -> String {
        let colour = |x: Option<f32>| x.and_then(|x| self.colour(scale, x));
        match (colour(upper), colour(lower)) {
            (Some(upper), Some(lower)) => {
                format!("\x1b[38;{upper};48;{lower}m{}\x1b[0m", "▀".repeat(cell))
            }
            (Some(upper), None) => format!("\x1b[38;{upper}m{}\x1b[0m", "▀".repeat(cell)),
            (None, Some(lower)) => format!("\x1b[38;{lower}m{}\x1b[0m", "▄".repeat(cell)),
            (None, None) => right("·", cell),
        }
    }

    /// What the colours or blocks mean.
    fn legend(&self, scale: Scale, halves: bool) -> String {
        let (from, to) = match scale {
            Scale::Upto(most) => (0.0, most),
            Scale::Signed(most) => (-most, most),
        };
        let steps = 9;
        let ramp: String = (0..steps)
            .map(|step| from + (to - from) * step as f32 / (steps - 1) as f32)
            .map(|x| self.cell(scale, Some(x), if matches!(scale, Scale::Upto(_)) { 1 } else { 2 }))
            .collect();
        let pairs = if halves {
            self.say("  left: the upper half of a line; right: the lower", "  左：行的上半；右：行的下半")
        } else {
            ""
        };
        let numbers = |x: f32| if x.abs() >= 100.0 { format!("{x:.0}") } else { format!("{x:.2}") };
        format!(
            "{}{} {ramp} {}{}",
            " ".repeat(MATRIX),
            numbers(from),
            numbers(to),
            self.ink(Ink::Faint, pairs)
        )
    }

    /// The colour of a number as the parameters of an escape sequence; nothing where there are no colours.
    fn colour(&self, scale: Scale, x: f32) -> Option<String> {
        let [r, g, b] = match scale {
            Scale::Upto(most) => mixed(&RAMP, x / most.max(f32::MIN_POSITIVE)),
            Scale::Signed(most) => mixed(&SIGNED, 0.5 + 0.5 * x / most.max(f32::MIN_POSITIVE)),
        };
        match self.paint {
            Paint::TrueColour => Some(format!("2;{r};{g};{b}")),
            Paint::Colour => Some(format!("5;{}", of_256([r, g, b]))),
            Paint::Plain | Paint::Ascii => None,
        }
    }
}

/// The colour at `x` of a ramp, from 0 to 1.
fn mixed(ramp: &[Rgb], x: f32) -> Rgb {
    let place = x.clamp(0.0, 1.0) * (ramp.len() - 1) as f32;
    let from = (place as usize).min(ramp.len() - 2);
    let part = place - from as f32;
    std::array::from_fn(|k| {
        let (a, b) = (f32::from(ramp[from][k]), f32::from(ramp[from + 1][k]));
        (a + (b - a) * part).round() as u8
    })
}

/// The nearest colour of the cube of 256 colours.
fn of_256(rgb: Rgb) -> u8 {
    // The cube's steps: 0, then from 95 on every 40.
    let step = |x: u8| if x < 48 { 0 } else { ((u16::from(x).max(75) - 35) / 40).min(5) as u8 };
    let [r, g, b] = rgb.map(step);
    16 + 36 * r + 6 * g + b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lang;

    fn lines(paint: Paint, rows: usize, scale: Scale) -> Vec<String> {
        let names: Vec<String> =
            (0..rows).map(|row| if row == 1 { "猫".into() } else { format!("r{row}") }).collect();
        let columns: Vec<String> = ["1", "2", "3"].map(str::to_owned).into();
        let mut numbers = vec![0.0; rows * 3];
        (numbers[0], numbers[1], numbers[2], numbers[4]) = (1.0, 0.5, f32::NEG_INFINITY, -0.5);
        let mut out = Vec::new();
        let map = Map { rows: &names, columns: &columns, numbers: &numbers, scale };
        Terminal { lang: Lang::English, paint, width: 60 }.heat(&mut out, &map);
        out
    }

    #[test]
    fn blocks_and_letters_stand_under_their_columns() {
        let plain = lines(Paint::Plain, 2, Scale::Upto(1.0));
        assert_eq!(plain[..3], ["           1 2 3", "       r0 ██▒▒ ·", "       猫"]);
        let ascii = lines(Paint::Ascii, 2, Scale::Upto(1.0));
        assert_eq!(ascii[1], "       r0 @@++ ·");
        let signed = lines(Paint::Plain, 2, Scale::Signed(1.0));
        assert_eq!(signed[1..3], ["       r0 +█+▒ ·", "       猫   -▒"]);
    }

    #[test]
    fn many_rows_share_lines_in_half_blocks() {
        let lines = lines(Paint::TrueColour, 9, Scale::Upto(1.0));
        assert_eq!(lines.len(), 1 + 5 + 1, "a header, five lines for nine rows, a legend");
        assert!(lines[1].contains("\x1b[38;2;253;231;37;48;2;68;1;84m▀▀"), "{:?}", lines[1]);
        assert!(lines[1].contains("▄") && lines[1].ends_with("猫"), "{:?}", lines[1]);
    }

    #[test]
    fn colours_of_256_are_of_the_cube() {
        assert_eq!([of_256([0, 0, 0]), of_256([255, 255, 255]), of_256([95, 135, 175])], [16, 231, 67]);
    }
}
