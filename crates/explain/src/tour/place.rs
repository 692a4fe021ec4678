//! Where in the model a value is, in words.

use crate::names::Path;
use crate::{Shown, Text};
use glassformer_graph::Side;

/// The part of the model that the value `name` belongs to: `source.0.attend` for `source.0.attend.global.query`.
pub(crate) fn section(name: &str) -> String {
    let path = Path::of(name);
    match (path.side, path.layer) {
        (Some(side), Some(layer)) if path.part == path.last => format!("{side}.{layer}"),
        (Some(side), Some(layer)) => format!("{side}.{layer}.{}", path.part),
        // Computed once, where the first layer asks for them.
        (Some(side), None) if path.part == "distances" => format!("{side}.embed"),
        (Some(side), None) => format!("{side}.{}", path.part),
        (None, _) => match path.part {
            "pooler" => "pooler".to_owned(),
            _ => "head".to_owned(),
        },
    }
}

/// A part of the model.
pub(super) struct Place {
    /// The layer, or what stands in its place: sections of one chapter have one heading.
    pub chapter: String,
    side: Option<Side>,
    layer: Option<usize>,
    /// What of it: `attend`, `feed`, `embed`, `head`.
    pub part: String,
}

impl Place {
    /// That of `section`.
    pub fn of(section: &str) -> Self {
        let inside = format!("{section}.value");
        let path = Path::of(&inside);
        let chapter = match (path.side, path.layer) {
            (Some(side), Some(layer)) => format!("{side}.{layer}"),
            (_, _) => section.to_owned(),
        };
        let part = if path.part == "value" { "" } else { path.part };
        Self { chapter, side: path.side, layer: path.layer, part: part.to_owned() }
    }

    fn side(&self) -> (&'static str, &'static str) {
        match self.side {
            Some(Side::Source) => ("Encoder", "编码器"),
            Some(Side::Target) => ("Decoder", "解码器"),
            None => ("Head", "输出头"),
        }
    }

    /// What stands above the chapter.
    pub fn heading(&self) -> Text {
        let (en, zh) = self.side();
        match (self.layer, self.part.as_str()) {
            (Some(layer), _) => {
                Text { en: format!("{en}, layer {}", layer + 1), zh: format!("{zh}第 {} 层", layer + 1) }
            }
            (None, "embed") => {
                Text { en: format!("{en}, before its layers"), zh: format!("{zh}各层之前") }
            }
            (None, "pooler") => {
                Text { en: "One row for the text".into(), zh: "整段文本归为一行".into() }
            }
            (None, "head") => Text { en: "What the rows mean".into(), zh: "各行的含义".into() },
            (None, _) => Text { en: format!("{en}, after its layers"), zh: format!("{zh}各层之后") },
        }
    }

