//! An instruction carried out: on the saved registers of a thread, its memory, and its tiles.

use crate::decode::{Address, Instruction, Place, Work};
use crate::numbers::{flushed, pair, rounded};
use crate::state::{State, Vector};
use crate::tiles::{Shapes, Tile, Tiles};

/// Carries an instruction out whose next one is at `next`; None where a processor would refuse it, and nothing was done then.
///
/// # Safety
/// The thread of `state` came to this instruction, whose memory is as it expects; the machine has fused multiply-adds.
#[must_use]
pub unsafe fn out(instruction: &Instruction, state: &mut State<'_>, next: *const u8) -> Option<()> {
    let first = instruction.first;
    // SAFETY: the caller's promise; the program that put the instruction there promised what it needs of memory.
    unsafe {
        match instruction.work {
            Work::Nothing => {}
            Work::Shape => {
                let shapes = plain(instruction, state, next)?.cast::<Shapes>().read_unaligned();
                Tiles::with(|tiles| tiles.shape(&shapes))?;
            }
            Work::Release => Tiles::with(Tiles::release),
            Work::Zero => Tiles::with(|tiles| tiles.get(first).map(Tile::zero))?,
            Work::Load => {
                let (from, stride) = lines(instruction, state, next)?;
                Tiles::with(|tiles| tiles.get(first).map(|tile| tile.load(from, stride)))?;
            }
            Work::Store => {
                let (to, stride) = lines(instruction, state, next)?;
                Tiles::with(|tiles| tiles.get(first).map(|tile| tile.store(to, stride)))?;
            }
            Work::TileIntegers => Tiles::with(|tiles| tiles.multiply_integers(of_product(instruction)?))?,
            Work::TileHalves => Tiles::with(|tiles| tiles.multiply_halves(of_product(instruction)?))?,
            Work::Broadcast | Work::Integers | Work::Halves | Work::Narrow | Work::NarrowTwo => {
                on_vectors(instruction, state, next)?;
            }
        }
    }
    Some(())
}

/// C, A and B of a product of tiles.
fn of_product(instruction: &Instruction) -> Option<[u8; 3]> {
    let Place::Register(a) = instruction.last else { return None };
    Some([instruction.first, a, instruction.second])
}

/// What base and offset come to.
fn begin(address: &Address, state: &State<'_>, next: *const u8) -> i64 {
    let base = match (address.base, address.of_next) {
        (Some(base), _) => state.general(base),
        (None, true) => next.addr() as i64,
        (None, false) => 0,
    };
    base.wrapping_add(address.offset.into())
}

/// index · scale.
fn apart(address: &Address, state: &State<'_>) -> i64 {
    address.index.map_or(0, |index| state.general(index).wrapping_mul(address.scale.into()))
}

/// Where the first line of a tile lies, and how far apart lines are.
fn lines(instruction: &Instruction, state: &State<'_>, next: *const u8) -> Option<(*mut u8, isize)> {
    let Place::Memory(address) = &instruction.last else { return None };
    let begin = begin(address, state, next);
    Some((std::ptr::with_exposed_provenance_mut(begin as usize), apart(address, state) as isize))
}

/// Where any other operand lies.
fn plain(instruction: &Instruction, state: &State<'_>, next: *const u8) -> Option<*const u8> {
    let Place::Memory(address) = &instruction.last else { return None };
    let place = begin(address, state, next).wrapping_add(apart(address, state));
    Some(std::ptr::with_exposed_provenance(place as usize))
}

/// Bytes of a word, and of half of one.
const WORD: usize = 4;
const HALF: usize = 2;

