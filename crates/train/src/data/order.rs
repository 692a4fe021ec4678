//! Which examples make which batch, decided by the seed and the epoch alone: training can go on at any batch of any epoch.

use glassformer_tensor::Random;
use serde::{Deserialize, Serialize};

use super::Store;

/// Where in the data training is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How often all data was gone through before.
    pub epoch: usize,
    /// The batch of this epoch that comes next.
    pub batch: usize,
}

/// How examples are put together.
#[derive(Clone, Debug)]
pub struct Order {
    /// What draws come from.
    pub seed: u64,
    /// How often the examples of each file come in an epoch.
    pub weights: Vec<f64>,
    /// The most rows of a batch, of each side.
    pub rows: usize,
    /// Sorted by length within this many batches.
    pub pool: usize,
}

impl Order {
    /// The draws of an epoch.
    pub fn random(&self, epoch: usize) -> Random {
        Random::new(self.seed ^ (epoch as u64 + 1).wrapping_mul(0xA24B_AED4_963E_E407))
    }

    /// How often an example of file `origin` comes in an epoch.
    fn times(&self, origin: usize, random: &mut Random) -> usize {
        let weight = self.weights.get(origin).copied().unwrap_or(1.0);
        let more = f64::from(random.uniform()) < weight.fract();
        weight.trunc() as usize + usize::from(more)
    }

    /// The pieces of running text that begin at `starts`, each as often as the file that it begins in wants.
    pub fn repeated(&self, store: &Store, starts: Vec<u64>, random: &mut Random) -> Vec<u64> {
        if self.weights.iter().all(|&weight| weight == 1.0) {
            return starts;
        }
        let mut all = Vec::with_capacity(starts.len());
        for start in starts {
            let times = self.times(store.origin_of(start), random);
            all.extend(std::iter::repeat_n(start, times));
        }
        all
    }

    /// The batches of `epoch`, each a list of examples; `sizes` gives the rows that an example has on each side.
    pub fn epoch(
        &self,
        store: &Store,
        epoch: usize,
        sizes: impl Fn(&[u32]) -> (usize, usize),
    ) -> Vec<Vec<u32>> {
        let mut random = self.random(epoch);
        let mut all = Vec::with_capacity(store.len());
        for at in 0..store.len() {
            let times = self.times(store.origin(at), &mut random);
            all.extend(std::iter::repeat_n(at as u32, times));
        }
        random.shuffle(&mut all);
        let rows = |&at: &u32| {
            let (source, target) = sizes(store.lengths(at as usize));
            source.max(target)
        };
        // As many examples as fill the pool's batches; then a stable sort, so that equal lengths stay shuffled.
        let mut batches = Vec::new();
        let mut rest = &mut all[..];
        while !rest.is_empty() {
            let (mut taken, mut sum) = (0, 0);
            while taken < rest.len() && sum < self.pool.saturating_mul(self.rows) {
                sum += rows(&rest[taken]);
                taken += 1;
            }
            let (pool, after) = rest.split_at_mut(taken);
            pool.sort_by_key(rows);
            cut(pool, self.rows, |at| sizes(store.lengths(at as usize)), &mut batches);
            rest = after;
        }
        random.shuffle(&mut batches);
        batches
    }

    /// The batches of a set that is only looked at: in the order of length, each example once.
    pub fn plain(&self, store: &Store, sizes: impl Fn(&[u32]) -> (usize, usize)) -> Vec<Vec<u32>> {
        let mut all: Vec<u32> = (0..store.len() as u32).collect();
        let of = |at: u32| sizes(store.lengths(at as usize));
        all.sort_by_key(|&at| of(at));
        let mut batches = Vec::new();
        cut(&all, self.rows, of, &mut batches);
        batches
    }
}

/// Cuts a list of examples into batches of at most `rows` rows on each side.
fn cut(list: &[u32], rows: usize, sizes: impl Fn(u32) -> (usize, usize), batches: &mut Vec<Vec<u32>>) {
    let mut batch = Vec::new();
    let (mut sources, mut targets) = (0, 0);
    for &at in list {
        let (source, target) = sizes(at);
        if !batch.is_empty() && (sources + source > rows || targets + target > rows) {
            batches.push(std::mem::take(&mut batch));
            (sources, targets) = (0, 0);
        }
        batch.push(at);
        sources += source;
        targets += target;
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
}