    /// What happens there.
    pub fn title(&self, tensors: &[Shown]) -> Text {
        let (en, zh) = match self.part.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "embed" => ("Tokens become vectors", "词元变为向量"),
            "attend" => ("Every token looks at the others", "每个词元看向其他词元"),
            "cross" => ("Every word looks at the source", "每个词看向源句"),
            "feed" => {
                ("Each token by itself goes through the feed-forward network", "每个词元各自经过前馈网络")
            }
            "pooler" => ("Rows become one", "多行归为一行"),
            "head" => ("Rows become scores", "各行变为得分"),
            "norm" => ("The last norm", "最后的归一化"),
            "halt" | "halted" | "result" => ("Has a token had enough?", "这个词元算够了吗？"),
            _ => ("Rows go on to the next layer", "各行进入下一层"),
        };
        let placed = self.part == "embed" && tensors.iter().any(|shown| shown.symbol.contains("P ="));
        let waves = self.part == "embed" && tensors.iter().any(|shown| shown.symbol.starts_with("P[p"));
        if placed || waves {
            return Text {
                en: "Tokens become vectors, and get their positions".into(),
                zh: "词元变为向量，并加上位置".into(),
            };
        }
        Text { en: en.into(), zh: zh.into() }
    }

    /// What a reader should know before the numbers, where it is said the first time.
    pub fn text(&self, tensors: &[Shown]) -> Vec<Text> {
        if self.layer.is_some_and(|layer| layer > 0) {
            return Vec::new();
        }
        let has = |what: &str| tensors.iter().any(|shown| shown.symbol.contains(what));
        let notes: [(bool, &str, &str); 16] = [
            (
                has("W_E[t]"),
                "t is a token's id, p its position counted from 0, s its segment.",
                "t 是词元的编号，p 是从 0 起的位置，s 是所在的段。",
            ),
            (
                has("cᵢ ="),
                "Padding has no position: c is a token's place among those that are counted, from 1 on, and 0 for padding.",
                "填充词元没有位置：c 是词元在计数的词元中的序号，从 1 起；填充词元的 c 为 0。",
            ),
            (
                has("last_but_"),
                "The row that is read is the last one whose token is not padding.",
                "读取的是最后一个非填充词元所在的行。",
            ),
            (
                has("LN(") || has("RMS("),
                "LN subtracts a row's mean and divides by its standard deviation, RMS divides by the root of its mean square; ε keeps the \
                 divisor from being zero.",
                "LN 减去一行的均值再除以标准差，RMS 除以均方根；ε 使除数不为零。",
            ),
            (
                self.part == "attend",
                "Queries meet keys: each score says how much a token (row i) asks of another (column j). Softmax makes them shares of \
                 one, and values are mixed in those shares. h is the number of heads; each head has its own columns of Q, K and V. \
                 A condition such as j ≤ i says which tokens are seen; elsewhere the score is −∞.",
                "查询与键相乘：每个得分表示某词元（第 i 行）对另一词元（第 j 列）的关注程度。softmax 把得分化为总和为一的份额，再按份额混合各个值。\
                 h 是头数，每个头用 Q、K、V 中自己的几列。j ≤ i 这样的条件说明看得见哪些词元；其余得分为 −∞。",
            ),
            (
                has("h_kv"),
                "There are fewer heads of keys and values (h_kv) than of queries: neighbouring heads share them.",
                "键和值的头数（h_kv）少于查询的头数：相邻的头共用它们。",
            ),
            (
                has("RoPE("),
                "RoPE turns pairs of a head's numbers (a, b) by the angle θ = p · ω: a cos θ − b sin θ, and b cos θ + a sin θ. \
                 ↔ says which numbers form a pair.",
                "RoPE 把一个头中成对的数 (a, b) 旋转角度 θ = p · ω：a cos θ − b sin θ 与 b cos θ + a sin θ。↔ 说明哪些数成对。",
            ),
            (
                has("bucket"),
                "A learned number for each distance is added to the scores; far distances share a bucket.",
                "得分加上由距离决定的可学习的数；较远的距离共用一个桶。",
            ),
            (
                has("m · |i − j|"),
                "The farther two tokens are apart, the less they see of each other: m is each head's slope (ALiBi).",
                "两个词元相距越远，互相关注越少：m 是每个头的斜率（ALiBi）。",
            ),
            (
                has("D[p"),
                "D has a wave for each distance p between two tokens.",
                "D 对两词元间的每个距离 p 各有一组波。",
            ),
            (
                has("= [memory;"),
                "Rows that are remembered from the text before stand first: i and j are counted from the first of them. At the beginning of \
                 a text they are zero.",
                "从前文记住的各行排在最前：i 和 j 都从其中第一行数起。文本开头处它们全为零。",
            ),
            (
                has("adaptive("),
                "Frequent words and clusters of rare words share one softmax; the words of a cluster share its part. L has the logarithms.",
                "常用词与各个罕见词簇共用一个 softmax；簇内的词再分享该簇的那一份。L 是其对数。",
            ),
            (
                has("halt("),
                "A token that has had enough stops: halt gives the weight of this step in its result, halted the sum of what it had so far; \
                 at the threshold τ the rest is taken and the sum is 1.",
                "算够了的词元就停下：halt 给出这一步在结果中的权重，halted 给出此前之和；超过阈值 τ 时取走余下部分，和变为 1。",
            ),
            (
                has("gᵢ"),
                "Rows marked g (global) see all and are seen by all; the others see a window.",
                "标记为 g（全局）的行看见全部，也被全部看见；其余各行只看一个窗口。",
            ),
            (
                self.part == "cross",
                "The same, but keys and values come from the encoder: this is how the source reaches the words.",
                "做法相同，但键和值来自编码器：源句由此传到目标词。",
            ),
            (
                self.part == "feed",
                "A wider layer, an activation function, and back to the width of the model.",
                "先变宽，经激活函数，再变回模型的宽度。",
            ),
        ];
        let said = notes.into_iter().filter(|(is_so, ..)| *is_so);
        said.map(|(_, en, zh)| Text { en: en.into(), zh: zh.into() }).collect()
    }
}
