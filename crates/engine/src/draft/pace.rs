//! How many tokens a draft model is asked for: as many as were right lately, and none for a while where hardly any was.

/// How quickly the chance follows what happens.
const RATE: f64 = 0.1;

/// Tokens that are written without a draft at most, before another one is tried.
const LONGEST_PAUSE: usize = 128;

/// How well the drafts of a request fare.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How likely a drafted token is right, where those before it are.
    chance: f64,
    /// Steps without a draft, still to come.
    wait: usize,
    /// How many there were the last time.
    pause: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { chance: 0.9, wait: 0, pause: 0 }
    }
}

impl Pace {
    /// How many tokens to draft, at most `most`, so that all are right with a chance of `least`. Each call is a step.
    pub fn len(&mut self, most: usize, least: f64) -> usize {
        if self.wait > 0 {
            self.wait -= 1;
            return 0;
        }
        let chances = std::iter::successors(Some(self.chance), |chance| Some(chance * self.chance));
        chances.take(most).take_while(|&chance| chance >= least).count().max(most.min(1))
    }

    /// Notes that `accepted` of `drafted` tokens were right.
    pub fn told(&mut self, drafted: usize, accepted: usize) {
        for _ in 0..accepted {
            self.chance += RATE * (1.0 - self.chance);
        }
        if accepted > 0 {
            self.pause = 0;
        }
        if accepted < drafted {
            self.chance -= RATE * self.chance;
        }
        if accepted == 0 && self.chance < 0.5 {
            self.pause = (2 * self.pause).clamp(4, LONGEST_PAUSE);
            self.wait = self.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_grow_where_they_are_right_and_end_where_they_are_wrong() {
        let mut pace = Pace::default();
        for _ in 0..40 {
            let len = pace.len(15, 0.7);
            pace.told(len, len);
        }
        assert_eq!(pace.len(15, 0.7), 15);
        assert_eq!(pace.len(0, 0.7), 0);
        let mut drafted = 0;
        for _ in 0..1000 {
            let len = pace.len(15, 0.7);
            drafted += len;
            if len > 0 {
                pace.told(len, 0);
            }
        }
        assert!((20..80).contains(&drafted), "{drafted} tokens were drafted for nothing");
    }
}
