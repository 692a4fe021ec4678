//! B, laid out once, for weights that do not change; and its columns read back, for tables of a vocabulary.

use glassformer_tensor::{Base, Bits, Buffer, CodedRow, Coding, SUPER, Scales, half};

use super::{LINE, LINES, Layout, UNIT, is_supported};
use crate::lowp::weight::bytes_of;

/// A coded B: panels of sixteen columns, as this module's parent says.
#[derive(Clone, Debug)]
pub struct Weight {
    data: Buffer,
    coding: Coding,
    k: usize,
    columns: usize,
}

impl Weight {
    /// How many `f32` a coded B of `k` rows and `columns` columns takes.
    pub const fn len(coding: Coding, k: usize, columns: usize) -> usize {
        columns.next_multiple_of(UNIT) / LINES * Layout::of(coding).panel(k) / size_of::<f32>()
    }

    /// A B of zeros, whose columns come one by one.
    ///
    /// # Panics
    /// If products of the coding cannot be done: see [`is_supported`]; or if its steps are for more numbers than `k` has.
    pub fn zeros(coding: Coding, k: usize, columns: usize) -> Self {
        assert!(is_supported(coding), "{coding:?}");
        assert!(coding.scales != Scales::Steps || k.is_multiple_of(SUPER), "{coding:?} of {k} numbers");
        Self { data: Buffer::zeros(Self::len(coding, k, columns)), coding, k, columns }
    }

    /// From a weight `[out, in]`, row-major: B is its transpose, with `in` rows and `out` columns.
    ///
    /// # Panics
    /// If the weight has not `inputs · outputs` numbers, or the coding is one that is only read.
    pub fn from_weight(coding: Coding, weight: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(weight.len(), outputs * inputs, "a weight [{outputs}, {inputs}]");
        let mut coded = Self::zeros(coding, inputs, outputs);
        let mut row = CodedRow::default();
        for column in 0..outputs {
            coding.encode(&weight[column * inputs..(column + 1) * inputs], &mut row);
            coded.set_column(column, &row);
        }
        coded
    }

    /// Sets a column to a row of the weight.
    ///
    /// # Panics
    /// If there is no such column, or the row has not as many codes and scales as one of `k` numbers.
    pub fn set_column(&mut self, column: usize, row: &CodedRow) {
        assert!(
            column < self.columns && row.codes.len() == self.k,
            "column {column}, {} codes",
            row.codes.len()
        );
        let layout = Layout::of(self.coding);
        let (bits, base, scales) = (self.coding.bits, self.coding.base, self.coding.scales);
        let panel = layout.panel(self.k);
        let first = column / LINES * panel;
        let column = column % LINES;
        let bytes = bytes_of(&mut self.data);
        let panel = &mut bytes[first..first + panel];
        // What lies behind the end of k is as good as any code: A is zero there.
        for (at, codes) in row.codes.chunks(LINES).enumerate() {
            let mut sixteen = [0; LINES];
            sixteen[..codes.len()].copy_from_slice(codes);
            let (block, within) = (at / (layout.steps / LINES), at % (layout.steps / LINES));
            put(bits, &mut panel[block * layout.bytes + within * layout.sixteen..], column, sixteen);
        }
        for (at, block) in panel.chunks_exact_mut(layout.bytes).enumerate() {
            let groups = at * layout.groups..(at + 1) * layout.groups;
            for (group, within) in groups.zip(0..) {
                let place = within * LINES + column;
                let mut set = |start: usize, numbers: &[f32], steps: &[i8]| match scales {
                    Scales::Steps => {
                        block[start + place] = steps.get(group).copied().unwrap_or(0).cast_unsigned();
                    }
                    Scales::Halves | Scales::Row | Scales::RowSteps => {
                        // Behind the end of k there is none.
                        let bits = half::round(numbers.get(group).copied().unwrap_or(0.0));
                        block[start + 2 * place..][..2].copy_from_slice(&bits.to_le_bytes());
                    }
                };
                set(layout.scales, &row.scales, &row.scale_steps);
                if base == Base::Minimum {
                    set(layout.minima, &row.minima, &row.minimum_steps);
                }
            }
            if scales == Scales::Steps {
                let upper = &mut block[layout.upper..];
                let mut set = |start: usize, numbers: &[f32]| {
                    let number = numbers.get(at).copied().unwrap_or(0.0);
                    upper[start + 4 * column..][..4].copy_from_slice(&number.to_le_bytes());
                };
                set(0, &row.scales);
                if base == Base::Minimum {
                    set(LINE, &row.minima);
                }
            }
        }
    }

