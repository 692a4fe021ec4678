//! Answers to questions about a run, for people. Layers, heads and neurons are counted from 1 here, as everywhere in a walkthrough.

use super::heat::{Map, Scale};
use super::ink::{INDENT, Ink, MATRIX, Terminal};
use super::layout::{columns, cut, left, right, wrap};
use crate::why::{
    Ablated, Attribution, Cell, Edit, Effect, Gradients, Guess, HeadStatistics, Lens, Method, Part, Reading,
    Stack, Sweep, TokenShare, Why, With, Wrote,
};
use crate::{Lang, Text};

/// Lines of a list, as many as are told.
const LISTED: usize = 12;
/// Heads that are named for what they do.
const NAMED: usize = 3;
/// Columns of the longest bar.
const BAR: usize = 24;
/// And of the shortest for a whole.
const LEAST_BAR: usize = 6;

/// What is told of a head, where there is such a thing.
type OfHead = fn(&HeadStatistics) -> Option<f64>;

/// A line of a list: a name, what else is known of it, and a number.
struct Line {
    name: String,
    more: String,
    number: f64,
}

impl Terminal {
    /// All answers.
    pub fn why(&self, why: &Why) -> String {
        let mut out = vec![self.ink(Ink::Chapter, why.title.get(self.lang))];
        if let Some(asked) = &why.asked {
            let place = asked.place.get(self.lang);
            let at = match (place.is_empty(), self.lang) {
                (true, _) => String::new(),
                (false, Lang::English) => format!(" at {place}"),
                (false, Lang::Chinese) => format!("（位置 {place}）"),
            };
            let text = match (&asked.against_text, self.lang) {
                (None, Lang::English) => format!("why {}{at}?", asked.text),
                (None, Lang::Chinese) => format!("为什么是 {}{at}？", asked.text),
                (Some(other), Lang::English) => format!("why {} and not {other}{at}?", asked.text),
                (Some(other), Lang::Chinese) => format!("为什么是 {} 而不是 {other}{at}？", asked.text),
            };
            out.push(self.ink(Ink::Title, &text));
        }
        if let Some(edits) = &why.edits {
            self.section(&mut out, self.say("edits", "改动"));
            let last = if why.target.is_empty() { "source" } else { "target" };
            let mut lines: Vec<String> = edits.edits.iter().map(|edit| self.edit(edit, last)).collect();
            if lines.is_empty() {
                lines.push(self.say("none", "无").to_owned());
            }
            out.extend(lines.into_iter().map(|line| format!("  {line}")));
        }
        if let Some(effect) = &why.effect {
            self.effect(&mut out, effect);
        }
        if let Some(lens) = &why.lens {
            self.lens(&mut out, lens, why);
        }
        if let Some(attribution) = &why.attribution {
            self.attribution(&mut out, attribution);
        }
        if let Some(sweep) = &why.ablation {
            self.ablation(&mut out, sweep, why);
        }
        if let Some(gradients) = &why.gradients {
            self.gradients(&mut out, gradients);
        }
        if let Some(heads) = &why.heads {
            self.heads(&mut out, heads);
        }
        out.join("\n") + "\n"
    }

    fn section(&self, out: &mut Vec<String>, title: &str) {
        out.extend([String::new(), self.ink(Ink::Title, title)]);
    }

    fn note(&self, out: &mut Vec<String>, text: &Text) {
        let lines = wrap(text.get(self.lang), self.width.saturating_sub(INDENT).max(20), self.lang);
        out.extend(lines.iter().map(|line| self.ink(Ink::Faint, &format!("  {line}"))));
    }

    /// Where something is: `layer 4 head 6`, with the stack where there are two.
    fn place(&self, (part, sublayer): (&str, &str), layer: usize, head: Option<usize>) -> String {
        let stack = match (part, self.lang) {
            ("source", Lang::English) => "encoder",
            ("source", Lang::Chinese) => "编码器",
            (_, Lang::English) => "decoder",
            (_, Lang::Chinese) => "解码器",
        };
        let kind = self.kind(sublayer);
        match (head, self.lang) {
            (Some(head), Lang::English) => format!("{stack} layer {} {kind}, head {}", layer + 1, head + 1),
            (Some(head), Lang::Chinese) => format!("{stack}第 {} 层{kind}，头 {}", layer + 1, head + 1),
            (None, Lang::English) => format!("{stack} layer {} {kind}", layer + 1),
            (None, Lang::Chinese) => format!("{stack}第 {} 层{kind}", layer + 1),
        }
    }

