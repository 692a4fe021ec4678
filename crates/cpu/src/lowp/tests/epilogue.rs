//! Epilogues of products have the bits of separate steps.

use super::reference::rounded;
use super::*;

/// What may follow products of this format. Only those in `bf16` are trained.
pub(super) fn epilogues_of(format: Format, other: &[f32], stride: usize) -> Vec<Epilogue> {
    let fits =
        |epilogue: &Epilogue| format == Format::Bf16 || !matches!(epilogue.combine, Combine::Derivative(..));
    epilogues(other, stride).into_iter().filter(fits).collect()
}

#[test]
fn what_follows_has_the_bits_of_a_step_behind() {
    let mut random = Random::new(7);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 10, 33], [50, 1500, 430]] {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * (columns + 1)).map(|_| random.normal()).collect();
        for (format, dot) in
            Format::ALL.into_iter().flat_map(|f| Dot::available().into_iter().map(move |d| (f, d)))
        {
            let plain = case.found(format, dot, 0..rows, &mut random);
            for epilogue in epilogues_of(format, &other, columns + 1) {
                let found = case.found_with((format, dot), 0..rows, epilogue, &mut random);
                let expected = followed(dot.isa(), &plain, [rows, columns, columns + GAP], &epilogue);
                assert!(
                    bits(&found) == bits(&expected),
                    "[{rows}, {k}, {columns}], {epilogue:?}, {format:?} on {dot}"
                );
            }
        }
    }
}

#[test]
fn a_bf16_c_is_what_quantizing_makes_of_it() {
    let mut random = Random::new(8);
    for [rows, k, columns] in shapes(&mut random, 12) {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * columns).map(|_| random.normal()).collect();
        for dot in Dot::available() {
            let epilogue = *random.pick(&epilogues(&other, columns));
            let [found, expected] = case.found_quantized((Format::Bf16, dot), epilogue, &mut random);
            assert!(bits(&found) == bits(&expected), "[{rows}, {k}, {columns}], {epilogue:?} on {dot}");
        }
    }
}

#[test]
fn what_is_kept_is_what_quantizing_makes_of_a_product() {
    let mut random = Random::new(9);
    for [rows, k, columns] in shapes(&mut random, 12) {
        // What is kept has anything behind its last column.
        let columns = columns.next_multiple_of(32);
        let case = Case::random(&mut random, rows, k, columns);
        for dot in Dot::available() {
            let mut kept = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, columns));
            let activate = Epilogue { activation: Some(ActivationKind::GeluTanh), ..Epilogue::default() };
            let keep = Epilogue { keep: Some(kept.as_mut_ptr()), ..activate };
            let [found, expected] = [keep, activate]
                .map(|epilogue| case.found_quantized((Format::Bf16, dot), epilogue, &mut random));
            let [plain, _] = case.found_quantized((Format::Bf16, dot), Epilogue::default(), &mut random);
            let about = format!("[{rows}, {k}, {columns}] on {dot}");
            assert!(bits(&found[0]) == bits(&expected[0]) && bits(&kept) == bits(&plain), "{about}");
        }
    }
}

#[test]
fn derivatives_of_kept_numbers_are_those_of_rounded_numbers() {
    let mut random = Random::new(10);
    for [rows, k, columns] in shapes(&mut random, 12) {
        let case = Case::random(&mut random, rows, k, columns);
        let other: Vec<f32> = (0..rows * columns).map(|_| rounded(random.normal())).collect();
        let mut quantized = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, columns));
        let (from, to) = (RowSource::F32(other.as_ptr()), quantized.as_mut_ptr());
        let quantizer = RowQuantizer { format: Format::Bf16, rows, k: columns, from, stride: columns, to };
        // SAFETY: every machine has this set, and the buffers are as long as the quantizer says.
        (0..rows).for_each(|row| unsafe { quantizer.run_row(Isa::Scalar, row) });
        for dot in Dot::available() {
            let act = ActivationKind::ApproximateGeluTanh;
            let of_f32 = Combine::Derivative(act, Other { start: other.as_ptr(), stride: columns });
            let [expected, found] = [of_f32, Combine::DerivativeBf16(act, quantized.as_ptr())]
                .map(|combine| Epilogue { combine, ..Epilogue::default() })
                .map(|epilogue| bits(&case.found_with((Format::Bf16, dot), 0..rows, epilogue, &mut random)));
            assert!(found == expected, "[{rows}, {k}, {columns}] on {dot}");
        }
    }
}
