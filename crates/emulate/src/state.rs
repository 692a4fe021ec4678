//! The registers of a thread that was stopped by a signal: what the system saved, and will put back.

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// A vector register, as bytes.
pub type Vector = [u8; 64];

/// Where the parts of vector registers lie in what the processor saves; they differ by maker.
#[derive(Clone, Copy)]
struct Parts {
    /// The upper halves of the lower 256 bits of registers 0 to 15.
    upper: usize,
    /// Masks.
    masks: usize,
    /// The upper 256 bits of registers 0 to 15.
    top: usize,
    /// Registers 16 to 31.
    others: usize,
}

/// The parts by their bit in the header of what is saved.
const UPPER: u32 = 2;
const MASKS: u32 = 5;
const TOP: u32 = 6;
const OTHERS: u32 = 7;
/// The lower 128 bits, which always lie at the same place.
const LOWER: u32 = 1;
const LOWER_AT: usize = 160;
/// Where the header begins: a bit for each part that is not as it was at the beginning.
const HEADER: usize = 512;

static PARTS: OnceLock<Parts> = OnceLock::new();

/// Asks where the parts are; before CPUID traps.
pub fn learn() {
    let at = |part| __cpuid_count(0xd, part).ebx as usize;
    PARTS.get_or_init(|| Parts { upper: at(UPPER), masks: at(MASKS), top: at(TOP), others: at(OTHERS) });
}

/// Registers of a stopped thread.
pub struct State<'a> {
    general: &'a mut [i64],
    saved: *mut u8,
    parts: Parts,
}

/// By the processor's number, where the system keeps a register.
const GENERAL: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

impl<'a> State<'a> {
    /// # Safety
    /// `context` is what the system gave to the handler of a signal, which goes on; the machine has AVX-512, and [`learn`] was called.
    pub unsafe fn of(context: &'a mut libc::ucontext_t) -> Option<Self> {
        let machine = &mut context.uc_mcontext;
        Some(Self { general: &mut machine.gregs, saved: machine.fpregs.cast(), parts: *PARTS.get()? })
    }

    /// Where the thread is.
    pub fn here(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.general[libc::REG_RIP as usize] as usize)
    }

    /// Where it goes on.
    pub fn go_on_at(&mut self, place: *const u8) {
        self.general[libc::REG_RIP as usize] = place.addr() as i64;
    }

    /// A register of integers, by the processor's number.
    pub fn general(&self, number: u8) -> i64 {
        self.general[GENERAL[usize::from(number)] as usize]
    }

    /// Changes one.
    pub fn set_general(&mut self, number: u8, value: i64) {
        self.general[GENERAL[usize::from(number)] as usize] = value;
    }

    /// The mask with this number.
    pub fn mask(&self, number: u8) -> u64 {
        let mut bytes = [0; 8];
        self.read(MASKS, self.parts.masks + 8 * usize::from(number), &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// All of a vector register.
    pub fn vector(&self, number: u8) -> Vector {
        let mut vector = [0; 64];
        for (part, from, bytes) in self.places(number).into_iter().flatten() {
            self.read(part, from, &mut vector[bytes]);
        }
        vector
    }

    /// Changes all of it.
    pub fn set_vector(&mut self, number: u8, vector: &Vector) {
        for (part, to, bytes) in self.places(number).into_iter().flatten() {
            self.write(part, to, &vector[bytes]);
        }
    }

    /// The part, the place, and which bytes lie there.
    fn places(&self, number: u8) -> [Option<(u32, usize, std::ops::Range<usize>)>; 3] {
        let at = usize::from(number);
        if at >= 16 {
            return [Some((OTHERS, self.parts.others + 64 * (at - 16), 0..64)), None, None];
        }
        [
            Some((LOWER, LOWER_AT + 16 * at, 0..16)),
            Some((UPPER, self.parts.upper + 16 * at, 16..32)),
            Some((TOP, self.parts.top + 32 * at, 32..64)),
        ]
    }

    fn header(&self) -> u64 {
        // SAFETY: `of`'s caller's promise: with AVX-512, the system saves the long form, which has a header.
        unsafe { self.saved.add(HEADER).cast::<u64>().read_unaligned() }
    }

    /// A part that the header does not name is zero, whatever lies there.
    fn read(&self, part: u32, from: usize, to: &mut [u8]) {
        if self.header() >> part & 1 == 0 {
            to.fill(0);
        } else {
            // SAFETY: the processor said that the part lies there.
            unsafe { self.saved.add(from).copy_to(to.as_mut_ptr(), to.len()) };
        }
    }

    fn write(&mut self, part: u32, to: usize, from: &[u8]) {
        let header = self.header();
        // SAFETY: as above.
        unsafe {
            if header >> part & 1 == 0 {
                let (begin, bytes) = self.whole(part);
                self.saved.add(begin).write_bytes(0, bytes);
                self.saved.add(HEADER).cast::<u64>().write_unaligned(header | 1 << part);
            }
            self.saved.add(to).copy_from(from.as_ptr(), from.len());
        }
    }

    /// Where a part of vector registers begins, and its size.
    fn whole(&self, part: u32) -> (usize, usize) {
        match part {
            LOWER => (LOWER_AT, 16 * 16),
            UPPER => (self.parts.upper, 16 * 16),
            TOP => (self.parts.top, 16 * 32),
            _ => (self.parts.others, 16 * 64),
        }
    }
}
