//! What values are called in formulas: Q, K and V in an attention, X₀, X₁, … for the rows that go from sublayer to sublayer.
//!
//! A name says where a value stands and nothing about how it came about: that is the equation's part, which is made from the
//! operation that ran. Within a sublayer every name is given once; a second Q is Q′.

use std::collections::HashMap;

use glassformer_graph::{Graph, Node, Op, Origin, Side, Value};

/// The symbol of every value of `graph`, by the value's number; `given` are the names of values that have symbols already.
pub(crate) fn symbols(graph: &Graph, given: &HashMap<String, String>) -> Vec<String> {
    let two_stacks = [Side::Source, Side::Target]
        .iter()
        .all(|side| graph.values().iter().any(|info| info.name.starts_with(&format!("{side}.embed."))));
    let mut names = Names { graph, two_stacks, rows: [0; 2], taken: HashMap::new() };
    let mut symbols: Vec<String> = (0..graph.values().len()).map(|value| leaf(graph, Value(value))).collect();
    for node in graph.nodes() {
        for (output, &value) in node.outputs.iter().enumerate() {
            symbols[value.0] = names.of(node, output, value);
        }
    }
    for (info, symbol) in graph.values().iter().zip(&mut symbols) {
        if let Some(given) = given.get(&info.name) {
            symbol.clone_from(given);
        }
    }
    // Only the rows that the head is asked about: in a trace these are all of them.
    for node in graph.nodes().iter().filter(|node| matches!(node.op, Op::Pick(_))) {
        let symbol = symbols[node.inputs[0].0].clone();
        symbols[node.outputs[0].0] = symbol;
    }
    symbols
}

struct Names<'g> {
    graph: &'g Graph,
    two_stacks: bool,
    /// How many times the rows of each side had a name.
    rows: [usize; 2],
    /// How often a symbol was given in a scope.
    taken: HashMap<(String, String), usize>,
}

/// Where the name of a value puts it.
pub(crate) struct Path<'n> {
    pub side: Option<Side>,
    pub layer: Option<usize>,
    /// The sublayer, or what stands in its place: `embed`, `attend`, `feed`, `pooler`, `head`.
    pub part: &'n str,
    /// The last step.
    pub last: &'n str,
    /// Whether it belongs to the queries of global rows (Longformer), which have projections of their own.
    pub global: bool,
}

impl<'n> Path<'n> {
    /// `source.0.attend.query` is `query` in `attend` of layer 0 of the source.
    pub fn of(name: &'n str) -> Self {
        let steps: Vec<&str> = name.split('.').collect();
        let side = match steps[0] {
            "source" => Some(Side::Source),
            "target" => Some(Side::Target),
            _ => None,
        };
        let layer = side.and_then(|_| steps.get(1)?.parse().ok());
        let part = match (side, layer) {
            (None, _) => steps[0],
            (Some(_), None) => steps.get(1).copied().unwrap_or(""),
            (Some(_), Some(_)) => steps.get(2).copied().unwrap_or(""),
        };
        let last = steps.last().copied().unwrap_or("");
        Self { side, layer, part, last, global: steps.contains(&"global") }
    }
}

impl Names<'_> {
    /// The symbol of output number `output` of `node`.
    fn of(&mut self, node: &Node, output: usize, value: Value) -> String {
        let name = &self.graph.info(value).name;
        let path = Path::of(name);
        if self.is_stream(&path, node, value) {
            return self.stream(path.side);
        }
        let base = base(&path, node, output);
        let base = match (path.global, self.two_stacks && path.side == Some(Side::Source)) {
            (true, _) => format!("{base}_g"),
            // What the encoder made is the decoder's memory.
            (false, true) if base == "F" && path.part == "norm" => return "M".to_owned(),
            (false, _) => base,
        };
        // What stands in no sublayer stands beside all others of its layer that do not.
        let part = if path.part == path.last { "" } else { path.part };
        let scope = format!("{:?} {:?} {part}", path.side, path.layer);
        let times = self.taken.entry((scope, base.clone())).or_default();
        *times += 1;
        primed(&base, *times - 1)
    }

    /// Whether a value is what its sublayer hands on: the last of the embedding, of a sublayer, of a step's positions.
    fn is_stream(&self, path: &Path<'_>, node: &Node, value: Value) -> bool {
        if path.side.is_none() || matches!(node.op, Op::AttendShow(_)) {
            return false;
        }
        match (path.layer, path.part, path.last) {
            (None, "embed", _) => self
                .is_last(value, |other| (other.side, other.layer, other.part) == (path.side, None, "embed")),
            (Some(_), _, "norm_out" | "timed") => true,
            (Some(_), _, "sum") if path.part != "halt" => self.is_last(value, |other| {
                (other.side, other.layer, other.part) == (path.side, path.layer, path.part)
            }),
            _ => false,
        }
    }

    /// Whether no later node makes a value where `same` says.
    fn is_last(&self, value: Value, same: impl Fn(&Path<'_>) -> bool) -> bool {
        let Origin::Node(id, _) = self.graph.info(value).origin else { return false };
        self.graph.nodes()[id.0 + 1..].iter().all(|later| !same(&Path::of(&later.name)))
    }

    fn stream(&mut self, side: Option<Side>) -> String {
        let (letter, count) = match side {
            Some(Side::Target) if self.two_stacks => ('Y', &mut self.rows[1]),
            Some(Side::Target) => ('X', &mut self.rows[1]),
            Some(Side::Source) | None => ('X', &mut self.rows[0]),
        };
        *count += 1;
        format!("{letter}{}", subscript(*count - 1))
    }
}

