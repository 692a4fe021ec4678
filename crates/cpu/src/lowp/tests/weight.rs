//! How weights are laid out.

use super::*;

#[test]
fn weights_and_matrices_are_laid_out_alike() {
    let mut random = Random::new(5);
    for [k, columns] in [[1, 1], [64, 100], [33, 47], [100, 31]] {
        let b: Vec<f32> = (0..k * columns).map(|_| random.normal()).collect();
        let weight: Vec<f32> = (0..k * columns).map(|at| b[at % k * columns + at / k]).collect();
        for format in Format::ALL {
            let data = |weight: Weight| {
                // SAFETY: a weight is that long.
                bits(unsafe { std::slice::from_raw_parts(weight.as_ptr(), Weight::len(format, k, columns)) })
            };
            let from_rows = data(Weight::from_rows(format, &b, k, columns));
            assert!(from_rows == data(Weight::from_weight(format, &weight, columns, k)), "[{k}, {columns}]");
        }
    }
}

#[test]
fn stored_integers_are_laid_out_as_quantized_numbers_are() {
    let mut random = Random::new(8);
    let mut shapes = vec![[1, 1], [64, 16], [63, 15], [65, 17], [300, 64]];
    shapes.extend((0..20).map(|_| [1 + random.below(300), 1 + random.below(100)]));
    for [k, columns] in shapes {
        let numbers: Vec<f32> = (0..k * columns).map(|_| random.normal()).collect();
        let (mut row, mut bytes, mut scales) = (CodedRow::default(), Vec::new(), Vec::new());
        for numbers in numbers.chunks(k) {
            Coding::INT8.encode(numbers, &mut row);
            bytes.extend(row.codes.iter().map(|code| code ^ 128));
            scales.extend_from_slice(&row.scales);
        }
        let quantized = Weight::from_weight(Format::Int8, &numbers, columns, k);
        let stored = Weight::from_integers(&bytes, &scales, k).expect("none is -128");
        let data = |weight: &Weight| {
            // SAFETY: a weight is that long.
            bits(unsafe {
                std::slice::from_raw_parts(weight.as_ptr(), Weight::len(Format::Int8, k, columns))
            })
        };
        assert!(data(&quantized) == data(&stored), "[{k}, {columns}]");
        let column = random.below(columns);
        let mut found = vec![0.0; k];
        // SAFETY: it is a weight of so many columns, each of k numbers.
        unsafe { Weight::decode(stored.as_ptr(), columns, column, &mut found) };
        let integers = &bytes[column * k..][..k];
        let expected: Vec<f32> =
            integers.iter().map(|byte| scales[column] * f32::from(byte.cast_signed())).collect();
        assert!(bits(&found) == bits(&expected), "column {column} of [{k}, {columns}]");
        bytes[0] = 0x80;
        assert!(Weight::from_integers(&bytes, &scales, k).is_none(), "-128 is no integer of ours");
    }
}
