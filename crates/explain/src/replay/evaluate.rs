//! A line's right side in `f64`, from the numbers that its symbols stand for.

use std::collections::HashMap;

use super::array::{Array, room};
use super::functions::{adaptive, norm, rope, softmax};
use super::given::{Given, Mask};
use super::parse::{self, Expr};
use super::waves::waves;

/// What a line is about.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The token ids of the side that the line belongs to.
    pub ids: Vec<u32>,
    /// Their types; empty where all are 0.
    pub types: Vec<u32>,
    /// Which of their rows see and are seen by all.
    pub global: Vec<bool>,
    /// What its symbols stand for.
    pub operands: HashMap<String, Array>,
    /// The shape of what it should give.
    pub shape: Vec<usize>,
}

/// What the line `text` says.
///
/// # Errors
/// If it cannot be read, or its symbols do not fit together.
pub fn evaluate(text: &str, world: &World) -> Result<Array, String> {
    let count = room(&world.shape)?;
    if text.contains("sin θ") {
        return waves(text, world);
    }
    let (expr, conditions) = parse::line(text)?;
    let given = Given::of(&conditions)?;
    let value = world.value(&expr, &given)?;
    let value = match (&expr, given.range) {
        (Expr::Product(_, whole), Some((from, to))) => {
            let whole = world.value(whole, &given)?;
            let (rows, columns) = value.matrix()?;
            if whole.shape != value.shape {
                return Err(format!("{:?} beside {:?}", value.shape, whole.shape));
            }
            Array::tabulate(rows, columns, |i, j| {
                if (from..to).contains(&j) { value.at(i, j) } else { whole.at(i, j) }
            })?
        }
        _ => value,
    };
    let value = world.masked(value, &given)?;
    Ok(if value.shape.is_empty() { Array::new(&world.shape, vec![value.nth(0); count]) } else { value })
}

impl World {
    /// The place of row `row` among those whose token is not `padding`, from 1 on; 0 where its own is.
    pub(super) fn counted(&self, row: usize, padding: u32) -> usize {
        let before = self.ids.get(..=row).unwrap_or(&[]);
        match before.last() {
            Some(&own) if own != padding => before.iter().filter(|id| **id != padding).count(),
            Some(_) | None => 0,
        }
    }

    fn value(&self, expr: &Expr, given: &Given) -> Result<Array, String> {
        let value = |expr: &Expr| self.value(expr, given);
        match expr {
            Expr::Number(x) => Ok(Array::number(*x)),
            Expr::Length => Ok(Array::number(self.ids.len() as f64)),
            Expr::Symbol(symbol) => {
                let known = self.operands.get(symbol).cloned();
                known.ok_or_else(|| format!("nothing says what {symbol} is"))
            }
            Expr::Transposed(inside) => value(inside)?.transposed(),
            Expr::Index(of, place) => self.index(&value(of)?, place, given),
            Expr::Call(function, inside) => {
                let inside = inside.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                self.call(function, &inside, given)
            }
            Expr::Beside(all) => beside(&all.iter().map(value).collect::<Result<Vec<_>, _>>()?),
            Expr::Below(all) => below(&all.iter().map(value).collect::<Result<Vec<_>, _>>()?),
            Expr::Add(a, b) => each(&value(a)?, &value(b)?, |x, y| x + y),
            Expr::Subtract(a, b) => each(&value(a)?, &value(b)?, |x, y| x - y),
            Expr::Each(a, b) => each(&value(a)?, &value(b)?, |x, y| x * y),
            Expr::Divide(a, b) => each(&value(a)?, &value(b)?, |x, y| x / y),
            Expr::Product(a, b) => self.product(&value(a)?, &value(b)?, given),
            Expr::Negative(x) => Ok(value(x)?.map(|x| -x)),
            Expr::Root(x) => Ok(value(x)?.map(f64::sqrt)),
            Expr::Distance => self.pairs(|i, j, _| i.abs_diff(j) as f64),
        }
    }

