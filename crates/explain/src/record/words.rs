//! What steps, rules and options are called, and what they are for: two sentences each, in both languages.

use glassformer_engine::Stage;

use crate::Text;
use crate::names::Path;

/// What is said of a step.
pub(super) struct Told {
    pub title: Text,
    pub note: Option<Text>,
    /// What other models do in its place.
    pub elsewhere: Option<Text>,
}

fn text((en, zh): (&str, &str)) -> Text {
    Text { en: en.to_owned(), zh: zh.to_owned() }
}

/// What is said of the value of `path`, which an operation of `kind` made.
pub(super) fn told(path: &Path<'_>, kind: &str) -> Told {
    let part = path.part.trim_end_matches(|c: char| c.is_ascii_digit());
    let (title, note) = match part {
        "attend" | "cross" => attention(path, kind),
        "feed" => feed(path, kind),
        "embed" => embed(path, kind),
        "pooler" => pooler(kind),
        "logits" | "head" | "probabilities" => head(path, kind),
        _ => rest(kind),
    };
    let elsewhere = elsewhere(path, part, kind);
    Told { title: text(title), note: Some(text(note)), elsewhere: elsewhere.map(text) }
}

/// In English, in Chinese.
type Both = (&'static str, &'static str);

fn attention(path: &Path<'_>, kind: &str) -> (Both, Both) {
    let crosses = path.part.starts_with("cross");
    match path.last {
        "query" => (
            ("What each token asks", "每个词元问什么"),
            (
                "Every row is multiplied by W_Q. Each head has its own columns of the result.",
                "每一行乘以 W_Q。结果中的列分给各个头，每个头有自己的几列。",
            ),
        ),
        "key" if crosses => (
            ("What each source token is found by", "源句的每个词元以什么被找到"),
            (
                "The encoder's rows are multiplied by W_K. They stay the same for every word that is written.",
                "编码器的各行乘以 W_K。无论写到哪个词，它们都不变。",
            ),
        ),
        "key" => (
            ("What each token is found by", "每个词元以什么被找到"),
            (
                "Every row is multiplied by W_K. A query that points the same way as a key looks at its token.",
                "每一行乘以 W_K。查询与哪个键方向相近，就看向哪个词元。",
            ),
        ),
        "value" if crosses => (
            ("What each source token hands over", "源句的每个词元交出什么"),
            (
                "The encoder's rows are multiplied by W_V. This is what reaches the decoder.",
                "编码器的各行乘以 W_V。传到解码器的就是这些值。",
            ),
        ),
        "value" => (
            ("What each token hands over", "每个词元交出什么"),
            (
                "Every row is multiplied by W_V. Keys decide who is looked at, values what is taken from there.",
                "每一行乘以 W_V。键决定看向谁，值决定从那里取走什么。",
            ),
        ),
        "query_rotated" | "key_rotated" => (
            ("Pairs of numbers turn with the position", "成对的数随位置旋转"),
            (
                "RoPE turns each pair by an angle that grows with the position. A query and a key then meet by their distance, not by their places.",
                "RoPE 把每一对数旋转一个随位置增大的角度。于是查询与键的相遇只取决于距离，而非各自的位置。",
            ),
        ),
        "query_norm" | "key_norm" => (
            ("Each head is brought to one scale", "每个头归一到同一尺度"),
            (
                "The numbers of each head are normalised by themselves. Scores then cannot grow without bound.",
                "每个头的数各自归一化。得分因此不会无限增大。",
            ),
        ),
        "key_squeezed" | "value_squeezed" => (
            ("Many rows become few", "多行压缩为少数几行"),
            (
                "Rows are mixed into a fixed number of them. Attention then costs as much for each token, however long the text is.",
                "各行混合为固定的行数。于是无论文本多长，每个词元的注意力开销相同。",
            ),
        ),
        "scores" => (
            ("Each query meets each key", "每个查询与每个键相遇"),
            (
                "A dot product for each pair, scaled so that wide heads are no surer than narrow ones. A pair that may not see each other has −∞.",
                "每一对做点积，再缩放，使较宽的头不会比较窄的头更武断。不得相见的一对记为 −∞（掩码）。",
            ),
        ),
        "probs" => (
            ("Scores become shares of one", "得分变为总和为一的份额"),
            (
                "Softmax: e to the power of each score, divided by the sum of its row. What was −∞ gets nothing.",
                "softmax：以 e 为底对每个得分取幂，再除以该行之和。原为 −∞ 的得到零。",
            ),
        ),
        "heads" => (
            ("Values are mixed in these shares", "按份额混合各个值"),
            (
                "Each head adds up the values of all tokens, each times its share. The heads stand side by side.",
                "每个头把所有词元的值按份额相加。各个头并排放置。",
            ),
        ),
        "joined" => (
            ("Global and local rows come together", "全局行与局部行合并"),
            (
                "Rows that see all and rows that see a window were computed apart. Each row keeps its own result.",
                "看见全部的行与只看窗口的行分别计算。每一行保留自己的结果。",
            ),
        ),
        "output" => (
            ("The heads are combined", "合并各个头"),
            (
                "W_O mixes what the heads found and brings it back to the width of the model.",
                "W_O 混合各个头的发现，并变回模型的宽度。",
            ),
        ),
        _ => sublayer(path, kind),
    }
}