/// What a value is called by where it stands.
fn base(path: &Path<'_>, node: &Node, output: usize) -> String {
    let step = path.layer.map_or(0, |layer| layer + 1);
    let numbered = |letter: char, rest: &str| match rest.parse::<usize>() {
        Ok(number) => format!("{letter}{}", subscript(number)),
        Err(_) => letter.to_string(),
    };
    let symbol = match (path.part, path.last) {
        _ if matches!(node.op, Op::Halt(_)) => {
            return format!("{}{}", ["w", "s"][output.min(1)], subscript(step));
        }
        (_, "halted") => return "s₀".to_owned(),
        (_, "result") => return format!("F{}", subscript(step)),
        ("pooler", _) => "p",
        ("logits", _) => "L",
        ("head", "clusters") => "L_c",
        ("head", "down") => "d",
        ("head", number) if number.parse::<usize>().is_ok() => return numbered('L', number),
        ("head", _) => "h",
        ("embed", "typed") => "T",
        ("probabilities", _) | ("embed", "placed") | (_, "positions") => "P",
        ("embed", last) if last.starts_with("words") => return numbered('E', &last[5..]),
        ("embed", last) if last.starts_with("up") => return numbered('U', &last[2..]),
        ("embed", _) => "E",
        (_, "norm_in") => "N",
        (_, "recalled") => "C",
        (_, "query" | "query_norm" | "query_rotated") => "Q",
        (_, "key" | "key_norm" | "key_rotated" | "key_squeezed") => "K",
        (_, "value" | "value_squeezed") => "V",
        (_, "position") => "R",
        (_, "distances") => "D",
        (_, "scores") => "S",
        (_, "probs") => "A",
        (_, "heads" | "joined") => "O",
        (_, "output" | "down" | "norm_branch") => "B",
        (_, "up") => "U",
        (_, "gate") => "G",
        (_, "hidden") => "H",
        (_, "sum" | "placed") => "Z",
        (_, "norm" | "kept" | "weighed" | "released" | "negated") => "F",
        (_, "time") => "τ",
        (_, "p") => "p",
        (_, "halt") => "z",
        (_, other) => other,
    };
    symbol.to_owned()
}

/// What a weight or an input is called.
fn leaf(graph: &Graph, value: Value) -> String {
    let name = graph.info(value).name.as_str();
    let steps: Vec<&str> = name.rsplitn(3, '.').collect();
    let last = steps[0];
    let owner = steps.get(1).copied().unwrap_or("");
    let gated = || {
        let feed =
            name.rsplit_once('.').and_then(|(owner, _)| owner.rsplit_once('.')).map_or("", |(feed, _)| feed);
        graph.values().iter().any(|info| info.name == format!("{feed}.gate.weight"))
    };
    let suffix = || -> String {
        match owner {
            "query" => "_Q".into(),
            "key" => "_K".into(),
            "value" => "_V".into(),
            "output" => "_O".into(),
            "position" => "_R".into(),
            "gate" => "_G".into(),
            "up" if gated() => "_U".into(),
            "down" if gated() => "_D".into(),
            "up" => "₁".into(),
            "down" => "₂".into(),
            "head" => "ₒ".into(),
            "clusters" => "_C".into(),
            "halt" => "_H".into(),
            "project" => "_X".into(),
            "dense" => "_D".into(),
            number if number.parse::<usize>().is_ok() => subscript(number.parse().unwrap_or(0)),
            other => format!("_{other}"),
        }
    };
    match (owner, last) {
        (_, "weight") => format!("W{}", suffix()),
        (_, "gain") => "γ".to_owned(),
        ("position", "u") => "u".to_owned(),
        ("position", "v") => "v".to_owned(),
        ("position", "table") => "W_B".to_owned(),
        ("squeeze", "key") => "E_K".to_owned(),
        ("squeeze", "value") => "E_V".to_owned(),
        (_, "squeeze") => "E_S".to_owned(),
        (number, "tokens") if number.parse::<usize>().is_ok() => {
            format!("W_E{}", subscript(number.parse().unwrap_or(0)))
        }
        (_, "tokens") => "W_E".to_owned(),
        (_, "positions") => "W_P".to_owned(),
        (_, "types") => "W_T".to_owned(),
        (_, "class") => "c".to_owned(),
        (_, "memory") => "memory".to_owned(),
        (owner, "bias") if owner.starts_with("norm") || owner.ends_with("norm") => "β".to_owned(),
        (_, "bias") => format!("b{}", suffix()),
        (_, other) => other.to_owned(),
    }
}

/// Q, Q′, Q″, …
fn primed(base: &str, times: usize) -> String {
    let primes = ["", "′", "″", "‴"];
    match primes.get(times) {
        Some(prime) => format!("{base}{prime}"),
        None => format!("{base}{}", subscript(times)),
    }
}

/// 12 as ₁₂.
pub(crate) fn subscript(number: usize) -> String {
    let digit = |c: char| char::from_u32(0x2080 + c.to_digit(10).unwrap_or(0)).unwrap_or(c);
    number.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_where_a_value_stands() {
        let path = Path::of("source.11.attend.global.query");
        assert_eq!(
            (path.side, path.layer, path.part, path.last),
            (Some(Side::Source), Some(11), "attend", "query")
        );
        assert!(path.global);
        let path = Path::of("logits");
        assert_eq!((path.side, path.layer, path.part, path.last), (None, None, "logits", "logits"));
    }

    #[test]
    fn numbers_are_written_below() {
        assert_eq!((subscript(0), subscript(12)), ("₀".to_owned(), "₁₂".to_owned()));
        assert_eq!((primed("Q", 1), primed("Q", 4)), ("Q′".to_owned(), "Q₄".to_owned()));
    }
}
