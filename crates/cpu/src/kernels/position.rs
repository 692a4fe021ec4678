//! Sines and cosines of positions: written out, and rotating pairs of numbers.
//!
//! Both come from tables made once, when a plan is prepared. A position beyond the table (a sequence may forget its
//! first rows and go on) is computed on the spot, with the same result. Where the angles depend on how long a sequence
//! is, one step of each run computes them for its rows, and all layers read that.

use glassformer_graph::ops::{Direction, Pairing, Rotate, Sinusoid, Turns};
use glassformer_graph::{Capacity, Shape};

use super::row::{load, store};
use super::split::each_row;
use super::{Call, CpuOperation, Needs, Reads, Work};
use crate::dispatch;
use crate::lanes::{LANES, Lanes};

/// Writes the sines and cosines of `position` to `row`.
pub(crate) fn sinusoid_row(op: &Sinusoid, position: usize, row: &mut [f32]) {
    for i in 0..op.width / 2 {
        let (a, b) = op.wave.pairing.columns(i, op.width);
        let (sine, cosine) = op.angle(position, i).sin_cos();
        (row[a], row[b]) = (sine as f32, cosine as f32);
    }
}

/// Input: the table of positions from `start` on.
impl CpuOperation for Sinusoid {
    const BY_ROWS: bool = true;

    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        Needs { reads: Reads::Sinusoid(*self), work: Work::Rows, ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, _: &mut [f32]) {
        let (table, y) = (call.inputs[0], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            let Some(position) = self.position(call.run.batch, call.first + i) else {
                // SAFETY: row `i` exists, and nobody else writes it.
                unsafe { y.row_mut(i) }.fill(0.0);
                return;
            };
            // SAFETY: row `i` exists, nobody else writes it, and the table is not written.
            unsafe {
                match position.checked_sub(self.start).filter(|&row| row < table.rows) {
                    Some(row) => y.row_mut(i).copy_from_slice(table.row(row)),
                    None => sinusoid_row(self, position, y.row_mut(i)),
                }
            }
        });
    }
}

/// Writes the cosines and then the sines of all pairs, for the forward rotation.
pub(crate) fn angles_row(op: &Rotate, position: usize, length: usize, row: &mut [f32]) {
    let (cosines, sines) = row.split_at_mut(op.turning / 2);
    for (i, (cosine, sine)) in cosines.iter_mut().zip(sines).enumerate() {
        (*cosine, *sine) = forward(op, i, position, length);
    }
}

/// The cosine and sine of pair `i`, for the forward rotation.
fn forward(op: &Rotate, i: usize, position: usize, length: usize) -> (f32, f32) {
    let (cosine, sine) = op.cos_sin(i, position, length);
    (cosine, with_direction(op, sine))
}

/// `sine`, negated where `op` rotates back.
fn with_direction(op: &Rotate, sine: f32) -> f32 {
    match op.direction {
        Direction::Forward => sine,
        Direction::Back => -sine,
    }
}

/// The angles of this run's rows. Output: `[tokens, turning]`.
///
/// # Safety
/// As [`Call`] says; no input.
pub(super) unsafe fn angles(op: &Rotate, call: Call<'_>) {
    let y = call.outputs[0];
    // A sine costs about as much as sixteen other numbers.
    each_row(call.worker, y.rows, y.width * LANES, |i| {
        let (position, length) = op.place(call.run.batch, i);
        // SAFETY: row `i` exists, and nobody else writes it.
        angles_row(op, position, length, unsafe { y.row_mut(i) });
    });
}

/// Inputs x and the angles: of all positions, or of this run's rows. `scratch` has room for one row of angles.
impl CpuOperation for Rotate {
    const BY_ROWS: bool = true;

    fn needs(&self, _: &[Shape], _: &Capacity) -> Needs {
        let reads = Reads::Angles(self.clone());
        Needs { scratch: self.turning, reads, work: Work::Rows, ..Needs::default() }
    }

    unsafe fn run(&self, call: Call<'_>, scratch: &mut [f32]) {
        let (x, angles, y) = (call.inputs[0], call.inputs[1], call.outputs[0]);
        each_row(call.worker, y.rows, y.width, |i| {
            let (position, length) = self.place(call.run.batch, call.first + i);
            let known = match self.turns {
                Turns::Fixed(_) => position,
                Turns::Dynamic { .. } | Turns::Long { .. } => i,
            };
            // SAFETY: `isa` is this machine's; row `i` exists in x and y, which do not overlap, and nobody else writes
            // it; a row of angles has `turning` numbers.
            unsafe {
                let angles = if known < angles.rows {
                    angles.row(known)
                } else {
                    angles_row(self, position, length, &mut scratch[..self.turning]);
                    &scratch[..self.turning]
                };
                let (from, to) = (x.data.add(i * y.width), y.data.add(i * y.width));
                dispatch!(call.run.isa, |L| rotate_row::<L>(self, from, to, angles.as_ptr(), y.width));
            }
        });
    }
}

/// # Safety
/// The machine has `L`'s instructions; x and y hold `width` numbers, `angles` `turning`.
#[inline(always)]
unsafe fn rotate_row<L: Lanes>(op: &Rotate, x: *const f32, y: *mut f32, angles: *const f32, width: usize) {
    let pairs = op.turning / 2;
    let sign = with_direction(op, 1.0);
    let mut head = 0;
    while head < width {
        // SAFETY: heads divide the width, pairs lie within `turning`, and that within the head.
        unsafe {
            let (x, y) = (x.add(head), y.add(head));
            match op.pairing {
                Pairing::Halves => {
                    for i in (0..pairs).step_by(LANES) {
                        let some = LANES.min(pairs - i);
                        let (a, b) = (load::<L>(x.add(i), some), load::<L>(x.add(pairs + i), some));
                        let cosine = load::<L>(angles.add(i), some);
                        let sine = load::<L>(angles.add(pairs + i), some) * L::splat(sign);
                        store(a.fma(cosine, -(b * sine)), y.add(i), some);
                        store(b.fma(cosine, a * sine), y.add(pairs + i), some);
                    }
                }
                Pairing::Interleaved => {
                    for i in 0..pairs {
                        let (a, b) = (*x.add(2 * i), *x.add(2 * i + 1));
                        let (cosine, sine) = (*angles.add(i), *angles.add(pairs + i) * sign);
                        *y.add(2 * i) = a * cosine - b * sine;
                        *y.add(2 * i + 1) = b * cosine + a * sine;
                    }
                }
            }
            y.add(op.turning).copy_from_nonoverlapping(x.add(op.turning), op.size - op.turning);
        }
        head += op.size;
    }
}