fn feed(path: &Path<'_>, kind: &str) -> (Both, Both) {
    match path.last {
        "gate" => (
            ("A gate for each inner number", "每个内部数的门"),
            (
                "Every row goes through W_G. Its activation decides how much of each inner number passes.",
                "每一行经过 W_G。其激活值决定每个内部数通过多少。",
            ),
        ),
        "up" => (
            ("Each row becomes wider", "每一行变宽"),
            (
                "Every token by itself is multiplied by a wide matrix. Each column is a pattern that it is compared with.",
                "每个词元各自乘以一个较宽的矩阵。每一列是一个与之比较的模式。",
            ),
        ),
        "hidden" => (
            ("The activation function", "激活函数"),
            (
                "Numbers below zero are held back, others pass. Without it two products in a row would be one.",
                "小于零的数被抑制，其余通过。若没有它，相继的两次乘积就等于一次。",
            ),
        ),
        "down" => (
            ("Back to the width of the model", "变回模型的宽度"),
            (
                "What each pattern found is written back into the row. Every token is still by itself.",
                "把各个模式的发现写回这一行。此处各词元仍各自计算。",
            ),
        ),
        _ => sublayer(path, kind),
    }
}

/// What every sublayer has: norms and the residual.
fn sublayer(path: &Path<'_>, kind: &str) -> (Both, Both) {
    match (path.last, kind) {
        ("norm_in" | "norm_out" | "norm_branch", _) => (
            ("Each row is brought to one scale", "每一行归一到同一尺度"),
            (
                "The row is divided by how large its numbers are, then stretched by γ, which was learned. Sublayers so always read numbers of the same size.",
                "层归一化：把一行除以其数值的大小，再乘以学到的 γ。于是各子层读到的数大小总是相当。",
            ),
        ),
        ("sum", _) => (
            ("What was found is added to the row", "把所得加到这一行上"),
            (
                "The residual: the row of before, plus what the sublayer made of it. What no sublayer touches stays.",
                "残差：原来的一行，加上子层由它得到的结果。没有子层改动的内容原样保留。",
            ),
        ),
        _ => rest(kind),
    }
}

fn embed(path: &Path<'_>, kind: &str) -> (Both, Both) {
    match (kind, path.last) {
        ("lookup", "typed") => (
            ("Each token's segment", "每个词元所在的段"),
            (
                "A learned row for the first text, another for the second.",
                "第一段文本对应一个可学习的行，第二段对应另一个。",
            ),
        ),
        ("lookup", _) => (
            ("Each id picks its row of the table", "每个编号取出嵌入表中的一行"),
            (
                "The embedding of a word is a row of numbers that was learned. Words that are used alike have rows that are alike.",
                "词嵌入是学到的一行数。用法相近的词，其行也相近。",
            ),
        ),
        ("position", _) => (
            ("Where each token stands", "每个词元的位置"),
            (
                "Attention by itself sees no order. So every place has a row of its own, which says how far along it is.",
                "注意力本身看不出顺序。所以每个位置有自己的一行，说明它在第几处（位置编码）。",
            ),
        ),
        ("scale", _) => (
            ("Embeddings are made larger", "放大词嵌入"),
            (
                "The rows are multiplied by the root of the width, so that positions do not drown them.",
                "各行乘以宽度的平方根，以免被位置编码淹没。",
            ),
        ),
        ("add", _) => (
            ("Word and place are added", "词与位置相加"),
            (
                "From here on one row says both what stands there and where.",
                "从这里起，一行同时说明那里是什么、在哪里。",
            ),
        ),
        ("norm", _) => (
            ("Each row is brought to one scale", "每一行归一到同一尺度"),
            (
                "The row is divided by how large its numbers are, then stretched by γ, which was learned.",
                "层归一化：把一行除以其数值的大小，再乘以学到的 γ。",
            ),
        ),
        _ => rest(kind),
    }
}