    /// A number for each query, key and head. Queries are the last of the keys where there are more of these: i and j count both from
    /// the first key.
    fn pairs(&self, at: impl Fn(usize, usize, usize) -> f64) -> Result<Array, String> {
        let [queries, keys, heads] = self.shape[..] else { return Err("these are no scores".to_owned()) };
        let before = keys.saturating_sub(queries);
        let mut data = Vec::with_capacity(room(&self.shape)?);
        for i in 0..queries {
            for j in 0..keys {
                data.extend((0..heads).map(|head| at(before + i, j, head)));
            }
        }
        Ok(Array::new(&self.shape, data))
    }

    fn product(&self, a: &Array, b: &Array, given: &Given) -> Result<Array, String> {
        match (&a.shape[..], &b.shape[..], &self.shape[..]) {
            ([], ..) | (_, [], _) => each(a, b, |x, y| x * y),
            // m · |i − j|: a number for each head.
            ([1, slopes], [_, _, heads], _) if slopes == heads => {
                let data = b.data().iter().enumerate().map(|(k, x)| x * a.nth(k % heads)).collect();
                Ok(Array::new(&b.shape, data))
            }
            // A · V, head by head.
            ([_, keys, _], [rows, _], [_, all]) if rows == keys => mixed(a, b, *all),
            // Q · Kᵀ, head by head.
            ([_, _], [_, _], [_, _, heads]) if given.heads == *heads => met(a, b, *heads),
            ([_, _], [_, _], [_, _, heads]) => {
                Err(format!("{} heads are written, {heads} are there", given.heads))
            }
            ([_, inner], [other, _], _) if inner == other => a.times(b),
            _ => Err(format!("{:?} · {:?}", a.shape, b.shape)),
        }
    }

    fn index(&self, of: &Array, place: &str, given: &Given) -> Result<Array, String> {
        if let Some(rest) = place.strip_prefix("bucket") {
            return self.buckets(of, rest);
        }
        if place == "i − j" {
            return self.distant(of);
        }
        let (rows, columns) = of.matrix()?;
        if place == ":n" {
            let n = self.ids.len();
            if n > columns {
                return Err(format!("there are no {n} columns of {:?}", of.shape));
            }
            return of.each_row(|row| row[..n].to_vec());
        }
        let (what, shift) = match (place.split_once(" + "), place.split_once(" − ")) {
            (Some((what, by)), _) => {
                (what, by.parse::<u32>().map(i64::from).map_err(|_| format!("{place:?}"))?)
            }
            (_, Some((what, by))) => {
                (what, -by.parse::<u32>().map(i64::from).map_err(|_| format!("{place:?}"))?)
            }
            (None, None) => (place, 0),
        };
        let mut data = Vec::with_capacity(room(&[self.ids.len(), columns])?);
        for (row, &id) in self.ids.iter().enumerate() {
            let number = match what {
                "t" => id as usize,
                "s" => self.types.get(row).map_or(0, |&kind| kind as usize),
                "p" => row,
                "c" => self.counted(row, given.padding.ok_or("nothing says what c is")?),
                _ => return Err(format!("{what:?} is no index")),
            };
            let inside = given.range.is_none_or(|(from, to)| (from..to).contains(&number));
            let found = usize::try_from(number as i64 + shift).ok().filter(|_| inside);
            match found.filter(|&found| found < rows) {
                Some(found) => data.extend(of.row(found)),
                None if inside => return Err(format!("there is no row {place} of {:?}", of.shape)),
                None => data.extend(vec![0.0; columns]),
            }
        }
        Ok(Array::new(&[self.ids.len(), columns], data))
    }

