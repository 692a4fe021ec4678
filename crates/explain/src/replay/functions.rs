//! Functions of rows, from their papers.

use super::array::Array;
use super::given::{Given, Pairs};

/// Each row, cut into as many parts as there are heads.
pub(super) fn norm(x: &Array, given: &Given, centred: bool) -> Result<Array, String> {
    let (_, columns) = x.matrix()?;
    let size = columns / given.heads;
    if size == 0 || size * given.heads != columns {
        return Err(format!("{:?} in {} parts", x.shape, given.heads));
    }
    x.each_row(|row| {
        let parts = row.chunks(size);
        parts
            .flat_map(|part| {
                let n = part.len() as f64;
                let mean = if centred { part.iter().sum::<f64>() / n } else { 0.0 };
                let variance = part.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
                let deviation = (variance + given.epsilon).sqrt();
                part.iter().map(move |x| (x - mean) / deviation).collect::<Vec<_>>()
            })
            .collect()
    })
}

/// Along keys for scores, along the row else. Where nothing is seen nothing has a share.
pub(super) fn softmax(x: &Array) -> Result<Array, String> {
    let (outer, many, inner) = match x.shape[..] {
        [rows, columns] => (rows, columns, 1),
        [queries, keys, heads] => (queries, keys, heads),
        _ => return Err(format!("softmax of {:?}", x.shape)),
    };
    let mut data = x.data().into_owned();
    for (i, h) in (0..outer).flat_map(|i| (0..inner).map(move |h| (i, h))) {
        let at = |j: usize| (i * many + j) * inner + h;
        let most = (0..many).map(|j| data[at(j)]).fold(f64::NEG_INFINITY, f64::max);
        for j in 0..many {
            data[at(j)] = if most.is_finite() { (data[at(j)] - most).exp() } else { 0.0 };
        }
        let sum: f64 = (0..many).map(|j| data[at(j)]).sum();
        for j in 0..many {
            data[at(j)] = if sum > 0.0 { data[at(j)] / sum } else { 0.0 };
        }
    }
    Ok(Array::new(&x.shape, data))
}

/// Su et al. 2021: pairs of each head's numbers turn by p · ω.
pub(super) fn rope(x: &Array, turns: &Array, given: &Given) -> Result<Array, String> {
    let (rows, width) = x.matrix()?;
    let (size, turns) = (width / given.heads, turns.data());
    let pair = |i: usize| match given.pairs {
        Some(Pairs::Neighbours) => Ok((2 * i, 2 * i + 1)),
        Some(Pairs::Apart(apart)) => Ok((i, i.saturating_add(apart))),
        None => Err("nothing says what forms a pair".to_owned()),
    };
    let pairs = (0..turns.len()).map(pair).collect::<Result<Vec<_>, _>>()?;
    if pairs.iter().any(|&(_, second)| second >= size) {
        return Err(format!("{} pairs of {size} numbers", pairs.len()));
    }
    let mut data = x.data().into_owned();
    for p in 0..rows {
        for head in 0..given.heads {
            for (&(first, second), turn) in pairs.iter().zip(&*turns) {
                let begin = p * width + head * size;
                let (a, b) = (data[begin + first], data[begin + second]);
                let (sine, cosine) = (p as f64 * turn).sin_cos();
                data[begin + first] = given.magnitude * (a * cosine - b * sine);
                data[begin + second] = given.magnitude * (b * cosine + a * sine);
            }
        }
    }
    Ok(Array::new(&x.shape, data))
}

/// Grave et al. 2016: the first words compete with the clusters, the words of a cluster with each other; as logarithms.
pub(super) fn adaptive(inside: &[Array]) -> Result<Array, String> {
    let log_softmax = |row: &[f64]| -> Vec<f64> {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = most + row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
        row.iter().map(|x| x - sum).collect()
    };
    let (rows, first) = inside[0].matrix()?;
    let clusters = inside.get(1).map_or(Ok((rows, 0)), Array::matrix)?;
    if clusters != (rows, inside.len().saturating_sub(2)) || rows == 0 {
        return Err(format!(
            "{} clusters, {} of them with words",
            clusters.1,
            inside.len().saturating_sub(2)
        ));
    }
    if inside.iter().any(|part| part.matrix().map_or(true, |(other, _)| other != rows)) {
        return Err("clusters of different rows".to_owned());
    }
    let mut data = Vec::new();
    for row in 0..rows {
        let clusters = inside.get(1).map_or_else(Vec::new, |clusters| clusters.row(row));
        let all = log_softmax(&[inside[0].row(row), clusters].concat());
        data.extend_from_slice(&all[..first]);
        for (words, cluster) in inside.iter().skip(2).zip(&all[first..]) {
            data.extend(log_softmax(&words.row(row)).iter().map(|x| cluster + x));
        }
    }
    Ok(Array::new(&[rows, data.len() / rows], data))
}
