//! AdamW (Loshchilov and Hutter 2017): Adam with the weight decay applied to the weight itself.
//!
//! A step goes over every parameter once, in pieces that several threads share. What happens to a number depends on that
//! number alone, and lengths are summed piece by piece in a fixed order, so the number of threads changes no bit.

use std::borrow::Cow;
use std::thread;

/// How many numbers a thread takes at a time: pieces of all four arrays fit its cache together.
const PIECE: usize = 1 << 16;

/// Fewer numbers than this are not worth a thread.
const SMALL: usize = 1 << 17;

/// How fast, and how much of the past counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// How much of the first moment is kept.
    pub beta1: f32,
    /// How much of the second moment is kept.
    pub beta2: f32,
    /// What keeps the division from zero.
    pub epsilon: f32,
    /// How much of each weight is taken off at every step, times the learning rate.
    pub decay: f32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 }
    }
}

/// How one parameter differs from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// Its rate is this times the rate; 0 leaves it as it is.
    pub rate: f32,
    /// Its decay.
    pub decay: f32,
}

/// The moments of every parameter, and the average of its weights where one is kept.
#[derive(Clone, Debug)]
pub struct AdamW {
    rates: Rates,
    own: Vec<Own>,
    step: i32,
    moments: Vec<(Vec<f32>, Vec<f32>)>,
    average: Option<(f32, Vec<Vec<f32>>)>,
    threads: usize,
}

/// What a step is given besides the gradients.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The learning rate.
    pub rate: f32,
    /// What every gradient is multiplied by first.
    pub clip: f32,
}

/// One piece of a parameter and all that belongs to it.
struct Piece<'a> {
    weights: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    average: Option<&'a mut [f32]>,
    own: Own,
}

impl AdamW {
    /// For parameters of these sizes.
    pub fn new(rates: Rates, sizes: impl IntoIterator<Item = usize>) -> Self {
        let zeros = |size| (vec![0.0; size], vec![0.0; size]);
        let moments: Vec<_> = sizes.into_iter().map(zeros).collect();
        let own = vec![Own { rate: 1.0, decay: rates.decay }; moments.len()];
        Self { rates, own, step: 0, moments, average: None, threads: 1 }
    }

    /// On this many threads.
    #[must_use]
    pub fn on_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// With a rate and a decay for each parameter.
    ///
    /// # Panics
    /// If there is not one for each.
    #[must_use]
    pub fn with_own(self, own: Vec<Own>) -> Self {
        assert_eq!(own.len(), self.moments.len(), "one for each parameter");
        Self { own, ..self }
    }

    /// With an average of the weights, of which `kept` is kept at each step; it begins with `weights`.
    #[must_use]
    pub fn with_average(self, kept: f32, weights: Vec<Vec<f32>>) -> Self {
        Self { average: Some((kept, weights)), ..self }
    }

    /// How many steps were made.
    pub fn steps(&self) -> i32 {
        self.step
    }

    /// The moments of each parameter.
    pub fn moments(&self) -> &[(Vec<f32>, Vec<f32>)] {
        &self.moments
    }

    /// The average of each parameter, where one is kept.
    pub fn average(&self) -> Option<&[Vec<f32>]> {
        self.average.as_ref().map(|(_, weights)| &weights[..])
    }

    /// Goes on from where another has been: its step, moments and average.
    pub fn restore(&mut self, step: i32, moments: Vec<(Vec<f32>, Vec<f32>)>, average: Option<Vec<Vec<f32>>>) {
        self.step = step;
        self.moments = moments;
        if let (Some((_, mine)), Some(theirs)) = (&mut self.average, average) {
            *mine = theirs;
        }
    }

