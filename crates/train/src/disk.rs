//! Writing so that a file is there whole or not at all, and knowing that it is what was written: SHA-256 (FIPS 180-4).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::Error;

/// Writes `bytes` to `path`: beside it first, synchronised, then in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let put = || {
        let mut file = File::create(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    };
    put().map_err(|error| {
        // The first error is the one to tell.
        let _ = fs::remove_file(temporary);
        Error::io("write", path)(error)
    })?;
    path.parent().map_or(Ok(()), synchronise)
}

/// Makes what happened in `folder` last. Only Unix lets a program open a folder for this.
pub(crate) fn synchronise(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let sync = || if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) };
    sync().map_err(Error::io("synchronise", folder))
}

/// The SHA-256 of a file, in hexadecimal, as `sha256sum` prints it.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let hash = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut bytes)?;
            if count == 0 {
                return Ok(hash.finish());
            }
            hash.update(&bytes[..count]);
        }
    };
    hash().map_err(Error::io("read", path))
}

struct Sha256 {
    state: [u32; 8],
    length: u64,
    /// Bytes that do not fill a block yet.
    rest: Vec<u8>,
}

/// The first 32 bits of the fractions of the square roots of the first 8 primes.
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The same of the cube roots of the first 64 primes.
const ROUND: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

impl Sha256 {
    fn new() -> Self {
        Self { state: START, length: 0, rest: Vec::with_capacity(64) }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let need = (64 - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..need]);
            bytes = &bytes[need..];
            if self.rest.len() < 64 {
                return;
            }
            let block = std::mem::take(&mut self.rest);
            self.block(&block);
        }
        let whole = bytes.chunks_exact(64);
        self.rest.extend_from_slice(whole.remainder());
        whole.for_each(|block| self.block(block));
    }

    fn block(&mut self, block: &[u8]) {
        let mut w = [0_u32; 64];
        for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        }
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let small = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let large = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            w[i] = w[i - 16].wrapping_add(small).wrapping_add(w[i - 7]).wrapping_add(large);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (word, constant) in w.into_iter().zip(ROUND) {
            let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = e & f ^ !e & g;
            let first = h.wrapping_add(mixed).wrapping_add(chosen).wrapping_add(constant).wrapping_add(word);
            let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let most = a & b ^ a & c ^ b & c;
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(mixed.wrapping_add(most)));
        }
        for (state, new) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = state.wrapping_add(new);
        }
    }

    fn finish(mut self) -> String {
        let bits = self.length * 8;
        let mut end = vec![0x80];
        end.resize(1 + (119 - self.rest.len()) % 64, 0);
        end.extend(bits.to_be_bytes());
        self.update(&end);
        self.state.map(|word| format!("{word:08x}")).concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> String {
        let mut hash = Sha256::new();
        // In uneven pieces, so that blocks lie across them.
        bytes.chunks(37).for_each(|piece| hash.update(piece));
        hash.finish()
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(of(&million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        for length in [55, 56, 63, 64, 65] {
            assert_eq!(of(&million[..length]).len(), 64);
        }
        assert_eq!(
            of(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
    }
}
