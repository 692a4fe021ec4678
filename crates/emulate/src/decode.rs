//! From bytes to an instruction, for those that are carried out here and no others. Encodings: Intel's manual, volume 2.
//!
//! Some of them every machine knows. They stand between the others in loops: carried out as well, they spare a trap each.

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Does nothing, as far as numbers go: `nop`, and `prefetcht0`.
    Nothing,
    /// `vbroadcastss` and `vpbroadcastd` from memory: a number for all of a register.
    Broadcast,
    /// `ldtilecfg`: shapes of all tile registers.
    Shape,
    /// `tilerelease`.
    Release,
    /// `tilezero`.
    Zero,
    /// `tileloadd` and `tileloaddt1`.
    Load,
    /// `tilestored`.
    Store,
    /// `tdpbssd`: integers with signs.
    TileIntegers,
    /// `tdpbf16ps`.
    TileHalves,
    /// `vpdpbusd` on 128 or 256 bits: integers without signs times integers with signs.
    Integers,
    /// `vdpbf16ps`.
    Halves,
    /// `vcvtneps2bf16`: `f32` to half as many bytes.
    Narrow,
    /// `vcvtne2ps2bf16`: two registers of `f32` to one.
    NarrowTwo,
}

/// Where the last operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a register.
    Register(u8),
    /// In memory.
    Memory(Address),
}

/// base + index · scale + offset. For tiles, index · scale is how far apart their rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// A register, by the processor's number.
    pub base: Option<u8>,
    /// Another one.
    pub index: Option<u8>,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// What is added; where there is no base and `of_next`, to the address of the next instruction.
    pub offset: i32,
    /// Whether it is relative to the next instruction.
    pub of_next: bool,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub work: Work,
    /// How many bytes it takes.
    pub length: u8,
    /// The first operand, most often the one that changes.
    pub first: u8,
    /// The second one.
    pub second: u8,
    /// The last one.
    pub last: Place,
    /// Bytes of a vector register: 16, 32 or 64.
    pub bytes: u8,
    /// The register that says which numbers change; 0 is all.
    pub mask: u8,
    /// Whether the others become zero.
    pub zeroing: bool,
    /// Whether one number in memory stands for all.
    pub broadcast: bool,
}

// The old prefix that a new one stands for.
const NONE: u8 = 0;
const P66: u8 = 1;
const F3: u8 = 2;
const F2: u8 = 3;

/// What prefixes say.
struct Prefix {
    /// The old prefix.
    kind: u8,
    /// Upper bits of the register that the form names, of an index, and of a base or the last register.
    register: u8,
    index: u8,
    base: u8,
    /// The fifth bit of the last register.
    fifth: u8,
    second: u8,
    bytes: u8,
    mask: u8,
    zeroing: bool,
    broadcast: bool,
    is_long: bool,
}

/// The bytes behind some address, one by one.
struct Bytes(*const u8, u8);

impl Bytes {
    fn next(&mut self) -> u8 {
        // SAFETY: `read` promises that there is an instruction, and bytes are asked for only while they belong to it.
        let byte = unsafe { self.0.add(usize::from(self.1)).read() };
        self.1 += 1;
        byte
    }

    fn number(&mut self, bytes: u8) -> i32 {
        if bytes == 1 {
            return i32::from(self.next().cast_signed());
        }
        i32::from_le_bytes([self.next(), self.next(), self.next(), self.next()])
    }
}

