//! The two ends: how rows come in, and what is read off them.

use glassformer_formula::named::{Size, albert, bert, gpt2, transformer_xl};
use glassformer_formula::{
    Activation, Clusters, Dense, Depth, Formula, Head, Input, Lead, Norm, Patches, Pool, Pooler, Table, Then,
    named,
};

use super::{SMALL, case, refused, source, target, tokens, words};

#[test]
fn tables_and_heads_that_do_not_fit_are_refused() {
    let both = Formula::original_base;
    let patches = || Input::Patches(Patches { size: 4, channels: 3, lead: Lead::None, norm: None });
    refused(vec![
        case(both(), "source.input.tokens.table", "from itself", |f| tokens(source(f)).table = Table::Source),
        case(gpt2(SMALL), "target.input.tokens.table", "no source", |f| {
            tokens(target(f)).table = Table::Source;
        }),
        case(both(), "target.input.tokens.table", "reads patches", |f| {
            source(f).input = patches();
            tokens(target(f)).table = Table::Source;
        }),
        case(both(), "target.input.tokens.vocabulary", "100 ids, but the source's table has 37000", |f| {
            tokens(target(f)).table = Table::Source;
            tokens(target(f)).vocabulary = 100;
        }),
        case(both(), "target.input.tokens.table", "the source's table is 256 wide", |f| {
            tokens(target(f)).table = Table::Source;
            source(f).stack.width = 256;
        }),
        case(gpt2(SMALL), "head.words.tied", "the table is 16 wide", |f| tokens(target(f)).width = Some(16)),
        case(gpt2(SMALL), "target.input.tokens.width", "is 0", |f| {
            f.head = Head::Rows;
            tokens(target(f)).width = Some(0);
        }),
        case(named("vit").expect("a name"), "head.words", "no vocabulary", |f| {
            f.head = words(false);
        }),
        case(both(), "target.input.patches", "cannot write patches", |f| {
            f.head = Head::Rows;
            target(f).input = patches();
        }),
        case(named("vit").expect("a name"), "source.input.patches.size", "is 0", |f| {
            source(f).input = Input::Patches(Patches { size: 0, channels: 3, lead: Lead::Class, norm: None });
        }),
        case(both(), "source", "neither a source nor a target", |f| (f.source, f.target) = (None, None)),
    ]);
}

#[test]
fn classes_need_a_pooled_row() {
    refused(vec![case(bert(SMALL), "head.classes", "no pooler", |f| {
        f.pooler = None;
        f.head = Head::Classes { count: 3, bias: true };
    })]);
}

#[test]
fn projections_before_a_head_are_checked() {
    let broken = Some(Dense { act: None, bias: false, norm: Some(Norm::Rms { epsilon: -1.0 }) });
    let then = |pool, step| Some(Pooler { pool, dense: None, then: vec![step] });
    let scaled = |scale| Head::Words { tied: true, bias: false, dense: None, scale: Some(scale) };
    refused(vec![
        case(bert(SMALL), "pooler.dense.norm.rms.epsilon", "-1", |f| {
            f.pooler = Some(Pooler { pool: Pool::First, dense: broken, then: Vec::new() });
        }),
        case(bert(SMALL), "pooler.then[0].norm.rms.epsilon", "-1", |f| {
            f.pooler = then(Pool::First, Then::Norm(Norm::Rms { epsilon: -1.0 }));
        }),
        case(bert(SMALL), "pooler.then[0].dense.width", "is 0", |f| {
            f.pooler = then(Pool::First, Then::Dense { width: 0, act: None, bias: true });
        }),
        case(bert(SMALL), "pooler.pool.together", "is empty", |f| {
            f.pooler = then(Pool::Together(Vec::new()), Then::Unit);
        }),
        case(bert(SMALL), "pooler.pool.together", "17 ways", |f| {
            f.pooler = then(Pool::Together(vec![Pool::Max; 17]), Then::Unit);
        }),
        case(bert(SMALL), "pooler.pool.together[1]", "within the list", |f| {
            f.pooler = then(Pool::Together(vec![Pool::Max, Pool::Together(vec![Pool::Max])]), Then::Unit);
        }),
        case(bert(SMALL), "head.words.dense.norm.rms.epsilon", "-1", |f| {
            f.head = Head::Words { tied: true, bias: false, dense: broken, scale: None };
        }),
        case(bert(SMALL), "head.tags.dense.norm.rms.epsilon", "-1", |f| {
            f.head = Head::Tags { count: 3, dense: broken };
        }),
        case(gpt2(SMALL), "head.words.scale", "0 is not", |f| f.head = scaled(0.0)),
        case(gpt2(SMALL), "head.words.scale", "NaN", |f| f.head = scaled(f32::NAN)),
    ]);
}

