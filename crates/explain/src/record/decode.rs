//! How each token was chosen: candidates, rules, beams.

use std::collections::BTreeMap;

use glassformer_engine::{Decoding, EarlyStopping, Finish};
use serde_json::{Value, json};

use super::watch::{Digest, Seen, StageSeen, Turn};
use super::words::{option_name, stage_name};
use super::{Beams, Candidate, Decode, Finished, Node, Said, Stage, Written};
use crate::Text;

/// From so low a sum on a beam is none: it holds the place of one that ended, or of one that is not there yet.
const NO_BEAM: f32 = -5e8;

/// A search that was watched.
pub(super) struct Watched<'w> {
    pub seen: &'w Seen,
    pub decoding: &'w Decoding,
    /// The tokens that were written.
    pub ids: &'w [u32],
    /// How many tokens the target began with.
    pub begun: usize,
    /// What a token is called.
    pub token: &'w dyn Fn(u32) -> String,
    /// The text of tokens.
    pub text: &'w dyn Fn(&[u32]) -> String,
}

impl Watched<'_> {
    pub fn decode(&self) -> Decode {
        let decoding = self.decoding;
        let search = match (decoding.beams, decoding.groups, &decoding.sampling) {
            (0 | 1, _, Some(_)) => "sampled",
            (0 | 1, _, None) => "greedy",
            (_, 0 | 1, _) => "beams",
            _ => "groups",
        };
        let values = values(decoding);
        let said = |(name, value): (&String, &Value)| Said {
            name: option_name(name),
            text: Text::same(self.spelled(name, value)),
        };
        let (beams, lanes) = match search {
            "beams" => self.beams(),
            _ => (None, vec![0; self.seen.turns.len()]),
        };
        let steps = self.ids.iter().zip(self.seen.turns.iter().zip(&lanes)).enumerate();
        let steps =
            steps.filter_map(|(place, (&id, (turn, &lane)))| self.written(place, id, turn.lanes.get(lane)?));
        Decode {
            search: search.to_owned(),
            options: values.iter().map(said).collect(),
            steps: steps.collect(),
            beams,
            values,
        }
    }

    /// The value of an option; tokens by their names.
    fn spelled(&self, name: &str, value: &Value) -> String {
        let ids = ["bad_words", "suppress", "begin_suppress", "forced_first", "forced_last"];
        match value {
            Value::Array(all) => {
                all.iter().map(|one| self.spelled(name, one)).collect::<Vec<_>>().join(" · ")
            }
            Value::Number(id) if ids.contains(&name) => {
                id.as_u64().map_or_else(|| id.to_string(), |id| (self.token)(id as u32))
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Token number `place`, which is `id`.
    fn written(&self, place: usize, id: u32, digest: &Digest) -> Option<Written> {
        let at = digest.ids.iter().position(|&other| other == id)?;
        let raw = digest.stages.first()?;
        let candidate = |stage: &StageSeen, k: usize| {
            let score = stage.scores[k];
            let p = (f64::from(score) - stage.sum).exp();
            let logit = score.is_finite().then_some(score);
            Candidate {
                id: digest.ids[k],
                text: (self.token)(digest.ids[k]),
                logit,
                p: if p.is_finite() { p } else { 0.0 },
            }
        };
        let all = |stage: &StageSeen| (0..digest.ids.len()).map(|k| candidate(stage, k)).collect::<Vec<_>>();
        let stage = |seen: &StageSeen| Stage {
            kind: seen.stage.name().to_owned(),
            name: stage_name(seen.stage),
            alive: seen.alive,
            candidates: all(seen),
        };
        Some(Written {
            t: place + 1,
            position: self.begun + place - 1,
            chosen: candidate(raw, at),
            rank: digest.ranks[at],
            entropy: digest.entropy,
            logprob: f64::from(raw.scores[at]) - raw.sum,
            candidates: all(raw),
            stages: digest.stages.iter().map(stage).collect(),
        })
    }

    /// The tree of a beam search, and the lane of the winner in each turn.
    fn beams(&self) -> (Option<Beams>, Vec<usize>) {
        let mut tree = Tree::default();
        for (place, turn) in self.seen.turns.iter().enumerate() {
            tree.grow(turn, place + 1, self.token);
        }
        let Tree { nodes, mut finished, lanes, .. } = tree;
        // As the search does it: those that ended first come first where scores are equal.
        finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        let width = self.decoding.beams;
        for (place, one) in finished.iter_mut().enumerate() {
            one.kept = place < width;
            one.text =
                (self.text)(&path(&nodes, one.node).iter().map(|&id| nodes[id].token.id).collect::<Vec<_>>());
            one.arithmetic = arithmetic(one, self.decoding.length_penalty);
        }
        let way = finished.first().map(|best| path(&nodes, best.node)).unwrap_or_default();
        let lanes = way.iter().map(|&node| lanes[node]).collect();
        let why = why(&finished, self.decoding.length_penalty);
        let beams = Beams {
            width,
            length_penalty: self.decoding.length_penalty,
            early_stopping: early(self.decoding.early_stopping).to_owned(),
            nodes,
            finished,
            winner: 0,
            why,
        };
        (Some(beams), lanes)
    }

    /// A fingerprint of the scores that each written token was chosen from.
    pub fn hashes(&self) -> Vec<u64> {
        let lanes = match self.decoding.beams {
            0 | 1 => vec![0; self.seen.turns.len()],
            _ => self.beams().1,
        };
        let hash = |(turn, &lane): (&Turn, &usize)| turn.lanes.get(lane).map_or(0, |digest| digest.hash);
        self.seen.turns.iter().zip(&lanes).map(hash).collect()
    }

    /// Whether the winner of the beams is what was written, token for token.
    pub fn is_winner(&self, beams: &Beams, score: Option<f32>) -> bool {
        let Some(best) = beams.finished.first() else { return false };
        let ids: Vec<u32> =
            path(&beams.nodes, best.node).iter().map(|&id| beams.nodes[id].token.id).collect();
        ids == self.ids && score.map(f32::to_bits) == Some(best.score.to_bits())
    }
}

/// Nodes as they are found.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    finished: Vec<Finished>,
    /// The lane that each node continued.
    lanes: Vec<usize>,
    /// The node that each lane of the next turn stands at.
    heads: Vec<Option<usize>>,
}

impl Tree {
    fn grow(&mut self, turn: &Turn, t: usize, token: &dyn Fn(u32) -> String) {
        let mut heads = Vec::new();
        for (place, next) in turn.found.iter().enumerate() {
            if next.sum <= NO_BEAM {
                continue;
            }
            let id = self.nodes.len();
            let kept = next.next.filter(|_| next.finish.is_none());
            if let Some(lane) = kept {
                if heads.len() <= lane {
                    heads.resize(lane + 1, None);
                }
                heads[lane] = Some(id);
            }
            if let Some(ended) = next.ended.filter(|ended| ended.kept) {
                self.finished.push(Finished {
                    node: id,
                    sum: next.sum,
                    length: ended.length,
                    penalty: ended.divisor,
                    score: ended.score,
                    kept: true,
                    text: String::new(),
                    arithmetic: String::new(),
                });
            }
            let p = f64::from(next.logprob).exp();
            self.nodes.push(Node {
                id,
                parent: self.heads.get(next.lane).copied().flatten(),
                t,
                token: Candidate { id: next.token, text: token(next.token), logit: Some(next.logprob), p },
                logprob: next.logprob,
                sum: next.sum,
                kept: kept.is_some(),
                finished: next.finish.is_some_and(|finish| finish != Finish::Length) || next.ended.is_some(),
                rank: place + 1,
            });
            self.lanes.push(next.lane);
        }
        self.heads = heads;
    }
}

/// The nodes from the first token to `node`.
fn path(nodes: &[Node], node: usize) -> Vec<usize> {
    let mut way: Vec<usize> = std::iter::successors(Some(node), |&at| nodes[at].parent).collect();
    way.reverse();
    way
}

/// `−3.2100 / 5^1 = −0.6420`.
fn arithmetic(one: &Finished, penalty: f64) -> String {
    let number = |x: f32| format!("{x:.4}").replace('-', "−");
    let power = penalty.to_string().replace('-', "−");
    format!("{} / {}^{power} = {}", number(one.sum), one.length, number(one.score))
}

/// Why the first of `finished` won.
fn why(finished: &[Finished], penalty: f64) -> Text {
    let number = |x: f32| format!("{x:.4}").replace('-', "−");
    match finished {
        [] => Text { en: "No beam ended.".into(), zh: "没有一条路径结束。".into() },
        [best] => Text {
            en: format!("It is the only beam that ended: {}.", best.arithmetic),
            zh: format!("它是唯一结束的路径：{}。", best.arithmetic),
        },
        [best, next, ..] => {
            let (en, zh) = if next.sum > best.sum {
                (
                    " The next one has the larger sum, and loses by its length.",
                    "第二名的总和更大，输在长度上。",
                )
            } else {
                ("", "")
            };
            Text {
                en: format!(
                    "Of all that ended its score is the largest: {} (the sum of log-probabilities over the length to the power of {penalty}). The next one, “{}”, has {}.{en}",
                    best.arithmetic,
                    next.text,
                    number(next.score),
                ),
                zh: format!(
                    "在所有结束的路径中得分最大：{}（对数概率之和除以长度的 {penalty} 次方）。第二名“{}”为 {}。{zh}",
                    best.arithmetic,
                    next.text,
                    number(next.score),
                ),
            }
        }
    }
}

fn early(stopping: EarlyStopping) -> &'static str {
    match stopping {
        EarlyStopping::Likely => "false",
        EarlyStopping::Full => "true",
        EarlyStopping::Never => "never",
    }
}