    fn kind(&self, sublayer: &str) -> String {
        match sublayer {
            "attend" => self.say("self-attention", "自注意力").to_owned(),
            "cross" => self.say("cross-attention", "交叉注意力").to_owned(),
            "feed" => self.say("feed-forward", "前馈网络").to_owned(),
            "embed" => self.say("embedding", "词嵌入").to_owned(),
            "output" => self.say("output", "输出").to_owned(),
            other => other.to_owned(),
        }
    }

    /// An edit in a line; `last` is the stack that is meant where none is named.
    fn edit(&self, edit: &Edit, last: &'static str) -> String {
        let of = |side: &Option<Stack>| match side {
            Some(Stack::Source) => "source",
            Some(Stack::Target) => "target",
            None => last,
        };
        let with = |with: &With| match with {
            With::Zero => self.say("zero", "零"),
            With::Mean => self.say("its mean", "均值"),
        };
        let becomes = |what: String, how: &With| format!("{what} := {}", with(how));
        match edit {
            Edit::AblateHead { side, sublayer, layer, head, with } => {
                becomes(self.place((of(side), sublayer), *layer, Some(*head)), with)
            }
            Edit::AblateNeuron { side, sublayer, layer, neuron, with } => {
                let place = self.place((of(side), sublayer), *layer, None);
                let neuron = format!("{} {}", self.say(", neuron", "，神经元"), neuron + 1);
                becomes(format!("{place}{neuron}"), with)
            }
            Edit::AblateSublayer { side, sublayer, layer, with } => {
                becomes(self.place((of(side), sublayer), *layer, None), with)
            }
            Edit::AblateLayer { side, layer, with } => {
                becomes(self.place((of(side), ""), *layer, None).trim_end().to_owned(), with)
            }
            Edit::Scale { value, by, .. } => format!("{value} × {by}"),
            Edit::Patch { value, from, .. } => match &from.text {
                Some(text) => format!("{value} ← “{text}”"),
                None => format!("{value} ← {}", self.say("this run", "本次运行")),
            },
            Edit::Cut(cut) => {
                let place = self.place((of(&cut.side), &cut.sublayer), cut.layer, cut.head);
                format!("{place}{}{} ↛ {}", self.say(": ", "："), cut.query + 1, cut.key + 1)
            }
        }
    }

    fn effect(&self, out: &mut Vec<String>, effect: &Effect) {
        self.section(out, self.say("before and after", "改动前后"));
        if effect.same_bits {
            let same = Text {
                en: "Every score has the bits that it had.".into(),
                zh: "所有得分与改动前逐位相同。".into(),
            };
            self.note(out, &same);
        }
        for place in &effect.places {
            let told = |cell: &Cell| {
                let guesses = cell.top.iter().map(|guess| format!("{} {:.4}", guess.text, guess.p));
                guesses.collect::<Vec<_>>().join(" · ")
            };
            let wanted = place.before.wanted.as_ref().map_or("", |guess| guess.text.as_str());
            let moved = match (&place.before.wanted, &place.after.wanted) {
                (Some(before), Some(after)) => format!("{:.4} → {:.4}", before.p, after.p),
                _ => String::new(),
            };
            let far = place.divergence.map_or_else(String::new, |bits| {
                format!("   {} {bits:.4}", self.say("divergence in bits", "散度（比特）"))
            });
            let (before, after) = (self.say("before", "前"), self.say("after", "后"));
            let label = columns(before).max(columns(after));
            let room = self.width.saturating_sub(label + 6);
            out.push(format!("  {} {moved}{}", self.ink(Ink::Symbol, wanted), self.ink(Ink::Faint, &far)));
            for (name, cell) in [(before, &place.before), (after, &place.after)] {
                let name = self.ink(Ink::Faint, &left(name, label));
                out.push(format!("    {name}  {}", cut(&told(cell), room)));
            }
        }
    }

