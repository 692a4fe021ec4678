//! Products agree with the reference.

use super::reference::{amx_reference, bf16_reference, int4_reference, int8_reference};
use super::*;

#[test]
fn integers_have_the_bits_of_their_reference_everywhere() {
    let mut random = Random::new(1);
    for [rows, k, columns] in shapes(&mut random, 40) {
        let case = Case::random(&mut random, rows, k, columns);
        let expected =
            [(Format::Int8, case.naive(int8_reference)), (Format::Int4, case.naive(int4_reference))];
        for (format, expected) in expected {
            let expected = bits(&expected);
            for dot in Dot::available() {
                let found = case.found(format, dot, 0..rows, &mut random);
                assert!(bits(&found) == expected, "[{rows}, {k}, {columns}] in {format:?} on {dot}");
            }
        }
    }
}

#[test]
fn sums_of_the_largest_integers_are_held() {
    let mut random = Random::new(18);
    // What is added up in sixteen bits on the way is largest where all have the same sign, or A has another than B.
    for [a, b] in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        for rows in [1, 2, 3, 4, 6, 8, 12, 16, 37] {
            let mut case = Case::random(&mut random, rows, 1100, 70);
            case.a.fill(a);
            case.weight.fill(b);
            let expected =
                [(Format::Int8, case.naive(int8_reference)), (Format::Int4, case.naive(int4_reference))];
            for (format, expected) in expected {
                for dot in Dot::available() {
                    let found = case.found(format, dot, 0..rows, &mut random);
                    assert!(
                        bits(&found) == bits(&expected),
                        "{rows} rows of {a} by {b}, {format:?} on {dot}"
                    );
                }
            }
        }
    }
}

#[test]
fn bf16_agrees_with_its_reference() {
    let mut random = Random::new(2);
    for [rows, k, columns] in shapes(&mut random, 40) {
        let case = Case::random(&mut random, rows, k, columns);
        let expected = case.naive(bf16_reference);
        let tolerance = Tolerance { absolute: 1e-5 * (k as f32).sqrt().max(1.0), relative: 1e-5 };
        for dot in Dot::available() {
            let found = case.found(Format::Bf16, dot, 0..rows, &mut random);
            if let Err(difference) = compare(&found, &expected, tolerance) {
                panic!("[{rows}, {k}, {columns}] on {dot}: {difference}");
            }
        }
    }
}

#[test]
fn amx_adds_even_and_odd_steps_of_a_tile_apart() {
    if !Dot::Amx.is_available() {
        return;
    }
    let mut random = Random::new(3);
    for [rows, k, columns] in [[1, 50, 100], [17, 900, 70], [150, 801, 33]] {
        let case = Case::random(&mut random, rows, k, columns);
        let found = case.found(Format::Bf16, Dot::Amx, 0..rows, &mut random);
        assert!(bits(&found) == bits(&case.naive(amx_reference)), "[{rows}, {k}, {columns}]");
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    for wrong in [f32::NAN, f32::INFINITY, f32::from_bits(0x7fff_ffff)] {
        let mut random = Random::new(6);
        let mut case = Case::random(&mut random, 3, 70, 20);
        case.a[(70 + GAP) + 5] = wrong;
        for format in Format::ALL {
            for dot in Dot::available() {
                let found = case.found(format, dot, 0..3, &mut random);
                let finite =
                    |row: usize| found[row * (20 + GAP)..][..20].iter().filter(|x| x.is_finite()).count();
                assert_eq!([0, 1, 2].map(finite), [20, 0, 20], "{wrong} in {format:?} on {dot}");
            }
        }
    }
}