fn pooler(kind: &str) -> (Both, Both) {
    match kind {
        "pool" => (
            ("Many rows become one", "多行归为一行"),
            (
                "The whole text is to be one row: the first one, the mean, or whatever the model was trained with.",
                "整段文本要归为一行：取第一行、取平均，或模型训练时采用的方式。",
            ),
        ),
        "norm" => (
            ("The row gets length one", "把这一行变为单位长度"),
            (
                "Two texts are then compared by the angle between their rows.",
                "于是两段文本可由两行之间的夹角来比较。",
            ),
        ),
        _ => rest(kind),
    }
}

fn head(path: &Path<'_>, kind: &str) -> (Both, Both) {
    match (path.part, kind) {
        ("logits", _) => (
            ("A score for everything that could come", "给每个可能的结果打分"),
            (
                "Each row is compared with one row for each word or label. The larger the dot product, the better it fits.",
                "每一行与每个词或标签的行比较。点积越大，越合适。",
            ),
        ),
        ("probabilities", _) => (
            ("Scores become probabilities", "得分变为概率"),
            (
                "e to the power of each score, divided by the sum of its row. All of them together are one.",
                "以 e 为底对每个得分取幂，再除以该行之和。它们加起来为一。",
            ),
        ),
        _ => rest(kind),
    }
}

fn rest(kind: &str) -> (Both, Both) {
    match kind {
        "norm" => (
            ("Each row is brought to one scale", "每一行归一到同一尺度"),
            (
                "The row is divided by how large its numbers are, then stretched by γ, which was learned.",
                "层归一化：把一行除以其数值的大小，再乘以学到的 γ。",
            ),
        ),
        "linear" => (
            ("A product with a matrix", "与矩阵相乘"),
            (
                "Each number is the dot product of a row and a column of the matrix.",
                "每个数是该行与矩阵一列的点积。",
            ),
        ),
        "activate" => (("The activation function", "激活函数"), ("Each number by itself.", "逐个数计算。")),
        "add" => (("Two rows are added", "两行相加"), ("Number by number.", "逐个数相加。")),
        "multiply" | "scale" => (("Numbers are scaled", "缩放"), ("Each number by itself.", "逐个数计算。")),
        "halt" => (
            ("Has the token had enough?", "这个词元算够了吗？"),
            (
                "A token that has had enough stops, and its later steps count nothing.",
                "算够了的词元就停下，之后的步骤不再计入。",
            ),
        ),
        "adaptive" => (
            ("Frequent words first, then clusters of rare ones", "先是常用词，再是罕见词的簇"),
            ("Words of a cluster share what the cluster gets.", "簇内的词分享该簇得到的那一份。"),
        ),
        _ => (("Rows go on", "各行继续"), ("They are handed on to what comes next.", "交给下一步。")),
    }
}

/// What other models do in the step's place, where that is worth knowing.
fn elsewhere(path: &Path<'_>, part: &str, kind: &str) -> Option<Both> {
    Some(match (part, path.last, kind) {
        ("embed", _, "position") => (
            "Other models turn queries and keys (RoPE), add a number for each distance to the scores (T5, ALiBi), or learn a row for each place (BERT, GPT-2).",
            "其他模型旋转查询与键（RoPE），或按距离给得分加一个数（T5、ALiBi），或为每个位置学一行（BERT、GPT-2）。",
        ),
        (_, "query_rotated", _) => (
            "The original Transformer adds waves to the embeddings; T5 and ALiBi change the scores by distance.",
            "最初的 Transformer 把正弦波加到词嵌入上；T5 与 ALiBi 按距离改变得分。",
        ),
        ("attend" | "cross", "scores", _) => (
            "T5 does not scale; ALiBi subtracts more the farther a key is; Longformer looks at a window only.",
            "T5 不缩放；ALiBi 对较远的键减去更多；Longformer 只看一个窗口。",
        ),
        ("attend", "key", _) => (
            "With grouped heads (LLaMA) several heads of queries share one of keys and values.",
            "采用分组头时（LLaMA），几个查询头共用一个键值头。",
        ),
        (_, "norm_in", _) => (
            "The original Transformer and BERT normalise after adding (post-norm).",
            "最初的 Transformer 和 BERT 在相加之后归一化（后归一化）。",
        ),
        (_, "norm_out", _) => (
            "GPT-2 and most later models normalise what a sublayer reads (pre-norm).",
            "GPT-2 与多数后来的模型对子层的输入归一化（前归一化）。",
        ),
        ("feed", "hidden", "activate") => (
            "The original used ReLU, BERT and GPT-2 use GELU, LLaMA a gate (SwiGLU).",
            "最初用 ReLU，BERT 与 GPT-2 用 GELU，LLaMA 用门控（SwiGLU）。",
        ),
        ("feed", "hidden", "gate") => (
            "The original has no gate: one product, ReLU, another product.",
            "最初没有门：一次乘积、ReLU、再一次乘积。",
        ),
        ("logits", ..) => (
            "Many models use the table of embeddings again (tied); others have a matrix of their own.",
            "许多模型再次使用词嵌入表（共享权重）；另一些有自己的矩阵。",
        ),
        _ => return None,
    })
}