    fn lens(&self, out: &mut Vec<String>, lens: &Lens, why: &Why) {
        self.section(out, self.say("what it would say after each sublayer", "每个子层之后它会说什么"));
        let row = why.asked.as_ref().map_or(0, |asked| asked.focus.row);
        let place = lens.places.iter().position(|place| *place == row).unwrap_or(0);
        let text = why.asked.as_ref().map_or("", |asked| asked.text.as_str());
        let wanted = |cell: &Cell| cell.wanted.clone();
        // The place that is asked about comes first, and as many others as fit.
        let last = lens.readings.last();
        let mut places = vec![place];
        let cell_of = |place: usize, reading: &Reading| -> String {
            reading.cells.get(place).map_or_else(String::new, |cell| Self::guess(cell.top.first()))
        };
        let width = |place: usize| {
            let widest =
                lens.readings.iter().map(|reading| columns(&cell_of(place, reading))).max().unwrap_or(0);
            widest.min(18)
        };
        let labels: Vec<String> = lens
            .readings
            .iter()
            .map(|reading| match reading.layer {
                Some(layer) => format!("{} {}", layer + 1, self.kind(&reading.part)),
                None => self.kind(&reading.part),
            })
            .collect();
        let label = labels.iter().map(|label| columns(label)).max().unwrap_or(0);
        let asked = columns(text).clamp(6, 12) + 9;
        let mut room = self.width.saturating_sub(2 + label + 2 + width(place) + 2 + asked + 2);
        for other in (0..lens.places.len()).filter(|other| *other != place) {
            let needed = width(other) + 2;
            if needed > room {
                break;
            }
            room -= needed;
            places.push(other);
        }
        places.sort_unstable();
        let heading = |place: &usize| {
            let chosen = last.and_then(|last| last.cells.get(*place)).and_then(wanted);
            let chosen = chosen.map_or_else(String::new, |guess| guess.text);
            left(&cut(&chosen, width(*place)), width(*place))
        };
        let head = places.iter().map(heading).collect::<Vec<_>>().join("  ");
        let rank = self.say("rank", "名次");
        let head = format!("  {}  {head}  p({}) {rank}", left("", label), cut(text, 12));
        out.push(self.ink(Ink::Faint, head.trim_end()));
        for (reading, name) in lens.readings.iter().zip(&labels) {
            let cells = places.iter().map(|&place| {
                let text = left(&cut(&cell_of(place, reading), width(place)), width(place));
                let share = reading.cells.get(place).and_then(|cell| cell.top.first()).map_or(0.0, |g| g.p);
                self.ink(Ink::Heat((share.clamp(0.0, 1.0) * 6.0).round() as usize), &text)
            });
            let cells = cells.collect::<Vec<_>>().join("  ");
            let own = reading.cells.get(place).and_then(wanted);
            let own = own.map_or_else(String::new, |guess| format!("{:.4} {}", guess.p, guess.rank));
            let line = format!("  {}  {cells}  {own}", self.ink(Ink::Symbol, &left(name, label)));
            out.push(line.trim_end().to_owned());
        }
        self.note(
            out,
            &Text {
                en: "Each line reads the rows behind a sublayer with the final norm and the head. The last line is the model's own output."
                    .into(),
                zh: "每一行都用最后的层归一化和输出头读取该子层之后的向量；最后一行就是模型的实际输出。".into(),
            },
        );
    }

    fn guess(guess: Option<&Guess>) -> String {
        guess.map_or_else(String::new, |guess| format!("{} {:.2}", guess.text, guess.p))
    }

