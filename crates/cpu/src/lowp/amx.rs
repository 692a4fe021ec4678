//! AMX: eight tile registers of sixteen lines of 64 bytes, and one instruction that multiplies two of them.
//!
//! Stable Rust has no intrinsics for them, so this is assembly. A patch is four tiles of C, which stay in registers over a block of k. They are
//! two by two, which loads one tile per multiplication, or one by four for up to sixteen rows, which reads B at four places at once. Each piece
//! of assembly is a step along k, so that other work can be done between steps.
//!
//! **A core may be shared.** When the other hardware thread of the core uses tiles too, a step takes three to five times as long. Six `nop`s
//! after each tile instruction ([`apart`]), and loading tiles a step early, then win a third. They cost nothing otherwise.

use super::patch::Shape;
use super::{Format, LINE, LINES, TILE};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Whether the processor has AMX for both formats, and the operating system lets this process use it.
pub(super) fn ask() -> bool {
    has_tiles() && permitted()
}

/// What CPUID says: tiles (24), `bf16` (22) and integers (25).
fn has_tiles() -> bool {
    const TILES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES == TILES
}

/// Linux lets a process use tile registers, 8 KB per thread, only after it asks.
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

/// We do not know how to ask other systems.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Where the next tiles of a patch are.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The next tile of A.
    pub a: *const u8,
    /// The next tile of B.
    pub b: *const u8,
    /// How many bytes on the next block of rows of A begins.
    pub down: usize,
    /// How many bytes on the next panel of B begins.
    pub across: usize,
}

/// Tile instructions, each followed by six `nop`s: see above. Other instructions stand in one string with a neighbor.
macro_rules! apart {
    ($($instruction:expr),+; $($rest:tt)+) => {
        std::arch::asm!($($instruction, ".rept 6", "nop", ".endr",)+ $($rest)+)
    };
}

pub(crate) use apart;

/// The same where they name A's and B's addresses.
macro_rules! step {
    ($($body:expr),+; $($name:ident = $value:expr),+) => {
        apart!(
            $($body),+;
            line = in(reg) LINE,
            $($name = in(reg) $value,)+
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags),
        )
    };
}

/// Multiplies two blocks of rows by two panels, which were loaded, and loads the next ones. A is read again for the next panels and should stay
/// in L1; B should not evict it.
macro_rules! square {
    ($next:expr, $multiply:literal) => {
        step!(
            concat!($multiply, " tmm0, tmm4, tmm6"),
            concat!($multiply, " tmm1, tmm4, tmm7"),
            "tileloadd tmm4, [{a0} + {line}]",
            concat!($multiply, " tmm2, tmm5, tmm6"),
            "tileloaddt1 tmm6, [{b0} + {line}]",
            concat!($multiply, " tmm3, tmm5, tmm7"),
            "tileloadd tmm5, [{a1} + {line}]",
            "tileloaddt1 tmm7, [{b1} + {line}]";
            a0 = $next.a,
            a1 = $next.a.wrapping_add($next.down),
            b0 = $next.b,
            b1 = $next.b.wrapping_add($next.across)
        )
    };
}

/// The last of them.
macro_rules! last_square {
    ($multiply:literal) => {
        apart!(
            concat!($multiply, " tmm0, tmm4, tmm6"),
            concat!($multiply, " tmm1, tmm4, tmm7"),
            concat!($multiply, " tmm2, tmm5, tmm6"),
            concat!($multiply, " tmm3, tmm5, tmm7");
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            options(nostack, nomem, preserves_flags),
        )
    };
}

/// One block of rows by four panels.
macro_rules! wide {
    ($cursor:expr, $multiply:literal) => {
        step!(
            "tileloadd tmm4, [{a} + {line}]",
            "tileloadd tmm5, [{b0} + {line}]",
            concat!($multiply, " tmm0, tmm4, tmm5"),
            "tileloadd tmm6, [{b1} + {line}]",
            concat!($multiply, " tmm1, tmm4, tmm6"),
            "tileloadd tmm7, [{b2} + {line}]",
            concat!($multiply, " tmm2, tmm4, tmm7"),
            "tileloadd tmm5, [{b3} + {line}]",
            concat!($multiply, " tmm3, tmm4, tmm5");
            a = $cursor.a,
            b0 = $cursor.b,
            b1 = $cursor.b.wrapping_add($cursor.across),
            b2 = $cursor.b.wrapping_add(2 * $cursor.across),
            b3 = $cursor.b.wrapping_add(3 * $cursor.across)
        )
    };
}

/// The tile registers of this thread in use, until this is dropped. Releasing them leaves the system less to save.
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