/// What a rule over scores is called.
pub(super) fn stage_name(stage: Stage) -> Text {
    text(match stage {
        Stage::Raw => ("the model's own scores", "模型自己的得分"),
        Stage::Guidance => ("led away from the scores without the prompt", "远离没有提示时的得分"),
        Stage::SequenceBias => ("bias for runs of tokens", "对词元串的偏置"),
        Stage::Diversity => ("penalty for what other groups chose", "对其他组已选词元的惩罚"),
        Stage::EncoderRepetition => ("penalty for leaving the source's words", "对偏离源句用词的惩罚"),
        Stage::Repetition => ("penalty for what has occurred", "重复惩罚"),
        Stage::Occurrence => ("presence and frequency penalty", "出现与频率惩罚"),
        Stage::NoRepeatNgram => ("no run of tokens twice", "禁止重复的 n 元组"),
        Stage::EncoderNoRepeatNgram => ("no run of the source", "禁止源句中的 n 元组"),
        Stage::BadWords => ("words that never occur", "禁用词"),
        Stage::MinLength => ("too short to end", "太短，不得结束"),
        Stage::ForcedFirst => ("the token that comes first", "强制的首个词元"),
        Stage::ForcedLast => ("the token that comes last", "强制的末个词元"),
        Stage::RemoveInvalid => ("numbers that are none, replaced", "替换非数值"),
        Stage::LengthDecay => ("the end becomes likelier", "结束的可能性逐渐增大"),
        Stage::Suppress => ("tokens that are ruled out", "排除的词元"),
        Stage::BeginSuppress => ("tokens that do not begin a text", "不得作为开头的词元"),
        Stage::Form => ("what the form allows", "格式允许的词元"),
        Stage::Temperature => ("temperature", "温度"),
        Stage::TopH => ("top-H: a share of the entropy", "top-H：占一定份额的熵"),
        Stage::TopK => ("top-k: the likeliest", "top-k：最可能的若干个"),
        Stage::TopP => {
            ("top-p: the likeliest that together have a probability", "top-p：合起来达到一定概率的最可能者")
        }
        Stage::MinP => {
            ("min-p: a share of the likeliest one's probability", "min-p：不低于最大概率的一定比例")
        }
        Stage::TypicalP => ("typical-p: those of usual surprise", "typical-p：意外程度最寻常者"),
        Stage::Epsilon => ("epsilon: too unlikely", "epsilon：概率过小者除外"),
        Stage::Eta => ("eta: too unlikely for this entropy", "eta：相对于熵概率过小者除外"),
        Stage::Renormalize => ("probabilities again", "重新归一化"),
        _ => return Text::same(stage.name()),
    })
}

/// What an option of a search is called.
pub(super) fn option_name(name: &str) -> Text {
    text(match name {
        "max_new_tokens" => ("at most so many new tokens", "最多写出的词元数"),
        "max_length" => ("at most so long", "最大长度"),
        "min_new_tokens" => ("at least so many new tokens", "最少写出的词元数"),
        "min_length" => ("at least so long", "最小长度"),
        "beams" => ("beams", "束宽"),
        "length_penalty" => ("power of the length", "长度惩罚的指数"),
        "early_stopping" => ("over as soon as enough have ended", "提前结束"),
        "groups" => ("groups of beams", "束的组数"),
        "diversity_penalty" => ("diversity penalty", "多样性惩罚"),
        "guidance" => ("guidance", "引导强度"),
        "repetition_penalty" => ("repetition penalty", "重复惩罚"),
        "presence_penalty" => ("presence penalty", "出现惩罚"),
        "frequency_penalty" => ("frequency penalty", "频率惩罚"),
        "no_repeat_ngram" => ("no run of so many tokens twice", "不重复的 n 元组长度"),
        "bad_words" => ("words that never occur", "禁用词"),
        "suppress" => ("tokens that are ruled out", "排除的词元"),
        "forced_first" => ("the token that comes first", "强制的首个词元"),
        "forced_last" => ("the tokens that come last", "强制的末个词元"),
        "temperature" => ("temperature", "温度"),
        "top_k" => ("top-k", "top-k"),
        "top_p" => ("top-p", "top-p"),
        "min_p" => ("min-p", "min-p"),
        "seed" => ("seed", "随机种子"),
        other => return Text::same(other),
    })
}
