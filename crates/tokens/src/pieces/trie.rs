//! A tree over the bytes of many keys: which keys does this text begin with?

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// Keys and their values, walked one byte at a time.
///
/// The edges of a node lie together, sorted; nodes are numbered breadth first. It has at most one node for each byte of
/// the keys, so its memory follows the size of the file. A double array would be faster to walk and slower to build.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    /// Where the edges of a node begin; one more at the end.
    edges: Vec<u32>,
    labels: Vec<u8>,
    /// The value of the key that ends in a node.
    values: Vec<u32>,
    /// The child of the root for each byte: half of all steps start there.
    first: Vec<u32>,
}

impl Trie {
    /// Of keys that all differ; a value must not be `u32::MAX`. Where two keys are equal, the first counts.
    pub fn new<'a>(keys: impl IntoIterator<Item = (&'a [u8], u32)>) -> Self {
        let mut keys: Vec<(&[u8], u32)> = keys.into_iter().collect();
        keys.sort_by_key(|&(key, _)| key);
        keys.dedup_by_key(|&mut (key, _)| key);
        let mut trie = Self { values: vec![NONE], ..Self::default() };
        let mut waiting = VecDeque::from([(0..keys.len(), 0)]);
        let mut node = 0;
        while let Some((range, depth)) = waiting.pop_front() {
            trie.edges.push(trie.labels.len() as u32);
            let mut at = range.start;
            if at < range.end && keys[at].0.len() == depth {
                trie.values[node] = keys[at].1;
                at += 1;
            }
            while at < range.end {
                let label = keys[at].0[depth];
                let same = keys[at..range.end].partition_point(|(key, _)| key[depth] == label);
                trie.labels.push(label);
                trie.values.push(NONE);
                waiting.push_back((at..at + same, depth + 1));
                at += same;
            }
            node += 1;
        }
        trie.edges.push(trie.labels.len() as u32);
        trie.first = vec![NONE; 256];
        for edge in 0..trie.edges[1] {
            trie.first[usize::from(trie.labels[edge as usize])] = edge + 1;
        }
        trie
    }

    /// The child of a node along a byte; node 0 is the root.
    #[inline]
    pub fn step(&self, node: u32, byte: u8) -> Option<u32> {
        if node == 0 {
            let child = self.first[usize::from(byte)];
            return (child != NONE).then_some(child);
        }
        let (begin, end) = (self.edges[node as usize] as usize, self.edges[node as usize + 1] as usize);
        let labels = &self.labels[begin..end];
        let found = if labels.len() <= 8 {
            labels.iter().position(|&label| label == byte)
        } else {
            labels.binary_search(&byte).ok()
        };
        // Edge number e leads to node e + 1: both are numbered breadth first, and only the root has no edge to it.
        found.map(|at| (begin + at) as u32 + 1)
    }

    /// The value of the key that ends in this node.
    #[inline]
    pub fn value(&self, node: u32) -> Option<u32> {
        let value = self.values[node as usize];
        (value != NONE).then_some(value)
    }

    /// The longest key that the text begins with, as its length and value.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let mut node = 0;
        let mut best = None;
        for (at, &byte) in text.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { break };
            node = next;
            if let Some(value) = self.value(node) {
                best = Some((at + 1, value));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::Trie;

    #[test]
    fn the_longest_key_wins_and_a_prefix_is_no_key() {
        let trie = Trie::new([(&b"ab"[..], 0), (b"abcd", 1), (b"b", 2), ("你".as_bytes(), 3)]);
        assert_eq!(trie.longest(b"abcx"), Some((2, 0)));
        assert_eq!(trie.longest(b"abcde"), Some((4, 1)));
        assert_eq!(trie.longest(b"a"), None);
        assert_eq!(trie.longest(b""), None);
        assert_eq!(trie.longest("你好".as_bytes()), Some((3, 3)));
        assert_eq!(trie.longest(&[0xe4, 0xbd]), None);
    }

    #[test]
    fn without_keys_nothing_is_found() {
        assert_eq!(Trie::new([]).longest(b"a"), None);
    }
}