    fn attribution(&self, out: &mut Vec<String>, found: &Attribution) {
        self.section(out, self.say("what wrote the score", "得分由什么写成"));
        let mut parts: Vec<&Part> = found.parts.iter().collect();
        parts.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
        let rest: f64 = parts.iter().skip(LISTED).map(|part| part.share).sum();
        let more = parts.len().saturating_sub(LISTED);
        let lines: Vec<Line> = parts.iter().take(LISTED).map(|part| self.part(part)).collect();
        self.signed(out, &lines);
        if more > 0 {
            let text = match self.lang {
                Lang::English => format!("  … and {more} more, together {rest:+.4}"),
                Lang::Chinese => format!("  …… 其余 {more} 项，合计 {rest:+.4}"),
            };
            out.push(self.ink(Ink::Faint, &text));
        }
        let kinds = [
            (Wrote::Head, self.say("heads", "各头")),
            (Wrote::Feed, self.say("feed-forwards", "前馈网络")),
            (Wrote::Embedding, self.say("embeddings", "词嵌入")),
            (Wrote::Bias, self.say("biases", "偏置")),
            (Wrote::Other, self.say("other", "其他")),
        ];
        let sums = kinds.iter().filter_map(|(kind, name)| {
            let mut of = found.parts.iter().filter(|part| part.wrote == *kind).peekable();
            of.peek()?;
            Some(format!("{name} {:+.4}", of.map(|part| part.share).sum::<f64>()))
        });
        let sums = sums.collect::<Vec<_>>().join("  ");
        let (sum, score) = (self.say("sum", "合计"), self.say("score", "得分"));
        out.extend(
            wrap(&sums, self.width.saturating_sub(2), self.lang).iter().map(|line| format!("  {line}")),
        );
        out.push(format!("  {sum} {:.4}   {score} {:.4}", found.sum, found.score));
        let norms = found.frozen_norms;
        let act = if found.frozen_activations > 0 {
            (
                " Activations of the head are frozen at the ratio of output to input.",
                "输出头的激活按输出与输入之比冻结。",
            )
        } else {
            ("", "")
        };
        let text = if norms <= 1 {
            Text {
                en: format!("Direct shares only. The final norm is frozen at this run's scale.{}", act.0),
                zh: format!("只计直接贡献。最后的层归一化冻结在本次运行的尺度上。{}", act.1),
            }
        } else {
            Text {
                en: format!(
                    "Direct shares only. {norms} norms stand on the way, each frozen at this run's scale: shares sum to the score, but an early part helped to set the scales that later norms divide it by.{}",
                    act.0
                ),
                zh: format!(
                    "只计直接贡献。途中经过 {norms} 个归一化，各自冻结在本次运行的尺度上：各项之和等于得分，但靠前的项也影响了后面归一化的尺度。{}",
                    act.1
                ),
            }
        };
        self.note(out, &text);
    }

    fn part(&self, part: &Part) -> Line {
        let side = if part.value.starts_with("source") { "source" } else { "target" };
        let (name, more) = match (part.wrote, part.layer, &part.sublayer) {
            (Wrote::Head, Some(layer), Some(sublayer)) => {
                (self.place((side, sublayer), layer, part.head), String::new())
            }
            (Wrote::Feed, Some(layer), Some(sublayer)) => {
                let most = part.neurons.first().map_or_else(String::new, |neuron| {
                    format!("{} {} {:+.2}", self.say("neuron", "神经元"), neuron.neuron + 1, neuron.share)
                });
                (self.place((side, sublayer), layer, None), most)
            }
            _ => (part.value.clone(), String::new()),
        };
        Line { name, more, number: part.share }
    }

    /// Names with numbers, and bars to both sides.
    fn signed(&self, out: &mut Vec<String>, lines: &[Line]) {
        let most = lines.iter().map(|line| line.number.abs()).fold(f64::MIN_POSITIVE, f64::max);
        let widest = |of: fn(&Line) -> &str| lines.iter().map(|line| columns(of(line))).max().unwrap_or(0);
        let more = widest(|line| &line.more);
        let gap = if more > 0 { more + 2 } else { 0 };
        // Bars take what names leave.
        let room = self.width.saturating_sub(gap + 15);
        let label = widest(|line| &line.name).min(room.saturating_sub(LEAST_BAR).max(12));
        let longest = room.saturating_sub(label).clamp(1, BAR);
        for Line { name, more: text, number } in lines {
            let size = ((number.abs() / most) * longest as f64).round() as usize;
            let (ink, bar) = if *number < 0.0 { (Ink::Bad, "▒") } else { (Ink::Good, "█") };
            let bar = self.ink(ink, &bar.repeat(size));
            let text = if more > 0 {
                self.ink(Ink::Faint, &format!("  {}", left(text, more)))
            } else {
                String::new()
            };
            let number = right(&format!("{number:+.4}"), 9);
            let line = format!("  {}{text}  {number}  {bar}", left(&cut(name, label), label));
            out.push(line.trim_end().to_owned());
        }
    }