#[allow(clippy::unused_self)] // proof that there are tiles
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
    /// The machine has AMX, as [`ask`] says; there are 1 to 16 lines of 4 to 64 bytes, or none where a register is not used.
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

    /// Begins a patch with zeros.
    #[inline(always)]
    pub(super) fn zero(&self) {
        // SAFETY: there are tiles. Between two of these blocks of assembly they keep what they hold: the compiler never uses
        // them for anything of its own.
        unsafe {
            apart!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3";
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, nomem, preserves_flags),
            );
        }
    }

    /// Begins a patch with sums from memory, whose rows are `stride` bytes apart.
    ///
    /// # Safety
    /// A whole patch of this shape can be read there; these tiles were configured for it.
    #[inline(always)]
    pub(super) unsafe fn load(&self, shape: Shape, from: *const f32, stride: usize) {
        let [first, second] = two_parts(shape, from, stride);
        // SAFETY: the caller's promise.
        unsafe {
            apart!(
                "tileloadd tmm0, [{first} + {stride}]",
                "tileloadd tmm1, [{first} + {stride} + 64]",
                "tileloadd tmm2, [{second} + {stride}]",
                "tileloadd tmm3, [{second} + {stride} + 64]";
                first = in(reg) first,
                second = in(reg) second,
                stride = in(reg) stride,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, readonly, preserves_flags),
            );
        }
    }

    /// Ends a patch: writes its sums, with rows `stride` bytes apart.
    ///
    /// # Safety
    /// As for [`Tiles::load`], for writes.
    #[inline(always)]
    pub(super) unsafe fn store(&self, shape: Shape, to: *mut f32, stride: usize) {
        let [first, second] = two_parts(shape, to, stride);
        // SAFETY: the caller's promise.
        unsafe {
            apart!(
                "tilestored [{first} + {stride}], tmm0",
                "tilestored [{first} + {stride} + 64], tmm1",
                "tilestored [{second} + {stride}], tmm2",
                "tilestored [{second} + {stride} + 64], tmm3";
                first = in(reg) first,
                second = in(reg) second,
                stride = in(reg) stride,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Loads the first tiles of A and B, where the shape has them loaded a step early.
    ///
    /// # Safety
    /// As for [`Tiles::step`].
    #[inline(always)]
    pub(super) unsafe fn first(&self, shape: Shape, cursor: &Cursor) {
        if shape == Shape::Square {
            // SAFETY: the caller's promise.
            unsafe {
                step!(
                    "tileloadd tmm4, [{a0} + {line}]",
                    "tileloaddt1 tmm6, [{b0} + {line}]",
                    "tileloaddt1 tmm7, [{b1} + {line}]",
                    "tileloadd tmm5, [{a1} + {line}]";
                    a0 = cursor.a,
                    a1 = cursor.a.wrapping_add(cursor.down),
                    b0 = cursor.b,
                    b1 = cursor.b.wrapping_add(cursor.across)
                );
            }
        }
    }

    /// Adds the products of a step along k, and moves the cursor behind it.
    ///
    /// # Safety
    /// There is a tile at the cursor, in each of the shape's blocks and panels, and a next one if this is not the last; these tiles
    /// were configured for the shape, and the first ones loaded by [`Tiles::first`].
    #[inline(always)]
    pub(super) unsafe fn step(&self, format: Format, shape: Shape, cursor: &mut Cursor, last: bool) {
        let next = Cursor { a: cursor.a.wrapping_add(TILE), b: cursor.b.wrapping_add(TILE), ..*cursor };
        // SAFETY: the caller's promise.
        unsafe {
            match (shape, format) {
                (Shape::Square, Format::Bf16) if last => last_square!("tdpbf16ps"),
                (Shape::Square, Format::Int8 | Format::Int4) if last => last_square!("tdpbssd"),
                (Shape::Square, Format::Bf16) => square!(next, "tdpbf16ps"),
                (Shape::Square, Format::Int8 | Format::Int4) => square!(next, "tdpbssd"),
                (Shape::Wide, Format::Bf16) => wide!(cursor, "tdpbf16ps"),
                (Shape::Wide, Format::Int8 | Format::Int4) => wide!(cursor, "tdpbssd"),
            }
        }
        *cursor = next;
    }
}

/// Where the first two tiles of a patch of sums begin, and the last two.
#[inline(always)]
fn two_parts<T>(shape: Shape, sums: *const T, stride: usize) -> [*const u8; 2] {
    let second = match shape {
        Shape::Square => LINES * stride,
        Shape::Wide => 2 * LINE,
    };
    [sums.cast(), sums.cast::<u8>().wrapping_add(second)]
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: there are tiles, or `configure` would not have been called.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