/// # Safety
/// As for [`out`].
unsafe fn on_vectors(instruction: &Instruction, state: &mut State<'_>, next: *const u8) -> Option<()> {
    let size = usize::from(instruction.bytes);
    // SAFETY: the caller's promise.
    let last = unsafe { last_vector(instruction, state, next) }?;
    let (before, second) = (state.vector(instruction.first), state.vector(instruction.second));
    // What it comes to, how many bytes of it count, and how many belong to a bit of the mask.
    let (result, size, element) = match instruction.work {
        Work::Broadcast => (last, size, WORD),
        Work::Integers => (integers(&before, &second, &last), size, WORD),
        // SAFETY: the caller's promise.
        Work::Halves => (unsafe { halves(&before, &second, &last) }, size, WORD),
        Work::Narrow => (narrowed(&last, &[0; 64], size), size / 2, HALF),
        Work::NarrowTwo => (narrowed(&last, &second, size), size, HALF),
        _ => return None,
    };
    let mask = if instruction.mask == 0 { u64::MAX } else { state.mask(instruction.mask) };
    let mut vector = [0; 64];
    for at in 0..size {
        vector[at] = match (mask >> (at / element) & 1 == 1, instruction.zeroing) {
            (true, _) => result[at],
            (false, true) => 0,
            (false, false) => before[at],
        };
    }
    state.set_vector(instruction.first, &vector);
    Some(())
}

/// # Safety
/// As for [`out`].
unsafe fn last_vector(instruction: &Instruction, state: &State<'_>, next: *const u8) -> Option<Vector> {
    if let Place::Register(number) = instruction.last {
        return Some(state.vector(number));
    }
    let from = plain(instruction, state, next)?;
    let mut vector = [0; 64];
    // SAFETY: the caller's promise. What a mask leaves out is read as well, where a processor would not: no kernel has it at the end
    // of its memory.
    unsafe {
        if instruction.broadcast || instruction.work == Work::Broadcast {
            let word = from.cast::<[u8; WORD]>().read_unaligned();
            vector.as_chunks_mut().0.fill(word);
        } else {
            from.copy_to(vector.as_mut_ptr(), instruction.bytes.into());
        }
    }
    Some(vector)
}

/// `vpdpbusd`.
fn integers(before: &Vector, second: &Vector, last: &Vector) -> Vector {
    let mut all = *before;
    for (at, word) in all.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
        let mut sum = i32::from_le_bytes(*word);
        for byte in WORD * at..WORD * (at + 1) {
            sum = sum.wrapping_add(i32::from(second[byte]) * i32::from(last[byte].cast_signed()));
        }
        *word = sum.to_le_bytes();
    }
    all
}

/// `vdpbf16ps`: the second one of each pair is added first.
///
/// # Safety
/// The machine has fused multiply-adds.
#[target_feature(enable = "fma")]
unsafe fn halves(before: &Vector, second: &Vector, last: &Vector) -> Vector {
    let mut all = *before;
    for (at, word) in all.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
        let pair = |of: &Vector| pair(of.as_chunks().0[at]);
        let (left, right) = (pair(second), pair(last));
        let mut sum = flushed(f32::from_le_bytes(*word));
        for half in [1, 0] {
            sum = flushed(left[half].mul_add(right[half], sum));
        }
        *word = sum.to_le_bytes();
    }
    all
}

/// `size` bytes of `f32` rounded to `bf16`, and behind them as many of others.
fn narrowed(first: &Vector, second: &Vector, size: usize) -> Vector {
    let mut all = [0; 64];
    let words = first.as_chunks().0[..size / WORD].iter().chain(second.as_chunks().0);
    for (half, word) in all.as_chunks_mut().0.iter_mut().zip(words) {
        *half = rounded(f32::from_le_bytes(*word)).to_le_bytes();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector<const N: usize, T: Copy>(of: impl Fn(usize) -> T, bytes: impl Fn(T) -> [u8; N]) -> Vector {
        let mut all = [0; 64];
        for (at, chunk) in all.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            *chunk = bytes(of(at));
        }
        all
    }

    #[test]
    fn two_registers_become_one_with_the_last_in_front() {
        let (low, high) =
            (vector(|at| at as f32, f32::to_le_bytes), vector(|at| -(at as f32), f32::to_le_bytes));
        let all = narrowed(&low, &high, 64);
        let halves: Vec<f32> = all
            .as_chunks()
            .0
            .iter()
            .map(|half| f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16))
            .collect();
        for at in 0..16 {
            assert_eq!((halves[at], halves[16 + at]), (at as f32, -(at as f32)));
        }
    }

    #[test]
    fn integers_with_signs_meet_integers_without() {
        let before = vector(|at| at as i32, i32::to_le_bytes);
        let all = integers(&before, &[255; 64], &[0x80; 64]);
        assert_eq!(all, vector(|at| at as i32 - 4 * 255 * 128, i32::to_le_bytes));
    }
}