    fn ablation(&self, out: &mut Vec<String>, sweep: &Sweep, why: &Why) {
        let heads = sweep.without.iter().any(|ablated| ablated.head.is_some());
        let title = match (heads, self.lang) {
            (true, Lang::English) => "without each head",
            (true, Lang::Chinese) => "去掉每个头之后",
            (false, Lang::English) => "without each sublayer",
            (false, Lang::Chinese) => "去掉每个子层之后",
        };
        self.section(out, title);
        let change = |ablated: &Ablated| ablated.score - sweep.score;
        let asked = why.asked.as_ref();
        let text = asked.map_or("", |asked| asked.text.as_str());
        let difference = asked.is_some_and(|asked| asked.against_text.is_some());
        let what = if difference { self.say("difference", "差值") } else { self.say("score", "得分") };
        out.push(format!("  {what} {:.4}   p({text}) {:.4}", sweep.score, sweep.p));
        if heads {
            self.grids(out, sweep);
        }
        let mut sorted: Vec<&Ablated> = sweep.without.iter().collect();
        sorted.sort_by(|a, b| change(b).abs().total_cmp(&change(a).abs()));
        let line = |ablated: &&Ablated| Line {
            name: self.place((&ablated.part, &ablated.sublayer), ablated.layer, ablated.head),
            more: format!("p {:.4}", ablated.p),
            number: change(ablated),
        };
        let lines: Vec<Line> = sorted.iter().take(LISTED).map(line).collect();
        self.signed(out, &lines);
        let with = match sweep.with {
            With::Zero => Text {
                en: "How the score changes when each in turn is zero.".into(),
                zh: "依次置零时得分的变化。".into(),
            },
            With::Mean => Text {
                en: "How the score changes when each in turn is its mean over this text.".into(),
                zh: "依次换成其在本文上的均值时得分的变化。".into(),
            },
        };
        self.note(out, &with);
    }

    /// Layers and heads of each attention, by how the score changes.
    fn grids(&self, out: &mut Vec<String>, sweep: &Sweep) {
        let most = sweep.without.iter().map(|ablated| (ablated.score - sweep.score).abs());
        let most = most.fold(0.0, f64::max) as f32;
        let of = |ablated: &Ablated| (ablated.part.clone(), ablated.sublayer.clone());
        let mut kinds: Vec<(String, String)> = Vec::new();
        for ablated in &sweep.without {
            if !kinds.contains(&of(ablated)) {
                kinds.push(of(ablated));
            }
        }
        for kind in kinds {
            let cells: Vec<(usize, usize, f32)> = sweep
                .without
                .iter()
                .filter(|ablated| of(ablated) == kind)
                .map(|ablated| {
                    (ablated.layer, ablated.head.unwrap_or(0), (ablated.score - sweep.score) as f32)
                })
                .collect();
            self.grid(out, &kind, &cells, Scale::Signed(most));
        }
    }

    /// A map of layers and heads.
    fn grid(
        &self,
        out: &mut Vec<String>,
        kind: &(String, String),
        cells: &[(usize, usize, f32)],
        scale: Scale,
    ) {
        let layers = cells.iter().map(|(layer, ..)| layer + 1).max().unwrap_or(0);
        let heads = cells.iter().map(|(_, head, _)| head + 1).max().unwrap_or(0);
        let mut numbers = vec![f32::NAN; layers * heads];
        for &(layer, head, x) in cells {
            numbers[layer * heads + head] = x;
        }
        let stack = if kind.0 == "source" {
            self.say("encoder", "编码器")
        } else {
            self.say("decoder", "解码器")
        };
        let space = if self.lang == Lang::English { " " } else { "" };
        let title = format!(
            "{}{stack}{space}{}: {}",
            " ".repeat(MATRIX - 2),
            self.kind(&kind.1),
            self.say("layers down, heads across", "行为层，列为头")
        );
        out.push(self.ink(Ink::Faint, &title));
        let rows: Vec<String> = (1..=layers).map(|layer| layer.to_string()).collect();
        let columns: Vec<String> = (1..=heads).map(|head| head.to_string()).collect();
        self.heat(out, &Map { rows: &rows, columns: &columns, numbers: &numbers, scale });
    }