/// The options that are not their defaults, by the names that they have elsewhere.
fn values(given: &Decoding) -> BTreeMap<String, Value> {
    let usual = Decoding::default();
    let mut values = BTreeMap::new();
    let mut put = |name: &str, is_usual: bool, value: Value| {
        if !is_usual {
            values.insert(name.to_owned(), value);
        }
    };
    put("max_new_tokens", given.max_new_tokens.is_none(), json!(given.max_new_tokens));
    put("max_length", given.max_length.is_none(), json!(given.max_length));
    put("min_new_tokens", given.min_new_tokens.is_none(), json!(given.min_new_tokens));
    put("min_length", given.min_length == 0, json!(given.min_length));
    put("beams", given.beams <= 1, json!(given.beams));
    if given.beams > 1 {
        put("length_penalty", false, json!(given.length_penalty));
        put("early_stopping", false, json!(early(given.early_stopping)));
    }
    put("groups", given.groups <= 1, json!(given.groups));
    put("diversity_penalty", given.diversity_penalty == 0.0, json!(given.diversity_penalty));
    put("guidance", given.guidance == 1.0, json!(given.guidance));
    put("repetition_penalty", given.repetition_penalty == 1.0, json!(given.repetition_penalty));
    let source = given.encoder_repetition_penalty;
    put("encoder_repetition_penalty", source == 1.0, json!(source));
    put("presence_penalty", given.presence_penalty == 0.0, json!(given.presence_penalty));
    put("frequency_penalty", given.frequency_penalty == 0.0, json!(given.frequency_penalty));
    put("no_repeat_ngram", given.no_repeat_ngram == 0, json!(given.no_repeat_ngram));
    let source = given.encoder_no_repeat_ngram;
    put("encoder_no_repeat_ngram", source == 0, json!(source));
    put("bad_words", given.bad_words.is_empty(), json!(given.bad_words));
    put("suppress", given.suppress.is_empty(), json!(given.suppress));
    put("begin_suppress", given.begin_suppress.is_empty(), json!(given.begin_suppress));
    put("forced_first", given.forced_first.is_none(), json!(given.forced_first));
    put("forced_last", given.forced_last.is_empty(), json!(given.forced_last));
    put("length_decay", given.length_decay.is_none(), json!(given.length_decay));
    put("renormalize", given.renormalize == usual.renormalize, json!(given.renormalize));
    put("remove_invalid", given.remove_invalid == usual.remove_invalid, json!(given.remove_invalid));
    if let Some(sampling) = given.sampling {
        put("temperature", false, json!(sampling.temperature));
        put("top_k", false, json!(sampling.top_k));
        put("top_p", sampling.top_p == 1.0, json!(sampling.top_p));
        put("min_p", sampling.min_p == 0.0, json!(sampling.min_p));
        put("typical_p", sampling.typical_p == 1.0, json!(sampling.typical_p));
        put("top_h", sampling.top_h.is_none(), json!(sampling.top_h));
        put("epsilon", sampling.epsilon == 0.0, json!(sampling.epsilon));
        put("eta", sampling.eta == 0.0, json!(sampling.eta));
        put("seed", false, json!(sampling.seed));
    }
    values
}
