//! Work is counted from shapes, as it is on paper.

use glassformer_graph::ops::{Attend, Keys, Linear, Pattern, Reach, Relative, Which, Who};
use glassformer_graph::{
    At, Batch, Builder, Graph, Node, Operation, Rows, Shape, Side, Span, Tally, Work, multiplied,
};

fn attention(reach: Reach, pattern: Pattern, keys: Keys) -> Attend {
    Attend {
        side: Side::Target,
        heads: 4,
        key_heads: 2,
        size: 8,
        scale: 1.0,
        reach,
        pattern,
        who: Who::Every,
        relative: Relative::None,
        keys,
    }
}

#[test]
fn products_count_two_operations_for_each_weight_and_row() {
    let mut build = Builder::new();
    let x = build.weight("x", Shape::fixed(7, 5)).unwrap();
    let w = build.weight("w", Shape::fixed(3, 5)).unwrap();
    let y = build.add("y", Linear, &[x, w]).unwrap();
    build.output("y", y);
    let graph = build.finish();
    let work = Work::of(&graph, &Batch::default(), |_| 0);
    assert_eq!(work, Work { products: 2.0 * 7.0 * 5.0 * 3.0, ..Work::default() });
    assert_eq!(multiplied(&graph), [("w", 3, 5)]);
}

#[test]
fn attention_counts_the_pairs_that_see_each_other() {
    let mut batch = Batch::default();
    batch.target.push(&[1; 6], Span { past: 10, ..Span::default() });
    let of = |attend: Attend| {
        let graph = Graph::default();
        let node = Node { name: String::new(), op: attend.into(), inputs: Vec::new(), outputs: Vec::new() };
        let mut tally = Tally { batch: &batch, crossing: &|_| 0, work: Work::default() };
        attend.work(&At { graph: &graph, node: &node }, &mut tally);
        tally.work
    };
    let pages = Keys::Pages(Which::Cache, 0);
    let work = of(attention(Reach::Past, Pattern::Dense, pages));
    let pairs = (11..=16).sum::<usize>();
    assert_eq!(work.attention, (4 * pairs * 4 * 8) as f64);
    assert_eq!(work.stored, f64::from(2 * 16 * 2 * 8));
    let windowed = of(attention(Reach::Past, Pattern::Window(3), pages));
    assert_eq!(windowed.attention, f64::from(4 * 6 * 4 * 4 * 8));
    let rows = Keys::Rows(Rows::Tokens(Side::Target));
    let both = of(attention(Reach::Both, Pattern::Dense, rows));
    assert_eq!((both.attention, both.stored), (f64::from(4 * 6 * 6 * 4 * 8), 0.0));
}