#[test]
fn a_narrow_table_is_tied_through_a_projection() {
    let narrow = || albert(SMALL, 16, Depth::Shared { times: 2 });
    let dense = Some(Dense { act: Some(Activation::Relu), bias: true, norm: None });
    refused(vec![case(narrow(), "head.words.tied", "the table is 16 wide", |f| f.head = words(true))]);
    for head in [words(false), Head::Words { tied: false, bias: false, dense, scale: None }] {
        assert_eq!(Formula { head, ..narrow() }.check(), Ok(()));
    }
}

#[test]
fn clusters_that_leave_no_words_or_no_width_are_refused() {
    let size = Size { vocabulary: 100, ..SMALL };
    let clusters = |cuts: &[usize], divisor| Clusters { cuts: cuts.to_vec(), divisor, width: None };
    let good = || clusters(&[10, 40], 4);
    let head = |field, why, clusters: Clusters| {
        case(gpt2(size), field, why, |f| f.head = Head::Adaptive { clusters, tied: false })
    };
    let input = |field, why, clusters: Clusters| {
        case(transformer_xl(size, good()), field, why, |f| {
            f.head = Head::Rows;
            tokens(target(f)).clusters = Some(clusters);
        })
    };
    let many: Vec<usize> = (1..=65).collect();
    refused(vec![
        head("head.adaptive.clusters.width", "is 0", Clusters { width: Some(0), ..good() }),
        head("head.adaptive.clusters.divisor", "width 15 in", Clusters { width: Some(15), ..good() }),
        head("head.adaptive.clusters.cuts", "65 cuts", clusters(&many, 1)),
        head("head.adaptive.clusters.cuts[0]", "0 is not above 0", clusters(&[0, 40], 4)),
        head("head.adaptive.clusters.cuts[1]", "10 is not above 10", clusters(&[10, 10], 4)),
        head("head.adaptive.clusters.cuts[1]", "10 is not above 40", clusters(&[40, 10], 4)),
        head("head.adaptive.clusters.cuts", "starts at 100, but there are 100", clusters(&[10, 100], 4)),
        head("head.adaptive.clusters.divisor", "is 0", clusters(&[10], 0)),
        head("head.adaptive.clusters.divisor", "nothing is left of the width 64", clusters(&[10, 40], 16)),
        input("target.input.tokens.clusters.divisor", "in cluster 1", clusters(&[10], 65)),
        case(named("vit").expect("a name"), "head.adaptive", "no vocabulary", |f| {
            f.head = Head::Adaptive { clusters: good(), tied: false };
        }),
    ]);
}

#[test]
fn clusters_share_tables_with_the_same_clusters_alone() {
    let clusters = || Clusters { cuts: vec![10, 40], divisor: 4, width: None };
    let xl = || transformer_xl(SMALL, clusters());
    refused(vec![
        case(xl(), "head.words.tied", "a table for each cluster", |f| f.head = words(true)),
        case(gpt2(SMALL), "head.adaptive.tied", "not in these clusters", |f| {
            f.head = Head::Adaptive { clusters: clusters(), tied: true };
        }),
        case(xl(), "head.adaptive.tied", "not in these clusters", |f| {
            let clusters = Clusters { divisor: 2, ..clusters() };
            f.head = Head::Adaptive { clusters, tied: true };
        }),
        case(xl(), "target.input.tokens.clusters", "a width and a projection of its own", |f| {
            tokens(target(f)).width = Some(16);
        }),
        case(named("bart").expect("a name"), "target.input.tokens.table", "cannot be borrowed", |f| {
            tokens(source(f)).clusters = Some(clusters());
        }),
    ]);
    assert_eq!(Formula { head: words(false), ..xl() }.check(), Ok(()));
    let untied =
        Head::Adaptive { clusters: Clusters { cuts: vec![50], divisor: 1, width: None }, tied: false };
    assert_eq!(Formula { head: untied, ..xl() }.check(), Ok(()), "the ends may be cut differently");
}

#[test]
fn clusters_become_narrower_with_their_words() {
    let clusters = Clusters { cuts: vec![10, 40], divisor: 4, width: None };
    let list: Vec<_> = clusters.list(100, 64).iter().map(|one| (one.from, one.to, one.width)).collect();
    assert_eq!(list, [(0, 10, 64), (10, 40, 16), (40, 100, 4)]);
}