    /// What `of` says of the distance between a query and a key, each counted from the first key.
    fn distant(&self, of: &Array) -> Result<Array, String> {
        let ([queries, keys, _], [rows, distances, heads]) = (&self.shape[..], &of.shape[..]) else {
            return Err("these are no scores".to_owned());
        };
        if rows != queries || keys < queries {
            return Err(format!("{:?} for {:?}", of.shape, self.shape));
        }
        let before = keys - queries;
        let at = |i: usize, j: usize, head: usize| {
            let distance = i.checked_sub(j).filter(|distance| distance < distances && head < *heads)?;
            Some(of.nth(((i - before) * distances + distance) * heads + head))
        };
        self.pairs(|i, j, head| at(i, j, head).unwrap_or(0.0))
    }

    /// `W_B[bucket₁₂₈(j − i)]`: T5's buckets of distances (Raffel et al. 2020).
    fn buckets(&self, table: &Array, text: &str) -> Result<Array, String> {
        let (most, distance) = text.split_once('(').ok_or("no distance")?;
        let digit = |c: char| char::from_digit((c as u32).wrapping_sub(0x2080), 10);
        let most: String = most.chars().filter_map(digit).collect();
        let most: f64 = most.parse().map_err(|_| format!("{text:?} has no longest distance"))?;
        let both = match distance {
            "j − i)" => true,
            "i − j)" => false,
            _ => return Err(format!("{distance:?} is no distance")),
        };
        let (rows, columns) = table.matrix()?;
        let count = rows / if both { 2 } else { 1 };
        if count < 2 || self.shape.last().is_none_or(|&heads| heads > columns) {
            return Err(format!("{:?} is no table of distances", table.shape));
        }
        let exact = count / 2;
        let bucket = |i: usize, j: usize| {
            let (distance, base) =
                if both { (i.abs_diff(j), if j > i { count } else { 0 }) } else { (i.saturating_sub(j), 0) };
            if distance < exact {
                return base + distance;
            }
            let far = (distance as f64 / exact as f64).ln() / (most / exact as f64).ln();
            // A distance whose logarithm is a whole bucket stays in it.
            base + (exact + (far * (count - exact) as f64 + 1e-9) as usize).min(count - 1)
        };
        self.pairs(|i, j, head| table.at(bucket(i, j), head))
    }

    fn masked(&self, scores: Array, given: &Given) -> Result<Array, String> {
        if given.masks.is_empty() {
            return Ok(scores);
        }
        let is_global = |row: usize| self.global.get(row).copied().unwrap_or(false);
        let seen = |i: usize, j: usize| {
            given.masks.iter().all(|mask| match mask {
                Mask::Past => j <= i,
                Mask::Window(window) => i.abs_diff(j) <= *window,
                Mask::WindowOrGlobal(window) => i.abs_diff(j) <= *window || is_global(i) || is_global(j),
                Mask::Local => !is_global(i),
                Mask::Global => is_global(i),
            })
        };
        let mask = self.pairs(|i, j, _| if seen(i, j) { 0.0 } else { f64::NEG_INFINITY })?;
        each(&scores, &mask, |score, mask| score + mask)
    }

