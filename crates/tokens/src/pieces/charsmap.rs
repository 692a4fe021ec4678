//! SentencePiece's table of characters: which characters become which, as a double array and the texts it points to.
//!
//! The blob is a length in bytes, that many bytes of 32-bit units, and texts that end in a zero byte. A unit is a node;
//! its low byte is the label of the edge to it, bit 8 says that a value hangs below, bit 9 and the top 22 bits say where
//! its children lie: a child's place is the node's place, xor the offset, xor the byte.

/// The longest text, in bytes, that a beginning may become. The longest of Unicode's own has 33; what is much longer would make a short
/// text one that fills the memory.
pub(crate) const REPLACEMENT: usize = 256;

/// A table that was checked: no walk through it leaves it, whatever the text.
#[derive(Debug, Clone)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    texts: Vec<u8>,
}

fn has_value(unit: u32) -> bool {
    unit & (1 << 8) != 0
}

fn value(unit: u32) -> usize {
    (unit & 0x7fff_ffff) as usize
}

/// Never equal to a byte where the unit is a value: those have the top bit.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

impl Charsmap {
    /// From the blob in a model.
    ///
    /// Children of a node lie in one block of 256 units, so a table of whole blocks whose every offset stays inside can
    /// be walked without a check at each step; the tests of this file walk broken ones.
    pub fn new(blob: &[u8]) -> Result<Self, String> {
        let fault = |what: &str| Err(format!("the table of characters {what}"));
        let Some((length, rest)) = blob.split_first_chunk::<4>() else {
            return fault("is cut short");
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((units, texts)) = rest.split_at_checked(length) else {
            return fault("announces more units than there are");
        };
        if length == 0 || !length.is_multiple_of(4 * 256) {
            return fault("is not made of whole blocks");
        }
        let units: Vec<u32> =
            units.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        if texts.last() != Some(&0) {
            return fault("has a text without an end");
        }
        if texts.split(|&byte| byte == 0).any(|text| text.len() > REPLACEMENT) {
            return fault(&format!("has a text of more than {REPLACEMENT} bytes"));
        }
        for (at, &unit) in units.iter().enumerate() {
            if unit >> 31 == 1 && at > 0 {
                continue; // a value, which is no step of any walk
            }
            let Some(&below) = units.get(at ^ offset(unit)) else {
                return fault("points outside itself");
            };
            // Bytes 128 to 191 continue a character: a text must not begin in the middle of one.
            if has_value(unit) && texts.get(value(below)).is_none_or(|byte| byte & 0xc0 == 0x80) {
                return fault("points outside its texts");
            }
        }
        Ok(Self { units, texts: texts.to_vec() })
    }

    /// What the longest possible beginning of the text becomes, and how long that beginning is.
    pub fn longest(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        let mut found = None;
        let mut node = offset(self.units[0]);
        for (at, &byte) in text.iter().enumerate() {
            let place = node ^ usize::from(byte);
            let unit = self.units[place];
            if byte == 0 || label(unit) != u32::from(byte) {
                break; // no rule has a zero byte, which ends the keys
            }
            node = place ^ offset(unit);
            if has_value(unit) {
                found = Some((value(self.units[node]), at + 1));
            }
        }
        let (begin, length) = found?;
        let text = &self.texts[begin..];
        let end = text.iter().position(|&byte| byte == 0)?;
        Some((&text[..end], length))
    }

    /// Whether the texts are UTF-8, which the tokenizers library needs and SentencePiece does not.
    pub fn is_text(&self) -> bool {
        std::str::from_utf8(&self.texts).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Charsmap;

    /// A blob of these units, padded to whole blocks, and texts.
    fn blob(units: &[(usize, u32)], blocks: usize, texts: &[u8]) -> Vec<u8> {
        let mut all = vec![0_u32; 256 * blocks];
        for &(at, unit) in units {
            all[at] = unit;
        }
        let mut blob = (all.len() as u32 * 4).to_le_bytes().to_vec();
        blob.extend(all.iter().flat_map(|unit| unit.to_le_bytes()));
        blob.extend(texts);
        blob
    }

    #[test]
    fn a_rule_replaces_the_longest_beginning() {
        // The root's children are at 1 xor the byte; 'a' leads to a node with a value at its offset 2.
        let a = usize::from(b'a');
        let place = 1 ^ a;
        let units = [(0, 1 << 10), (place, 2 << 10 | 1 << 8 | a as u32), (place ^ 2, 1 << 31)];
        let map = Charsmap::new(&blob(&units, 1, b"xyz\0")).unwrap();
        assert_eq!(map.longest(b"abc"), Some((&b"xyz"[..], 1)));
        assert_eq!(map.longest(b"b"), None);
        assert_eq!(map.longest(b""), None);
        assert_eq!(map.longest(b"\0"), None);
    }

    #[test]
    fn broken_tables_are_refused() {
        let cases: [(&str, Vec<u8>, &str); 9] = [
            ("nothing", vec![], "cut short"),
            ("a length alone", 8_u32.to_le_bytes().to_vec(), "more units"),
            ("a giant", u32::MAX.to_le_bytes().to_vec(), "more units"),
            ("half a block", [&8_u32.to_le_bytes()[..], &[0; 9]].concat(), "whole blocks"),
            ("no units", vec![0, 0, 0, 0, 0], "whole blocks"),
            ("no end", blob(&[], 1, b"abc"), "without an end"),
            ("a long text", blob(&[], 1, &[&[b'b'; 300][..], &[0]].concat()), "more than 256 bytes"),
            ("an offset outside", blob(&[(3, 0x1f_ffff << 10)], 1, b"\0"), "outside itself"),
            ("a value outside", blob(&[(3, 4 << 10 | 1 << 8), (7, 9)], 1, b"\0"), "outside its texts"),
        ];
        for (what, blob, words) in cases {
            match Charsmap::new(&blob) {
                Err(message) => assert!(message.contains(words), "{what}: {message}"),
                Ok(_) => panic!("{what} was accepted"),
            }
        }
    }
}