/// The instruction at an address, where it is one of ours.
///
/// # Safety
/// A processor may be led to that address: there is an instruction.
pub unsafe fn read(at: *const u8) -> Option<Instruction> {
    let mut bytes = Bytes(at, 0);
    let prefix = match bytes.next() {
        0x90 => return Some(Instruction::nothing(1)),
        0x0f => return prefetch(&mut bytes, 0),
        more @ 0x40..=0x4f if bytes.next() == 0x0f => return prefetch(&mut bytes, more),
        0xc4 => Prefix::short(bytes.next(), bytes.next())?,
        0x62 => Prefix::long(bytes.next(), bytes.next(), bytes.next())?,
        _ => return None,
    };
    let (code, form) = (bytes.next(), bytes.next());
    let last = if form >> 6 == 3 {
        Place::Register(form & 7 | prefix.base | prefix.fifth)
    } else {
        // A broadcast of its own counts in single numbers, as one within another instruction does.
        let prefix = Prefix { broadcast: prefix.broadcast || matches!(code, 0x18 | 0x58), ..prefix };
        Place::Memory(address(&mut bytes, form, &prefix))
    };
    Some(Instruction {
        work: prefix.work(code, last)?,
        length: bytes.1,
        first: form >> 3 & 7 | prefix.register,
        second: prefix.second,
        last,
        bytes: prefix.bytes,
        mask: prefix.mask,
        zeroing: prefix.zeroing,
        broadcast: prefix.broadcast,
    })
}

impl Instruction {
    fn nothing(length: u8) -> Self {
        Self {
            work: Work::Nothing,
            length,
            first: 0,
            second: 0,
            last: Place::Register(0),
            bytes: 16,
            mask: 0,
            zeroing: false,
            broadcast: false,
        }
    }
}

/// What stands behind its first byte; only its length counts.
fn prefetch(bytes: &mut Bytes, more: u8) -> Option<Instruction> {
    const NEAREST: u8 = 1;
    let (code, form) = (bytes.next(), bytes.next());
    if code != 0x18 || form >> 6 == 3 || form >> 3 & 7 != NEAREST {
        return None;
    }
    address(bytes, form, &Prefix::old(more));
    Some(Instruction::nothing(bytes.1))
}

/// What stands behind the byte that says the form.
fn address(bytes: &mut Bytes, form: u8, prefix: &Prefix) -> Address {
    let mut address = Address { scale: 1, ..Address::default() };
    let (kind, mut base) = (form >> 6, form & 7);
    if base == 4 {
        let sib = bytes.next();
        address.scale = 1 << (sib >> 6);
        let index = sib >> 3 & 7 | prefix.index;
        address.index = (index != 4).then_some(index);
        base = sib & 7;
    } else if base == 5 && kind == 0 {
        address.of_next = true;
    }
    if base == 5 && kind == 0 {
        address.offset = bytes.number(4);
        return address;
    }
    address.base = Some(base | prefix.base);
    match kind {
        0 => {}
        1 => address.offset = bytes.number(1) * prefix.step(),
        _ => address.offset = bytes.number(4),
    }
    address
}

impl Prefix {
    /// Four bits that make registers' numbers longer.
    fn old(more: u8) -> Self {
        let bit = |at: u8| (more >> at & 1) << 3;
        Self {
            kind: NONE,
            register: bit(2),
            index: bit(1),
            base: bit(0),
            fifth: 0,
            second: 0,
            bytes: 16,
            mask: 0,
            zeroing: false,
            broadcast: false,
            is_long: false,
        }
    }

    /// The two bytes behind C4. Only the map `0F 38` and numbers of four bytes are ours.
    fn short(first: u8, second: u8) -> Option<Self> {
        let inverted = |at: u8, to: u8| (!first >> at & 1) << to;
        (first & 0x1f == 2 && second >> 7 == 0).then_some(Self {
            kind: second & 3,
            register: inverted(7, 3),
            index: inverted(6, 3),
            base: inverted(5, 3),
            fifth: 0,
            second: !second >> 3 & 15,
            bytes: if second & 4 == 0 { 16 } else { 32 },
            mask: 0,
            zeroing: false,
            broadcast: false,
            is_long: false,
        })
    }

