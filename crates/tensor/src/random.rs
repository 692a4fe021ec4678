//! Seeded random numbers that stay the same on every machine and in every version.
//!
//! Two uses, one generator: a stream (`Random`), and single draws at a counter (`Random::at`), which give dropout the
//! same mask whatever the batch and the number of threads.

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The draw number `counter` of the stream of `key`, in [0, 1), without walking there.
    #[inline]
    pub fn at(key: u64, counter: u64) -> f32 {
        let bits = mix(mix(key).wrapping_add(counter.wrapping_mul(GOLDEN)));
        (bits >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is nothing to choose from.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * f64::from(1.0 - self.uniform()).ln()).sqrt();
        let angle = std::f64::consts::TAU * f64::from(self.uniform());
        (radius * angle.cos()) as f32
    }

    /// Shuffled in place, by Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..40_000).map(|_| f64::from(random.normal())).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "mean {mean}, variance {variance}");
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = Random::new(42);
        assert_eq!([random.bits(), random.bits()], [0xBDD7_3226_2FEB_6E95, 0x28EF_E333_B266_F103]);
    }
}
