//! Named shapes in any size: what is not given follows from the base size.

use super::{
    Clusters, Depth, Formula, Original, Size, albert, bart, bert, bert_classifier, bert_embedder,
    bert_reader, bert_tagger, captioner, gpt_neox, gpt2, linformer, llama, longformer, m2m100, marian,
    modernbert, mpnet, original, t5, transformer_xl, universal, vit,
};

/// The numbers of a shape that are given; all others are those of its base size, or follow from the given ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Numbers per row.
    pub width: Option<usize>,
    /// Query heads of every attention.
    pub heads: Option<usize>,
    /// Numbers per row inside the feed-forward layers.
    pub hidden: Option<usize>,
    /// Blocks of each stack; how often a shared one is applied, at most.
    pub layers: Option<usize>,
    /// Token ids.
    pub vocabulary: Option<usize>,
    /// The longest sequence.
    pub length: Option<usize>,
    /// Classes or tags, where the shape has some.
    pub classes: Option<usize>,
}

impl Sizes {
    /// `base` with these numbers in place of its own. With another width heads and hidden numbers keep its proportions.
    fn of(&self, base: Size) -> Size {
        let width = self.width.unwrap_or(base.width);
        let in_proportion = || (base.hidden as u128 * width as u128 / base.width as u128).max(1) as usize;
        Size {
            width,
            heads: self.heads.unwrap_or_else(|| if width == base.width { base.heads } else { heads(width) }),
            hidden: self.hidden.unwrap_or_else(in_proportion),
            layers: self.layers.unwrap_or(base.layers),
            vocabulary: self.vocabulary.unwrap_or(base.vocabulary),
            length: self.length.unwrap_or(base.length),
        }
    }
}

/// How many heads share a width: of 64 numbers where it is wide, and of fewer where it is narrow, so that there are several.
pub fn heads(width: usize) -> usize {
    let size = match width {
        512.. => 64,
        128.. => 32,
        _ => 16,
    };
    let most = (width / size).max(1);
    // Pairs of numbers are rotated together, so a head has an even size.
    (1..=most).rev().find(|heads| width.is_multiple_of(2 * heads)).unwrap_or(1)
}

/// The formula of a name among [`NAMES`](super::NAMES), in the given sizes.
///
/// Numbers that do not fit each other give a formula all the same, which [`Formula::check`] refuses with the reason.
pub fn sized(name: &str, sizes: &Sizes) -> Option<Formula> {
    let base = Size { width: 768, heads: 12, hidden: 3072, layers: 12, vocabulary: 30_522, length: 512 };
    let small = Size { width: 512, heads: 8, hidden: 2048, layers: 6, vocabulary: 37_000, length: 512 };
    let of = |base: Size| sizes.of(base);
    let classes = |usual: usize| sizes.classes.unwrap_or(usual);
    Some(match name {
        "original" => {
            let Size { width, heads, hidden, layers, vocabulary, .. } = of(small);
            original(Original {
                width,
                heads,
                hidden,
                source_layers: layers,
                target_layers: layers,
                source_vocabulary: vocabulary,
                target_vocabulary: vocabulary,
            })
        }
        "bert" => bert(of(base)),
        "bert-classifier" => bert_classifier(of(base), classes(2)),
        "bert-tagger" => bert_tagger(of(base), classes(9)),
        "bert-reader" => bert_reader(of(base)),
        "bert-embedder" => bert_embedder(of(base)),
        "albert" => {
            let size = of(Size { vocabulary: 30_000, ..base });
            albert(size, size.width.min(128), Depth::Shared { times: size.layers })
        }
        "modernbert" => {
            modernbert(of(Size { hidden: 1152, layers: 22, vocabulary: 50_368, length: 8192, ..base }), 64)
        }
        "mpnet" => mpnet(of(Size { vocabulary: 30_527, ..base })),
        "gpt2" => gpt2(of(Size { vocabulary: 50_257, length: 1024, ..base })),
        "gpt_neox" => {
            let size = of(Size { vocabulary: 50_304, length: 2048, ..base });
            // A quarter of each head, as in the base size.
            let turned = (size.width / size.heads.max(1) / 4).max(1).next_multiple_of(2);
            gpt_neox(size, turned)
        }
        "llama" => {
            let large = Size {
                width: 4096,
                heads: 32,
                hidden: 14_336,
                layers: 32,
                vocabulary: 128_256,
                length: 8192,
            };
            let size = of(large);
            // Four query heads share a key head, where they can.
            llama(size, if size.heads.is_multiple_of(4) { size.heads / 4 } else { size.heads })
        }
        "t5" => t5(of(Size { hidden: 2048, vocabulary: 32_128, ..base })),
        "bart" => bart(of(Size { layers: 6, vocabulary: 50_265, length: 1024, ..base })),
        "marian" => marian(of(Size { vocabulary: 58_101, ..small })),
        "m2m100" => {
            let large =
                Size { width: 1024, heads: 16, hidden: 4096, layers: 12, vocabulary: 128_112, length: 1024 };
            m2m100(of(large))
        }
        "longformer" => {
            let size = of(Size { vocabulary: 50_265, length: 4096, ..base });
            longformer(size, (size.length / 2).clamp(1, 256))
        }
        "linformer" => {
            let size = of(base);
            linformer(size, size.length.min(128))
        }
        "transformer_xl" => {
            let large =
                Size { width: 1024, heads: 16, hidden: 4096, layers: 18, vocabulary: 267_735, length: 1600 };
            let size = of(large);
            let cuts = [20_000, 40_000, 200_000].map(|cut: u128| cut * size.vocabulary as u128 / 267_735);
            let usual = size.vocabulary == large.vocabulary;
            let mut cuts =
                if usual { vec![20_000, 40_000, 200_000] } else { cuts.map(|cut| cut as usize).to_vec() };
            cuts.dedup();
            cuts.retain(|cut| *cut > 0);
            transformer_xl(size, Clusters { cuts, divisor: 4, width: None })
        }
        "universal" => {
            let size = of(small);
            universal(size, Depth::Shared { times: size.layers })
        }
        "universal_halting" => {
            let max = sizes.layers.unwrap_or(8);
            universal(of(small), Depth::Adaptive { max, threshold: 0.99 })
        }
        "vit" => vit(of(Size { length: 197, ..base }), 16, classes(1000)),
        "captioner" => captioner(of(Size { vocabulary: 50_257, length: 1024, ..base }), 16),
        _ => return None,
    })
}