    /// The three bytes behind 62.
    fn long(first: u8, second: u8, third: u8) -> Option<Self> {
        let inverted = |at: u8, to: u8| (!first >> at & 1) << to;
        let size = third >> 5 & 3;
        (first & 0xf == 2 && second >> 7 == 0 && second & 4 != 0 && size < 3).then_some(Self {
            kind: second & 3,
            register: inverted(7, 3) | inverted(4, 4),
            index: inverted(6, 3),
            base: inverted(5, 3),
            fifth: inverted(6, 4),
            second: !second >> 3 & 15 | (!third >> 3 & 1) << 4,
            bytes: 16 << size,
            mask: third & 7,
            zeroing: third >> 7 == 1,
            broadcast: third >> 4 & 1 == 1,
            is_long: true,
        })
    }

    /// What a displacement of one byte is counted in.
    fn step(&self) -> i32 {
        match (self.is_long, self.broadcast) {
            (false, _) => 1,
            (true, true) => 4,
            (true, false) => i32::from(self.bytes),
        }
    }

    fn work(&self, code: u8, last: Place) -> Option<Work> {
        let in_register = matches!(last, Place::Register(_));
        let work = match (self.is_long, self.kind, code) {
            (false, NONE, 0x49) if !in_register => Work::Shape,
            (false, NONE, 0x49) => Work::Release,
            (false, F2, 0x49) if in_register => Work::Zero,
            (false, F2 | P66, 0x4b) if !in_register => Work::Load,
            (false, F3, 0x4b) if !in_register => Work::Store,
            (false, F3, 0x5c) if in_register => Work::TileHalves,
            (false, F2, 0x5e) if in_register => Work::TileIntegers,
            (false, P66, 0x50) => Work::Integers,
            (true, F3, 0x52) => Work::Halves,
            (true, F3, 0x72) => Work::Narrow,
            (true, F2, 0x72) => Work::NarrowTwo,
            (_, P66, 0x18 | 0x58) if !in_register => Work::Broadcast,
            _ => return None,
        };
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Option<Instruction> {
        let mut padded = bytes.to_vec();
        padded.resize(16, 0xcc);
        // SAFETY: there are as many bytes as the longest instruction has.
        unsafe { read(padded.as_ptr()) }
    }

    fn at(base: u8, index: Option<u8>, scale: u8, offset: i32) -> Place {
        Place::Memory(Address { base: Some(base), index, scale, offset, of_next: false })
    }

    /// Bytes as an assembler writes them.
    #[test]
    fn instructions_are_read_as_they_are_written() {
        type Case<'a> = (&'a [u8], Work, [u8; 2], Place, u8);
        let cases: [Case<'_>; 13] = [
            (&[0xc4, 0xe2, 0x78, 0x49, 0x00], Work::Shape, [0, 0], at(0, None, 1, 0), 16), // ldtilecfg [rax]
            (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Work::Release, [0, 0], Place::Register(0), 16),
            (&[0xc4, 0xe2, 0x7b, 0x49, 0xd8], Work::Zero, [3, 0], Place::Register(0), 16), // tilezero tmm3
            // tileloadd tmm4, [rdi + rsi]; tileloaddt1 tmm6, [r8 + r9 + 64]; tilestored [rax + rcx * 2 + 256], tmm1
            (&[0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x37], Work::Load, [4, 0], at(7, Some(6), 1, 0), 16),
            (&[0xc4, 0x82, 0x79, 0x4b, 0x74, 0x08, 0x40], Work::Load, [6, 0], at(8, Some(9), 1, 64), 16),
            (
                &[0xc4, 0xe2, 0x7a, 0x4b, 0x8c, 0x48, 0, 1, 0, 0],
                Work::Store,
                [1, 0],
                at(0, Some(1), 2, 256),
                16,
            ),
            // tdpbssd tmm0, tmm4, tmm6; tdpbf16ps tmm3, tmm5, tmm7
            (&[0xc4, 0xe2, 0x4b, 0x5e, 0xc4], Work::TileIntegers, [0, 6], Place::Register(4), 16),
            (&[0xc4, 0xe2, 0x42, 0x5c, 0xdd], Work::TileHalves, [3, 7], Place::Register(5), 16),
            // {vex} vpdpbusd ymm1, ymm2, ymm11
            (&[0xc4, 0xc2, 0x6d, 0x50, 0xcb], Work::Integers, [1, 2], Place::Register(11), 32),
            // vdpbf16ps zmm17, zmm2, zmm30; the same of [rax + 64]; vcvtneps2bf16 ymm1, zmm2; vcvtne2ps2bf16 zmm1, zmm2, zmm3
            (&[0x62, 0x82, 0x6e, 0x48, 0x52, 0xce], Work::Halves, [17, 2], Place::Register(30), 64),
            (&[0x62, 0xe2, 0x6e, 0x48, 0x52, 0x48, 0x01], Work::Halves, [17, 2], at(0, None, 1, 64), 64),
            (&[0x62, 0xf2, 0x7e, 0x48, 0x72, 0xca], Work::Narrow, [1, 0], Place::Register(2), 64),
            (&[0x62, 0xf2, 0x6f, 0x48, 0x72, 0xcb], Work::NarrowTwo, [1, 2], Place::Register(3), 64),
        ];
        for (bytes, work, [first, second], last, size) in cases {
            let found = read_all(bytes).unwrap_or_else(|| panic!("{work:?} is not known: {bytes:x?}"));
            assert_eq!((found.work, found.first, found.second), (work, first, second), "{bytes:x?}");
            assert_eq!((found.last, found.bytes), (last, size), "{bytes:x?}");
            assert_eq!(usize::from(found.length), bytes.len(), "{bytes:x?}");
        }
    }

