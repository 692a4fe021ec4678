//! Sizes that fit the data and the machine. They are rules of thumb, from the trainings of `examples`: more data bear a larger model, and
//! few data are seen more often.

use glassformer_formula::named::heads;

use super::survey::{Survey, Tokens};
use crate::config::Objective;

/// Widths and layers that are proposed, from small to large, with the tokens of data from which on.
const LADDER: [(usize, usize, usize); 7] = [
    (0, 64, 2),
    (20_000, 128, 2),
    (300_000, 128, 4),
    (1_500_000, 256, 4),
    (8_000_000, 384, 6),
    (40_000_000, 512, 6),
    (200_000_000, 768, 12),
];

/// How often data of so many tokens and more are seen.
const EPOCHS: [(usize, usize); 6] =
    [(0, 60), (20_000, 30), (100_000, 15), (1_000_000, 6), (10_000_000, 3), (100_000_000, 1)];

/// Fewer steps teach nothing, however few the data are.
const FEWEST_STEPS: usize = 300;

/// The longest text that is proposed: attention over longer ones is for those who ask for it.
const LONGEST_TEXT: usize = 512;

/// What is proposed.
pub(super) struct Plan {
    objective: Objective,
    rung: usize,
    pub length: usize,
    pub batch: usize,
    pub steps: usize,
    pub held_out: f64,
    vocabulary: usize,
}

impl Plan {
    pub fn of(survey: &Survey, tokens: &Tokens) -> Self {
        let rung = LADDER.iter().rposition(|(least, ..)| tokens.all >= *least).unwrap_or(0);
        let running = matches!(survey.objective, Objective::Generate | Objective::Fill);
        let length = if running {
            if tokens.all < 50_000 { 64 } else { 128 }
        } else {
            let longest = tokens.within(1.0);
            (longest + longest / 10).next_multiple_of(8).clamp(16, LONGEST_TEXT)
        };
        // A twentieth of the data at a time, within what a step takes well; other texts of a batch are what vectors are told apart from.
        let least = if survey.objective == Objective::Embed { 1024 } else { 128 };
        let most = if tokens.all < 10_000_000 { 2048 } else { 4096 };
        let longest = (2 * length + 4).next_power_of_two();
        let batch = (tokens.all / 20).next_power_of_two().clamp(least, most).max(longest);
        let held_out = match survey.examples {
            0..20 => 0.0,
            20..2000 => 0.1,
            2000..20_000 => 0.05,
            many => (1000.0 / many as f64).max(0.002),
        };
        let epochs = EPOCHS.iter().rfind(|(least, _)| tokens.all >= *least).map_or(1, |(_, epochs)| *epochs);
        // Batches are full on one side only: of pairs, the longer one.
        let sides = if survey.objective == Objective::Translate { 2 } else { 1 };
        let steps = (epochs * tokens.all / sides / batch).max(FEWEST_STEPS).next_multiple_of(50);
        Self {
            objective: survey.objective,
            rung,
            length,
            batch,
            steps,
            held_out: (held_out * 1000.0_f64).round() / 1000.0,
            vocabulary: tokens.known,
        }
    }

    pub fn width(&self) -> usize {
        LADDER[self.rung].1
    }

    pub fn layers(&self) -> usize {
        LADDER[self.rung].2
    }

    pub fn heads(&self) -> usize {
        heads(self.width())
    }

    /// The shape that is usual for the objective.
    pub fn shape(&self) -> &'static str {
        match self.objective {
            Objective::Translate => "marian",
            Objective::Generate => "llama",
            Objective::Fill => "bert",
            Objective::Classify => "bert-classifier",
            Objective::Tag => "bert-tagger",
            Objective::Answer => "bert-reader",
            Objective::Embed => "bert-embedder",
        }
    }

    pub fn rate(&self) -> f64 {
        match self.width() {
            0..=128 => 1e-3,
            129..=256 => 7e-4,
            _ => 4e-4,
        }
    }

    /// How often each example is seen.
    pub fn epochs(&self, tokens: &Tokens) -> f64 {
        let sides = if self.objective == Objective::Translate { 2.0 } else { 1.0 };
        self.steps as f64 * self.batch as f64 * sides / tokens.all.max(1) as f64
    }

    /// The next smaller model, where there is one.
    pub fn shrink(&mut self) -> bool {
        let smaller = self.rung > 0;
        self.rung = self.rung.saturating_sub(1);
        smaller
    }

    /// A model that fits into so many bytes, as far as can be told before it is tried.
    pub fn shrink_to(&mut self, bytes: Option<u64>) {
        while bytes.is_some_and(|bytes| self.bytes() > bytes) && self.shrink() {}
    }

    /// A generous guess: weights, gradients and two moments, and the numbers that layers keep for the way back.
    fn bytes(&self) -> u64 {
        let (width, layers) = (self.width() as u64, self.layers() as u64);
        let stacks = if self.objective == Objective::Translate { 2 } else { 1 };
        let weights = stacks * layers * 16 * width * width + 2 * self.vocabulary as u64 * width;
        let kept = self.batch as u64 * (stacks * layers * 24 * width + 3 * self.vocabulary as u64);
        16 * weights + 4 * kept
    }
}