    fn call(&self, function: &str, inside: &[Array], given: &Given) -> Result<Array, String> {
        let x = inside.first().ok_or_else(|| format!("{function} of nothing"))?;
        let second = || inside.get(1).ok_or_else(|| format!("{function} of one value"));
        let weigh = |weight: &dyn Fn(usize, usize) -> f64| {
            let (rows, columns) = x.matrix()?;
            Array::tabulate(1, columns, |_, j| (0..rows).map(|i| weight(i, rows) * x.at(i, j)).sum())
        };
        let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match function {
            "ReLU" => Ok(x.map(|x| x.max(0.0))),
            "GELU" => Ok(x.map(gelu)),
            "GELU_tanh" => {
                let c = (2.0 / std::f64::consts::PI).sqrt();
                Ok(x.map(|x| 0.5 * x * (1.0 + (c * (x + 0.044_715 * x * x * x)).tanh())))
            }
            "SiLU" => Ok(x.map(|x| x * sigmoid(x))),
            "tanh" => Ok(x.map(f64::tanh)),
            "σ" => Ok(x.map(sigmoid)),
            "LN" => norm(x, given, true),
            "RMS" => norm(x, given, false),
            "softmax" => softmax(x),
            "RoPE" => rope(x, second()?, given),
            "adaptive" => adaptive(inside),
            "dot" => {
                let ((rows, columns), other) = (x.matrix()?, second()?);
                if other.shape != x.shape {
                    return Err(format!("{:?} beside {:?}", x.shape, other.shape));
                }
                Array::tabulate(rows, 1, |i, _| (0..columns).map(|j| x.at(i, j) * other.at(i, j)).sum())
            }
            "repeat" => {
                let (rows, columns) = x.matrix()?;
                let wanted = self.shape.first().copied().filter(|_| rows > 0).ok_or("nothing to repeat")?;
                Array::tabulate(wanted, columns, |_, j| x.at(0, j))
            }
            "lead" => {
                let ((rows, columns), (leading, width)) = (second()?.matrix()?, x.matrix()?);
                if leading == 0 || width != columns {
                    return Err(format!("{:?} before {:?}", x.shape, inside[1].shape));
                }
                Array::tabulate(rows, columns, |i, j| if i == 0 { x.at(0, j) } else { inside[1].at(i, j) })
            }
            "Σ" => weigh(&|_, _| 1.0),
            "first" => weigh(&|i, _| f64::from(u8::from(i == 0))),
            "last" => weigh(&|i, rows| f64::from(u8::from(i + 1 == rows))),
            name if name.starts_with("last_but_") => {
                let padding: u32 =
                    name["last_but_".len()..].parse().map_err(|_| format!("{name:?} names no token"))?;
                let last = self.ids.iter().rposition(|id| *id != padding).unwrap_or(0);
                weigh(&|i, _| f64::from(u8::from(i == last)))
            }
            "mean" => weigh(&|_, rows| 1.0 / rows as f64),
            "weighted_mean" => weigh(&|i, rows| (i + 1) as f64 / (rows * (rows + 1)) as f64 * 2.0),
            "max" => {
                let (rows, columns) = x.matrix()?;
                let most = |j| (0..rows).map(|i| x.at(i, j)).fold(f64::NEG_INFINITY, f64::max);
                Array::tabulate(1, columns, |_, j| most(j))
            }
            "halt" | "halted" => {
                let halts =
                    |p: f64, sum: f64| match (sum >= 1.0, sum + p > given.threshold, function == "halt") {
                        (true, _, true) => 0.0,
                        (true, _, false) => sum,
                        (false, true, true) => 1.0 - sum,
                        (false, true, false) => 1.0,
                        (false, false, true) => p,
                        (false, false, false) => sum + p,
                    };
                each(x, second()?, halts)
            }
            _ => Err(format!("nobody knows the function {function}")),
        }
    }
}

/// `A · V`, head by head: `[queries, keys, heads]` shares of values whose columns the heads divide among them.
fn mixed(a: &Array, b: &Array, all: usize) -> Result<Array, String> {
    let (&[queries, keys, heads], (_, width)) = (&a.shape[..], b.matrix()?) else {
        return Err(format!("{:?} · {:?}", a.shape, b.shape));
    };
    let size = all.checked_div(heads).filter(|&size| size > 0 && size * heads == all);
    let kept = size.filter(|size| width > 0 && width.is_multiple_of(*size)).map(|size| (size, width / size));
    let shared =
        kept.filter(|(_, kept)| heads.is_multiple_of(*kept)).map(|(size, kept)| (size, heads / kept));
    let (size, shared) = shared.ok_or_else(|| format!("{heads} heads of {width} numbers give no {all}"))?;
    let (a, b) = (a.data(), b.data());
    let mut data = vec![0.0; room(&[queries, all])?];
    for (i, row) in data.chunks_mut(all).enumerate() {
        for j in 0..keys {
            for head in 0..heads {
                let share = a[(i * keys + j) * heads + head];
                let from = j * width + head / shared * size;
                let own = &mut row[head * size..(head + 1) * size];
                own.iter_mut().zip(&b[from..from + size]).for_each(|(y, x)| *y += share * x);
            }
        }
    }
    Ok(Array::new(&[queries, all], data))
}