    /// Moves all parameters against their gradients.
    ///
    /// `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`, `w ← w(1 − rate·decay) − rate/(1−β₁ᵗ) · m/(√(v/(1−β₂ᵗ)) + ε)`.
    pub fn step(&mut self, weights: &mut [&mut [f32]], gradients: &[Cow<'_, [f32]>], how: Move) {
        self.step += 1;
        let step = self.step;
        let rates = self.rates;
        // An average that began with the first draws would remember them for long: it is short at first.
        let kept = self
            .average
            .as_ref()
            .map_or(0.0, |(kept, _)| kept.min((1.0 + step as f32) / (10.0 + step as f32)));
        let mut pieces = Vec::new();
        let mut averages = self.average.as_mut().map(|(_, averages)| averages.iter_mut());
        for (((weights, gradient), (first, second)), own) in
            weights.iter_mut().zip(gradients).zip(&mut self.moments).zip(&self.own)
        {
            let mut average =
                averages.as_mut().and_then(Iterator::next).map(|average| average.chunks_mut(PIECE));
            let chunks = weights.chunks_mut(PIECE).zip(gradient.chunks(PIECE));
            for (((weights, gradient), first), second) in
                chunks.zip(first.chunks_mut(PIECE)).zip(second.chunks_mut(PIECE))
            {
                let average = average.as_mut().and_then(Iterator::next);
                pieces.push(Piece { weights, gradient, first, second, average, own: *own });
            }
        }
        let bias = Bias { first: 1.0 - rates.beta1.powi(step), root: (1.0 - rates.beta2.powi(step)).sqrt() };
        share(self.threads, pieces, |piece| update(piece, rates, bias, (how, kept)));
    }

    /// The length of all gradients as one vector: `√Σg²`, summed in `f64`.
    pub fn length(&self, gradients: &[Cow<'_, [f32]>]) -> f64 {
        let pieces: Vec<&[f32]> = gradients.iter().flat_map(|gradient| gradient.chunks(PIECE)).collect();
        let mut sums = vec![0.0_f64; pieces.len()];
        let both = pieces.into_iter().zip(&mut sums).collect();
        share(self.threads, both, |(piece, sum): (&[f32], &mut f64)| *sum = squares(piece));
        sums.iter().sum::<f64>().sqrt()
    }

    /// Adds each gradient to its sum.
    pub fn gather(&self, sums: &mut [Vec<f32>], gradients: &[Cow<'_, [f32]>]) {
        let pieces = sums.iter_mut().zip(gradients);
        let pieces = pieces.flat_map(|(sum, gradient)| sum.chunks_mut(PIECE).zip(gradient.chunks(PIECE)));
        share(self.threads, pieces.collect(), |(sum, gradient): (&mut [f32], &[f32])| {
            sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
        });
    }
}

/// What makes up for moments that began at zero.
#[derive(Clone, Copy)]
struct Bias {
    first: f32,
    root: f32,
}

fn update(piece: Piece<'_>, rates: Rates, bias: Bias, (how, kept): (Move, f32)) {
    let Rates { beta1, beta2, epsilon, .. } = rates;
    let Piece { weights, gradient, first, second, average, own } = piece;
    if own.rate > 0.0 {
        let rate = how.rate * own.rate;
        let (size, shrink) = (rate / bias.first, 1.0 - rate * own.decay);
        for (((w, &g), m), v) in weights.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = g * how.clip;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *w = *w * shrink - size * *m / (v.sqrt() / bias.root + epsilon);
        }
    }
    if let Some(average) = average {
        for (a, w) in average.iter_mut().zip(weights) {
            *a = kept * *a + (1.0 - kept) * *w;
        }
    }
}

/// The sum of squares, in eight lanes that are added at the end.
fn squares(numbers: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; 8];
    let whole = numbers.chunks_exact(8);
    let rest: f64 = whole.remainder().iter().map(|&x| f64::from(x).powi(2)).sum();
    for chunk in whole {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Does `work` on every item, on so many threads where there are many items.
fn share<T: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    if threads <= 1 || items.len() * PIECE <= SMALL {
        return items.into_iter().for_each(work);
    }
    let mut shares: Vec<Vec<T>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, item) in items.into_iter().enumerate() {
        shares[at % threads].push(item);
    }
    let work = &work;
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(move || share.into_iter().for_each(work));
        }
    });
}

#[cfg(test)]
mod tests {
    use glassformer_tensor::Random;

    use super::*;

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let mut random = Random::new(3);
        let mut numbers = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f32>>();
        let sizes = [3 * PIECE + 17, 5, SMALL];
        let weights = sizes.map(&mut numbers);
        let gradients = sizes.map(&mut numbers);
        let gradients: Vec<Cow<'_, [f32]>> =
            gradients.iter().map(|numbers| Cow::Borrowed(&numbers[..])).collect();
        let after = |threads: usize| {
            let mut optimiser = AdamW::new(Rates::default(), sizes).on_threads(threads);
            let mut weights = weights.clone();
            for _ in 0..2 {
                let mut weights: Vec<&mut [f32]> = weights.iter_mut().map(Vec::as_mut_slice).collect();
                optimiser.step(&mut weights, &gradients, Move { rate: 0.1, clip: 0.5 });
            }
            let mut sums = weights.to_vec();
            optimiser.gather(&mut sums, &gradients);
            (weights, sums, optimiser.length(&gradients))
        };
        let alone = after(1);
        assert!(alone.0 != weights && alone.2 > 1.0);
        for threads in [2, 3, 7] {
            assert!(after(threads) == alone, "{threads} threads");
        }
    }
}
