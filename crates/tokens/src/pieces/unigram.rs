//! The likeliest way to cut a text into pieces, each piece being independent of the others (Kudo 2018, Viterbi).

use super::model::{Cut, Kind, Model};
use super::normalize::char_length;

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The best way to get to a place in the text.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    id: u32,
    /// Where its last piece begins; `UNREACHED` where there is no way here yet.
    start: u32,
}

const UNREACHED: u32 = u32::MAX;

/// Cuts a text that was normalised.
///
/// The sums are of single width and run from the beginning of the text, as SentencePiece's own do: where two ways are
/// equally good, as in `---` out of `-` and `--`, their rounding decides, and the reference's choice is wanted.
pub(super) fn cut(model: &Model, text: &[u8]) -> Vec<Cut> {
    let mut best = vec![Best { score: 0.0, id: 0, start: UNREACHED }; text.len() + 1];
    let unknown = model.lowest - UNKNOWN_PENALTY;
    let mut start = 0;
    while start < text.len() {
        let here = best[start].score;
        let width = char_length(text[start]).min(text.len() - start);
        let mut node = 0;
        let mut single = false;
        for (length, &byte) in (1..).zip(&text[start..]) {
            let Some(next) = model.trie.step(node, byte) else { break };
            node = next;
            let Some(id) = model.trie.value(node) else { continue };
            let piece = &model.pieces[id as usize];
            let score = match piece.kind {
                Kind::Unused => continue,
                // a symbol of the user's always wins
                Kind::User => length as f32 * model.highest - 0.1,
                Kind::Normal | Kind::Unknown | Kind::Control | Kind::Byte => piece.score,
            };
            let score = score + here;
            let target = &mut best[start + length];
            if target.start == UNREACHED || score > target.score {
                *target = Best { score, id, start: start as u32 };
            }
            single |= length == width;
        }
        if !single {
            let score = unknown + here;
            let target = &mut best[start + width];
            if target.start == UNREACHED || score > target.score {
                *target = Best { score, id: model.unknown, start: start as u32 };
            }
        }
        start += width;
    }
    let mut cuts = Vec::new();
    let mut end = text.len();
    while end > 0 {
        let Best { id, start, .. } = best[end];
        cuts.push(Cut { end: end as u32, id });
        end = start as usize;
    }
    cuts.reverse();
    cuts
}

#[cfg(test)]
mod tests {
    use super::super::model::{Algorithm, Duplicates, Kind, Model, Parts, Piece};
    use super::super::normalize::Normalizer;

    /// Sums of double width chose `--` and `-` here, as `opus-zh-en` has them; SentencePiece 0.2.2 chooses the other.
    #[test]
    fn of_two_equal_ways_the_reference_takes_the_first_that_it_finds() {
        let piece = |text: &str, score, kind| Piece { text: text.into(), score, kind };
        let model = Model::new(Parts {
            pieces: vec![
                piece("<unk>", 0.0, Kind::Unknown),
                piece("x", -17.726_3, Kind::Normal),
                piece("-", -7.255_681_5, Kind::Normal),
                piece("--", -10.939_608, Kind::Normal),
            ],
            algorithm: Algorithm::Unigram,
            normalizer: Normalizer::default(),
            byte_fallback: false,
            unknown_text: String::new(),
            duplicates: Duplicates::Refuse,
        })
        .unwrap();
        let ids: Vec<u32> = model.encode("x---").into_iter().map(|found| found.id).collect();
        assert_eq!(ids, [1, 2, 3]);
    }
}