    #[test]
    fn masks_and_broadcasts_are_read() {
        // vcvtneps2bf16 ymm1 {k1} {z}, zmm2; vdpbf16ps zmm1, zmm2, dword [rax + 4] broadcast
        let masked = read_all(&[0x62, 0xf2, 0x7e, 0xc9, 0x72, 0xca]).unwrap();
        assert_eq!((masked.mask, masked.zeroing, masked.broadcast), (1, true, false));
        let broadcast = read_all(&[0x62, 0xf2, 0x6e, 0x58, 0x52, 0x48, 0x01]).unwrap();
        assert_eq!((broadcast.broadcast, broadcast.last), (true, at(0, None, 1, 4)));
    }

    /// As the compiler writes them in loops.
    #[test]
    fn what_stands_between_is_read() {
        // prefetcht0 [r10 + rsi + 128]; [rax]; vbroadcastss zmm4, [r13 + rax - 52]; vpbroadcastd ymm3, [rax + 4]
        let cases: [(&[u8], Work, u8, Option<Place>); 4] = [
            (&[0x41, 0x0f, 0x18, 0x8c, 0x32, 0x80, 0, 0, 0], Work::Nothing, 0, None),
            (&[0x0f, 0x18, 0x08], Work::Nothing, 0, None),
            (
                &[0x62, 0xd2, 0x7d, 0x48, 0x18, 0x64, 0x05, 0xf3],
                Work::Broadcast,
                4,
                Some(at(13, Some(0), 1, -52)),
            ),
            (&[0xc4, 0xe2, 0x7d, 0x58, 0x58, 0x04], Work::Broadcast, 3, Some(at(0, None, 1, 4))),
        ];
        for (bytes, work, first, last) in cases {
            let found = read_all(bytes).unwrap_or_else(|| panic!("{bytes:x?}"));
            assert_eq!((found.work, found.first, usize::from(found.length)), (work, first, bytes.len()));
            assert!(last.is_none_or(|last| last == found.last), "{found:?}");
        }
    }

    #[test]
    fn others_are_not_ours() {
        // ud2; vpdpbusd zmm0, zmm0, zmm0; vaddps; a tile register in memory's place
        let others: [&[u8]; 4] = [
            &[0x0f, 0x0b],
            &[0x62, 0xf2, 0x7d, 0x48, 0x50, 0xc0],
            &[0xc5, 0xf8, 0x58, 0xc0],
            &[0xc4, 0xe2, 0x7b, 0x4b, 0xc0],
        ];
        for bytes in others {
            assert_eq!(read_all(bytes), None, "{bytes:x?}");
        }
    }
}
