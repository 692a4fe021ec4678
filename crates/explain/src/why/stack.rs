//! What a graph is made of, for those who ask why: its attentions, its sublayers, and the rows that go from one to the next.

use glassformer_graph::ops::{Attend, Reach};
use glassformer_graph::{Graph, Node, Op, Origin, Side, Value};

use crate::Error;
use crate::names::Path;

/// An attention of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Where its values are: `target.3.attend`.
    pub scope: String,
    /// Whose stack it is in.
    pub side: Side,
    /// Which layer, counted from 0.
    pub layer: usize,
    /// Which sublayer of it: `attend`, `cross`.
    pub sublayer: String,
    /// How it looks.
    pub attend: Attend,
    /// The value in which its heads stand side by side, as the output projection reads them.
    pub mixed: String,
}

impl Attention {
    /// Whether its keys are rows of the other stack.
    pub fn crosses(&self) -> bool {
        self.sublayer.starts_with("cross")
    }

    /// Whether it looks back alone.
    pub fn is_causal(&self) -> bool {
        self.attend.reach == Reach::Past
    }

    /// The columns of head `head` in the value of all heads.
    pub fn columns(&self, head: usize) -> std::ops::Range<usize> {
        head * self.attend.size..(head + 1) * self.attend.size
    }
}

/// What a sublayer adds to the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sublayer {
    /// Where its values are: `target.3.feed`.
    pub scope: String,
    /// Whose stack it is in.
    pub side: Side,
    /// Which layer, counted from 0.
    pub layer: usize,
    /// What it is called: `attend`, `cross`, `feed`.
    pub name: String,
    /// What is added: its branch.
    pub branch: String,
    /// The rows behind it, its norm included where that stands there.
    pub stream: String,
}

/// The rows of a stack at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The name of the value.
    pub value: String,
    /// Behind which layer, counted from 0; nothing for the embeddings, and for rows that stand behind all layers.
    pub layer: Option<usize>,
    /// Behind which sublayer: `embed`, `attend`, `cross`, `feed`, `output`.
    pub part: String,
}

/// The node that makes the value `name`.
pub(super) fn maker<'g>(graph: &'g Graph, name: &str) -> Option<&'g Node> {
    let value = graph.value(name).ok()?;
    match graph.info(value).origin {
        Origin::Node(id, _) => Some(&graph.nodes()[id.0]),
        Origin::Leaf(_) => None,
    }
}

/// The attentions of `graph`, in the order of computation. Global rows that look with projections of their own (Longformer) belong to
/// the attention beside which they stand.
pub fn attentions(graph: &Graph) -> Vec<Attention> {
    let attention = |node: &Node| {
        let Op::Attend(attend) = node.op else { return None };
        let path = Path::of(&node.name);
        let (scope, _) = node.name.rsplit_once('.')?;
        let (side, layer) = (path.side?, path.layer?);
        if path.global {
            return None;
        }
        let output = graph.nodes().iter().find(|other| other.name == format!("{scope}.output"))?;
        // An edited value is read under a name of its own.
        let mixed = graph.info(*output.inputs.first()?).name.trim_end_matches(".edited").to_owned();
        let sublayer = path.part.to_owned();
        Some(Attention { scope: scope.to_owned(), side, layer, sublayer, attend, mixed })
    };
    graph.nodes().iter().filter_map(attention).collect()
}

/// The attention where these say.
///
/// # Errors
/// If there is none; the error names those that there are.
pub fn attention(graph: &Graph, side: Side, layer: usize, sublayer: &str) -> Result<Attention, Error> {
    let all = attentions(graph);
    let wanted = format!("{side}.{layer}.{sublayer}");
    match all.iter().find(|attention| attention.scope == wanted) {
        Some(found) => Ok(found.clone()),
        None => Err(crate::trace::nearest(&wanted, all.iter().map(|attention| attention.scope.as_str()))),
    }
}

/// The sublayers of `graph`, in the order of computation.
pub fn sublayers(graph: &Graph) -> Vec<Sublayer> {
    let sublayer = |node: &Node| {
        let path = Path::of(&node.name);
        let (Op::Add(_), Some(side), Some(layer), "sum") = (&node.op, path.side, path.layer, path.last)
        else {
            return None;
        };
        let (scope, _) = node.name.rsplit_once('.')?;
        let branch = graph.info(*node.inputs.get(1)?).name.trim_end_matches(".edited").to_owned();
        let normed = format!("{scope}.norm_out");
        let stream = if graph.value(&normed).is_ok() { normed } else { node.name.clone() };
        Some(Sublayer { scope: scope.to_owned(), side, layer, name: path.part.to_owned(), branch, stream })
    };
    graph.nodes().iter().filter_map(sublayer).collect()
}

/// The side whose stack is the last: the decoder's where there is one.
pub fn last_side(graph: &Graph) -> Side {
    let decodes = graph.nodes().iter().any(|node| node.name.starts_with("target."));
    if decodes { Side::Target } else { Side::Source }
}

/// The value that the head reads, behind the final norm where there is one, and the one before that norm.
fn ends(graph: &Graph) -> Option<(Value, Value)> {
    let hidden = graph.outputs().iter().find(|(name, _)| name == "hidden").map(|(_, value)| *value)?;
    let info = graph.info(hidden);
    let entry = match info.origin {
        Origin::Node(id, _) if info.name == format!("{}.norm", last_side(graph)) => {
            graph.nodes()[id.0].inputs[0]
        }
        Origin::Node(..) | Origin::Leaf(_) => hidden,
    };
    Some((hidden, entry))
}

/// The value before the final norm of the last stack: what its last sublayer leaves.
///
/// # Errors
/// If the graph has no rows at its end.
pub fn entry(graph: &Graph) -> Result<String, Error> {
    let (_, entry) = ends(graph).ok_or(Error::Why { what: "the model has no rows at its end".into() })?;
    Ok(graph.info(entry).name.clone())
}

/// The rows of the last stack from the embeddings on, behind each sublayer, as far as the value that the head reads.
///
/// # Errors
/// If the graph has no rows at its end.
pub fn streams(graph: &Graph) -> Result<Vec<Stream>, Error> {
    let (side, entry) = (last_side(graph), entry(graph)?);
    let entry = entry.trim_end_matches(".edited").to_owned();
    let embedded = format!("{side}.embed.");
    let first = graph.nodes().iter().rfind(|node| node.name.starts_with(&embedded));
    let mut streams: Vec<Stream> = first
        .map(|node| Stream { value: node.name.clone(), layer: None, part: "embed".to_owned() })
        .into_iter()
        .collect();
    let own = sublayers(graph).into_iter().filter(|sublayer| sublayer.side == side);
    streams.extend(own.map(|sublayer| Stream {
        value: sublayer.stream,
        layer: Some(sublayer.layer),
        part: sublayer.name,
    }));
    // Where rows halt one by one, what the head reads is mixed from several layers.
    if streams.last().is_none_or(|last| last.value != entry) {
        streams.push(Stream { value: entry, layer: None, part: "output".to_owned() });
    }
    Ok(streams)
}
