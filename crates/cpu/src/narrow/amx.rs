//! AMX: eight tile registers of sixteen lines of 64 bytes, and one instruction that multiplies two of them.
//!
//! Stable Rust has no intrinsics for them, so this is assembly. A patch is four tiles of C, which stay in registers over a
//! block of k: either two by two, which loads one tile for each multiplication, or one by four where there are no more
//! than sixteen rows, and B is read from four places at once.

use super::patch::{Patch, Shape};
use super::{Format, LINE, LINES};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Whether the processor has AMX for both formats, and the operating system lets this process use it.
pub(super) fn ask() -> bool {
    has_tiles() && system_saves_tiles() && permitted()
}

/// What CPUID says: tiles (24), `bf16` (22) and integers (25), and that XGETBV exists.
fn has_tiles() -> bool {
    const TILES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES == TILES && __cpuid(1).ecx & 1 << 27 != 0
}

/// Whether the system saves the tile registers of a thread, and their configuration.
fn system_saves_tiles() -> bool {
    let low: u32;
    // SAFETY: `has_tiles` made sure that the instruction exists; it reads a register and nothing else.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    low & 3 << 17 == 3 << 17
}

/// Linux gives tile registers, 8 KB for each thread, only to those who ask.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let answer: isize;
    // SAFETY: a system call that reads and writes no memory of ours; it changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// How other systems give them is not known here.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Begins with zeros or with what the sums hold, and ends with storing them.
macro_rules! patch {
    ($patch:expr, $($body:expr),+; $($name:ident = $value:expr),+) => {
        asm!(
            "test {begin}, {begin}",
            "jnz 3f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{sums} + {line}]",
            "tileloadd tmm1, [{sums} + {line} + 1024]",
            "tileloadd tmm2, [{sums} + {line} + 2048]",
            "tileloadd tmm3, [{sums} + {line} + 3072]",
            "2:",
            $($body,)+
            "dec {steps}",
            "jnz 2b",
            "tilestored [{sums} + {line}], tmm0",
            "tilestored [{sums} + {line} + 1024], tmm1",
            "tilestored [{sums} + {line} + 2048], tmm2",
            "tilestored [{sums} + {line} + 3072], tmm3",
            begin = in(reg) $patch.step,
            sums = in(reg) $patch.sums,
            line = in(reg) LINE,
            steps = inout(reg) $patch.steps => _,
            $($name = inout(reg) $value => _,)+
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Two blocks of rows by two panels.
macro_rules! square {
    ($patch:expr, $multiply:literal) => {
        patch!(
            $patch,
            "tileloadd tmm4, [{a0} + {line}]",
            "tileloadd tmm6, [{b0} + {line}]",
            concat!($multiply, " tmm0, tmm4, tmm6"),
            "tileloadd tmm7, [{b1} + {line}]",
            concat!($multiply, " tmm1, tmm4, tmm7"),
            "tileloadd tmm5, [{a1} + {line}]",
            concat!($multiply, " tmm2, tmm5, tmm6"),
            concat!($multiply, " tmm3, tmm5, tmm7"),
            "add {a0}, 1024",
            "add {a1}, 1024",
            "add {b0}, 1024",
            "add {b1}, 1024";
            a0 = $patch.a,
            a1 = $patch.a.wrapping_add($patch.stride),
            b0 = $patch.b,
            b1 = $patch.b.wrapping_add($patch.stride)
        )
    };
}

/// One block of rows by four panels.
macro_rules! wide {
    ($patch:expr, $multiply:literal) => {
        patch!(
            $patch,
            "tileloadd tmm4, [{a} + {line}]",
            "tileloadd tmm5, [{b0} + {line}]",
            concat!($multiply, " tmm0, tmm4, tmm5"),
            "tileloadd tmm6, [{b1} + {line}]",
            concat!($multiply, " tmm1, tmm4, tmm6"),
            "tileloadd tmm7, [{b2} + {line}]",
            concat!($multiply, " tmm2, tmm4, tmm7"),
            "tileloadd tmm5, [{b3} + {line}]",
            concat!($multiply, " tmm3, tmm4, tmm5"),
            "add {a}, 1024",
            "add {b0}, 1024",
            "add {b1}, 1024",
            "add {b2}, 1024",
            "add {b3}, 1024";
            a = $patch.a,
            b0 = $patch.b,
            b1 = $patch.b.wrapping_add($patch.stride),
            b2 = $patch.b.wrapping_add(2 * $patch.stride),
            b3 = $patch.b.wrapping_add(3 * $patch.stride)
        )
    };
}

/// The tile registers of this thread in use, until this is dropped. A thread that is done gives them back: the system then
/// has less to save.
pub(crate) struct Tiles(());

/// What `ldtilecfg` reads: the palette, then the bytes per line and the number of lines of each register.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    lines: [u8; 16],
}

impl Tiles {
    /// Tiles of C and A have `rows` lines, those of B sixteen.
    ///
    /// # Safety
    /// The machine has AMX, as [`ask`] says; `rows` is 1 to 16.
    pub(super) unsafe fn configure(shape: Shape, rows: usize) -> Self {
        let mut lines = [LINES as u8; 8];
        let of_rows = match shape {
            Shape::Square => 0..6,
            Shape::Wide => 0..5,
        };
        lines[of_rows].fill(rows as u8);
        // SAFETY: the caller's promise.
        unsafe { Self::shaped(lines, [LINE as u16; 8]) }
    }

    /// Register i has `lines[i]` lines of `bytes[i]` bytes.
    ///
    /// # Safety
    /// The machine has AMX, as [`ask`] says; there are 1 to 16 lines of 4 to 64 bytes.
    pub unsafe fn shaped(lines: [u8; 8], bytes: [u16; 8]) -> Self {
        let mut configuration =
            Configuration { palette: 1, start: 0, reserved: [0; 14], bytes: [0; 16], lines: [0; 16] };
        configuration.lines[..8].copy_from_slice(&lines);
        configuration.bytes[..8].copy_from_slice(&bytes);
        // SAFETY: the caller's promise; the instruction reads 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, preserves_flags, readonly));
        }
        Self(())
    }

    /// Adds a patch's product to its sums.
    ///
    /// # Safety
    /// As [`Patch`] says; these tiles were configured for its shape.
    #[allow(clippy::unused_self)] // proof that there are tiles
    pub(super) unsafe fn multiply(&self, format: Format, patch: &Patch) {
        // SAFETY: the caller's promise; a loop reads `steps` tiles from each pointer on, and there is one at least.
        unsafe {
            match (patch.shape, format) {
                (Shape::Square, Format::Bf16) => square!(patch, "tdpbf16ps"),
                (Shape::Square, Format::Int8) => square!(patch, "tdpbssd"),
                (Shape::Wide, Format::Bf16) => wide!(patch, "tdpbf16ps"),
                (Shape::Wide, Format::Int8) => wide!(patch, "tdpbssd"),
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: there are tiles, or `configure` would not have been called.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