    fn gradients(&self, out: &mut Vec<String>, found: &Gradients) {
        let title = match found.method {
            Method::GradientTimesInput => self.say(
                "which tokens the score hangs on (gradient × input)",
                "得分取决于哪些词元（梯度 × 输入）",
            ),
            Method::Integrated { .. } => self.say(
                "which tokens the score hangs on (integrated gradients)",
                "得分取决于哪些词元（积分梯度）",
            ),
        };
        self.section(out, title);
        let two = found.tokens.iter().any(|share| share.part == "source")
            && found.tokens.iter().any(|share| share.part == "target");
        let name = |share: &TokenShare| match (two, share.part.as_str()) {
            (false, _) => format!("{} {}", share.token + 1, share.text),
            (true, "source") => format!("{} {} {}", self.say("source", "源"), share.token + 1, share.text),
            (true, _) => format!("{} {} {}", self.say("target", "目标"), share.token + 1, share.text),
        };
        let line = |share: &TokenShare| Line { name: name(share), more: String::new(), number: share.share };
        let lines: Vec<Line> = found.tokens.iter().map(line).collect();
        self.signed(out, &lines);
        let score = self.say("score", "得分");
        match (found.baseline, found.missing) {
            (Some(baseline), Some(missing)) => {
                let text = format!(
                    "{score} {:.4} = {} {baseline:.4} + {} {:.4} + {} {missing:.4}",
                    found.score,
                    self.say("of average tokens", "平均词元的得分"),
                    self.say("shares", "各项之和"),
                    found.score - baseline - missing,
                    self.say("missed by the steps", "步长误差"),
                );
                let lines = wrap(&text, self.width.saturating_sub(2), self.lang);
                out.extend(lines.into_iter().map(|line| format!("  {line}")));
            }
            _ => out.push(format!("  {score} {:.4}", found.score)),
        }
    }

    fn heads(&self, out: &mut Vec<String>, heads: &[HeadStatistics]) {
        self.section(out, self.say("what each head looks at", "每个头看向什么"));
        let kinds: [(&str, OfHead); 6] = [
            (self.say("the token before", "前一个词元"), |head| head.previous),
            (self.say("induction", "归纳"), |head| head.induction),
            (self.say("itself", "自身"), |head| head.previous.map(|_| head.diagonal)),
            (self.say("the first token", "首个词元"), |head| head.previous.map(|_| head.first)),
            (self.say("alignment", "对齐"), |head| head.alignment),
            (self.say("along the diagonal", "沿对角线"), |head| head.alignment.map(|_| head.diagonal)),
        ];
        let label = kinds.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
        for (name, of) in kinds {
            let mut found: Vec<(&HeadStatistics, f64)> =
                heads.iter().filter_map(|head| Some((head, of(head)?))).collect();
            found.sort_by(|a, b| b.1.total_cmp(&a.1));
            for (k, (head, share)) in found.iter().take(NAMED).enumerate() {
                let name = if k == 0 { name } else { "" };
                let place = self.place((&head.part, &head.sublayer), head.layer, Some(head.head));
                let name = self.ink(Ink::Symbol, &left(name, label));
                out.push(format!("  {name}  {share:.4}  {place}"));
            }
        }
        let mut kinds: Vec<(String, String)> = Vec::new();
        for head in heads {
            let kind = (head.part.clone(), head.sublayer.clone());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let most = heads.iter().map(|head| head.entropy).fold(0.0, f64::max) as f32;
        self.section(out, self.say("entropy in bits: how widely it looks", "熵（比特）：看得有多分散"));
        for kind in kinds {
            let cells: Vec<(usize, usize, f32)> = heads
                .iter()
                .filter(|head| {
                    (head.part.as_str(), head.sublayer.as_str()) == (kind.0.as_str(), kind.1.as_str())
                })
                .map(|head| (head.layer, head.head, head.entropy as f32))
                .collect();
            self.grid(out, &kind, &cells, Scale::Upto(most));
        }
    }
}
