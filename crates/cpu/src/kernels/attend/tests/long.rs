//! Long sequences: memory that grows with length only, and no error that grows with it.

use super::*;

#[test]
fn eight_thousand_keys_need_no_square_and_lose_nothing() {
    let (len, size) = (8192, 64);
    let op = plain(1, 1, size);
    let batch = sequences(&[len]);
    assert!(op.needs(&[], &Capacity::of(&batch)).scratch < 64 * 1024);
    let inputs = draw(&op, &batch, &mut Random::new(1));
    let made = run(&op.into(), &inputs, &batch, &mut State::default(), How::best());
    for row in [0, 1, 63, 64, 1000, 4095, 8191] {
        let dot = |j: usize| -> f64 {
            inputs[0].row(row).iter().zip(inputs[1].row(j)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let scores: Vec<f64> = (0..=row).map(|j| dot(j) * f64::from(op.scale)).collect();
        let sum: f64 = scores.iter().map(|s| s.exp()).sum();
        let mut expected = vec![0.0; size];
        for (j, score) in scores.iter().enumerate() {
            let p = score.exp() / sum;
            expected.iter_mut().zip(inputs[2].row(j)).for_each(|(y, &v)| *y += p * f64::from(v));
        }
        let expected: Vec<f32> = expected.into_iter().map(|x| x as f32).collect();
        compare(made[0].row(row), &expected, Tolerance::both(1e-5)).expect("rows agree");
        assert!((f64::from(made[1].row(row)[0]) - sum.ln()).abs() < 1e-5);
    }
}