    /// What [`super::CodedGemm`] takes as B.
    pub fn as_ptr(&self) -> *const f32 {
        self.data.as_ptr()
    }

    /// Its numbers of column `column`: what the row of the weight is worth.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, column: usize) -> Vec<f32> {
        assert!(column < self.columns);
        let mut numbers = vec![0.0; self.k];
        // SAFETY: the column exists, and the data has the size that the coding says.
        unsafe { Self::decode(self.coding, self.as_ptr(), column, &mut numbers) };
        numbers
    }

    /// Writes the numbers of column `column` of a B whose `k` is as long as `to`: of a table, a row.
    ///
    /// # Safety
    /// `b` is what [`Weight::as_ptr`] gave, of a B of this coding and k that has such a column.
    pub unsafe fn decode(coding: Coding, b: *const f32, column: usize, to: &mut [f32]) {
        let layout = Layout::of(coding);
        let panel = layout.panel(to.len());
        // SAFETY: the caller's promise.
        let panel = unsafe { std::slice::from_raw_parts(b.cast::<u8>().add(column / LINES * panel), panel) };
        let column = column % LINES;
        for (numbers, block) in to.chunks_mut(layout.steps).zip(panel.chunks_exact(layout.bytes)) {
            let of_group = |start: usize, upper: usize, group: usize| {
                let place = group * LINES + column;
                match coding.scales {
                    Scales::Steps => {
                        let at = layout.upper + upper + 4 * column;
                        let upper =
                            f32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
                        upper * f32::from(block[start + place].cast_signed())
                    }
                    Scales::Halves | Scales::Row | Scales::RowSteps => {
                        let at = start + 2 * place;
                        half::widen(u16::from_le_bytes([block[at], block[at + 1]]))
                    }
                }
            };
            for (group, numbers) in numbers.chunks_mut(coding.group).enumerate() {
                let scale = of_group(layout.scales, 0, group);
                let code = |i: usize| {
                    let step = group * coding.group + i;
                    f32::from(get(coding.bits, &block[step / LINES * layout.sixteen..], column, step % LINES))
                };
                match coding.base {
                    Base::Offset(offset) => {
                        for (i, number) in numbers.iter_mut().enumerate() {
                            *number = scale * (code(i) - f32::from(offset));
                        }
                    }
                    Base::Minimum => {
                        let minimum = of_group(layout.minima, LINE, group);
                        for (i, number) in numbers.iter_mut().enumerate() {
                            *number = scale * code(i) - minimum;
                        }
                    }
                }
            }
        }
    }
}

const _: () = assert!(SUPER.is_multiple_of(LINE));

/// Sets the codes of a column at sixteen steps: four codes at a time, in the same four bytes of each line.
fn put(bits: Bits, sixteen: &mut [u8], column: usize, codes: [u8; LINES]) {
    let fours: [u32; 4] = std::array::from_fn(|nth| {
        let at = 4 * nth;
        u32::from_le_bytes([codes[at], codes[at + 1], codes[at + 2], codes[at + 3]])
    });
    let mut set = |line: usize, four: u32| {
        sixteen[line * LINE + 4 * column..][..4].copy_from_slice(&four.to_le_bytes());
    };
    let low = |four: u32| four & 0x0f0f_0f0f;
    match bits {
        Bits::Four | Bits::Six => {
            set(0, low(fours[0]) | low(fours[1]) << 4);
            set(1, low(fours[2]) | low(fours[3]) << 4);
        }
        Bits::Eight => fours.into_iter().enumerate().for_each(|(line, four)| set(line, four)),
    }
    if bits == Bits::Six {
        let upper = |nth: usize| (fours[nth] >> 4 & 0x0303_0303) << (2 * nth);
        set(2, upper(0) | upper(1) | upper(2) | upper(3));
    }
}

/// The code of a column at one of sixteen steps.
fn get(bits: Bits, sixteen: &[u8], column: usize, step: usize) -> u8 {
    let byte = 4 * column + step % 4;
    let low = sixteen[step / 8 * LINE + byte] >> (step / 4 % 2 * 4) & 15;
    match bits {
        Bits::Four => low,
        Bits::Six => low | (sixteen[2 * LINE + byte] >> (step / 4 * 2) & 3) << 4,
        Bits::Eight => sixteen[step / 4 * LINE + byte],
    }
}