/// `Q · Kᵀ`, head by head.
fn met(a: &Array, b: &Array, heads: usize) -> Result<Array, String> {
    let ((queries, width), (own, keys)) = (a.matrix()?, b.matrix()?);
    let size = width.checked_div(heads).filter(|&size| size > 0 && size * heads == width);
    let kept = size.filter(|size| own > 0 && own.is_multiple_of(*size)).map(|size| (size, own / size));
    let shared =
        kept.filter(|(_, kept)| heads.is_multiple_of(*kept)).map(|(size, kept)| (size, heads / kept));
    let (size, shared) = shared.ok_or_else(|| format!("{heads} heads: {:?} · {:?}", a.shape, b.shape))?;
    let (a, b) = (a.data(), b.transposed()?);
    let b = b.data();
    let mut data = Vec::with_capacity(room(&[queries, keys, heads])?);
    for i in 0..queries {
        for j in 0..keys {
            data.extend((0..heads).map(|head| {
                let query = &a[i * width + head * size..][..size];
                let key = &b[j * own + head / shared * size..][..size];
                query.iter().zip(key).map(|(x, y)| x * y).sum::<f64>()
            }));
        }
    }
    Ok(Array::new(&[queries, keys, heads], data))
}

/// Columns side by side.
fn beside(all: &[Array]) -> Result<Array, String> {
    let rows = all.first().ok_or("nothing stands in brackets")?.matrix()?.0;
    if rows == 0 || all.iter().any(|part| part.matrix().map_or(true, |(other, _)| other != rows)) {
        return Err("rows of different numbers stand side by side".to_owned());
    }
    let data: Vec<f64> = (0..rows).flat_map(|i| all.iter().flat_map(move |part| part.row(i))).collect();
    Ok(Array::new(&[rows, data.len() / rows], data))
}

/// Rows one after the other.
fn below(all: &[Array]) -> Result<Array, String> {
    let columns = all.last().ok_or("nothing stands in brackets")?.matrix()?.1;
    if columns == 0 || all.iter().any(|part| part.matrix().map_or(true, |(_, other)| other != columns)) {
        return Err("rows of different lengths stand one after the other".to_owned());
    }
    let data: Vec<f64> = all.iter().flat_map(|part| part.data().into_owned()).collect();
    Ok(Array::new(&[data.len() / columns, columns], data))
}

/// Number by number. What has one row is there for all rows, what has fewer columns for all columns in turn.
pub(super) fn each(a: &Array, b: &Array, f: impl Fn(f64, f64) -> f64) -> Result<Array, String> {
    let larger = if a.len() >= b.len() { a } else { b };
    let place = |part: &Array, k: usize| match (&part.shape[..], &larger.shape[..]) {
        ([], _) => Some(0),
        (own, all) if own == all => Some(k),
        ([rows, columns], [all, width]) if (rows == all || *rows == 1) && width.is_multiple_of(*columns) => {
            Some((k / width) % rows * columns + k % width % columns)
        }
        _ => None,
    };
    let (x, y) = (a.data(), b.data());
    let data = (0..larger.len()).map(|k| Some(f(x[place(a, k)?], y[place(b, k)?])));
    let data = data.collect::<Option<Vec<f64>>>();
    Ok(Array::new(&larger.shape, data.ok_or_else(|| format!("{:?} beside {:?}", a.shape, b.shape))?))
}
