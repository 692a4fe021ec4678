//! A line's right side in `f64`, from the numbers that its symbols stand for: written from the papers, without the engine.

use std::collections::HashMap;

use super::parse::{self, Expr};

/// Numbers row by row: a matrix, or `[queries, keys, heads]`; without axes a single number.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

/// What a line is about.
pub struct World {
    /// The token ids of the side that the line belongs to, their types, and which rows are global.
    pub ids: Vec<u32>,
    pub types: Vec<u32>,
    pub global: Vec<bool>,
    /// What its symbols stand for.
    pub operands: HashMap<String, Array>,
    /// The shape of what it should give.
    pub shape: Vec<usize>,
}

impl Array {
    pub fn new(shape: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "{shape:?}");
        Self { shape: shape.to_vec(), data }
    }

    fn number(x: f64) -> Self {
        Self { shape: Vec::new(), data: vec![x] }
    }

    fn tabulate(rows: usize, columns: usize, at: impl Fn(usize, usize) -> f64) -> Self {
        let data = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| at(i, j));
        Self { shape: vec![rows, columns], data: data.collect() }
    }

    fn matrix(&self) -> Result<(usize, usize), String> {
        match self.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(format!("{:?} is no matrix", self.shape)),
        }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.shape[1] + j]
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.shape[1]..(i + 1) * self.shape[1]]
    }

    fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        self.data.iter_mut().for_each(|x| *x = f(*x));
        self
    }

    pub fn transposed(&self) -> Result<Self, String> {
        let (rows, columns) = self.matrix()?;
        Ok(Self::tabulate(columns, rows, |i, j| self.at(j, i)))
    }

    fn each_row(&self, f: impl Fn(&[f64]) -> Vec<f64>) -> Result<Self, String> {
        let (rows, _) = self.matrix()?;
        let data: Vec<f64> = (0..rows).flat_map(|i| f(self.row(i))).collect();
        Ok(Self { shape: vec![rows, data.len() / rows.max(1)], data })
    }
}

/// What stands behind the commas of a line.
#[derive(Default)]
struct Given {
    heads: usize,
    epsilon: f64,
    threshold: f64,
    /// Columns, or ids, from and to which the line holds.
    range: Option<(usize, usize)>,
    pairs: Option<Pairs>,
    /// The token that is not counted.
    padding: Option<u32>,
    magnitude: f64,
    masks: Vec<Mask>,
}

enum Pairs {
    Neighbours,
    Apart(usize),
}

enum Mask {
    Past,
    Window(usize),
    WindowOrGlobal(usize),
    Local,
    Global,
}

impl Given {
    fn of(conditions: &[String]) -> Result<Self, String> {
        let mut given = Self { heads: 1, magnitude: 1.0, ..Self::default() };
        for text in conditions {
            let whole =
                |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no whole number"));
            let real = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is no number"));
            if let Some(heads) = text.strip_prefix("h = ") {
                given.heads = whole(heads)?;
            } else if text.starts_with("h_kv = ") {
                // As many as the keys have room for.
            } else if let Some(epsilon) = text.strip_prefix("ε = ") {
                given.epsilon = real(epsilon)?;
            } else if let Some(threshold) = text.strip_prefix("τ = ") {
                given.threshold = real(threshold)?;
            } else if let Some(magnitude) = text.strip_prefix("× ") {
                given.magnitude = real(magnitude)?;
            } else if text == "2i ↔ 2i + 1" {
                given.pairs = Some(Pairs::Neighbours);
            } else if let Some(apart) = text.strip_prefix("i ↔ i + ") {
                given.pairs = Some(Pairs::Apart(whole(apart)?));
            } else if text == "j ≤ i" {
                given.masks.push(Mask::Past);
            } else if let Some(window) = text.strip_prefix("|i − j| ≤ ") {
                given.masks.push(match window.strip_suffix(" ∨ gᵢ ∨ gⱼ") {
                    Some(window) => Mask::WindowOrGlobal(whole(window)?),
                    None => Mask::Window(whole(window)?),
                });
            } else if text == "¬gᵢ" {
                given.masks.push(Mask::Local);
            } else if text == "gᵢ" {
                given.masks.push(Mask::Global);
            } else if let Some(rest) = text.strip_prefix("cᵢ = [tᵢ ≠ ") {
                let padding = rest.split_once(']').and_then(|(id, _)| id.parse().ok());
                let padding: u32 = padding.ok_or_else(|| format!("{text:?} names no token"))?;
                if *text != format!("cᵢ = [tᵢ ≠ {padding}] · Σ_(j ≤ i) [tⱼ ≠ {padding}]") {
                    return Err(format!("{text:?} counts otherwise"));
                }
                given.padding = Some(padding);
            } else if let Some((from, to)) = text.split_once(" ≤ k < ").or(text.split_once(" ≤ t < ")) {
                given.range = Some((whole(from)?, whole(to)?));
            } else {
                return Err(format!("nobody can know what {text:?} means"));
            }
        }
        Ok(given)
    }
}

/// What the line `text` says.
pub fn evaluate(text: &str, world: &World) -> Result<Array, String> {
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
            Array::tabulate(rows, columns, |i, j| {
                if (from..to).contains(&j) { value.at(i, j) } else { whole.at(i, j) }
            })
        }
        _ => value,
    };
    let value = world.masked(value, &given)?;
    let count = world.shape.iter().product();
    Ok(if value.shape.is_empty() { Array::new(&world.shape, vec![value.data[0]; count]) } else { value })
}

/// `P[p, 2i] = sin θ, P[p, 2i + 1] = cos θ, θ = p / 10000^(2i / 8)`.
fn waves(text: &str, world: &World) -> Result<Array, String> {
    let parts = parse::split(text, ',');
    let [sine, cosine, angle, conditions @ ..] = &parts[..] else { return Err(format!("{text:?}")) };
    let (zeros, conditions) = match conditions {
        [conditions @ .., last] if last == "0 where c = 0" => (true, conditions),
        conditions => (false, conditions),
    };
    let given = Given::of(conditions)?;
    let column = |part: &str, wave: &str| -> Result<(usize, usize), String> {
        let inside = part.split_once("[p, ").and_then(|(_, rest)| rest.split_once(&format!("] = {wave} θ")));
        let inside = inside.ok_or_else(|| format!("{part:?} is no {wave}"))?.0;
        let (step, offset) = inside.split_once(" + ").unwrap_or((inside, "0"));
        let step = match step {
            "i" => 1,
            "2i" => 2,
            _ => return Err(format!("{inside:?} is no column")),
        };
        Ok((step, offset.parse().map_err(|_| format!("{inside:?}"))?))
    };
    let ((step, first), (_, second)) = (column(sine, "sin")?, column(cosine, "cos")?);
    let angle = angle.strip_prefix("θ = ").ok_or_else(|| format!("{angle:?}"))?;
    let (place, wave) = angle.split_once(" / ").ok_or_else(|| format!("{angle:?}"))?;
    let (base, exponent) = wave.split_once("^(").ok_or_else(|| format!("{wave:?}"))?;
    let (above, below) =
        exponent.trim_end_matches(')').split_once(" / ").ok_or_else(|| format!("{wave:?}"))?;
    let real = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is no number"));
    let (base, below) = (real(base)?, real(below)?);
    let times = if above == "2i" { 2.0 } else { 1.0 };
    let (place, most) = match place.strip_prefix("min(") {
        Some(inside) => {
            let (place, most) = inside.trim_end_matches(')').split_once(", ").ok_or("no minimum")?;
            (place, real(most)?)
        }
        None => (place, f64::INFINITY),
    };
    let place = place.trim_matches(|c| matches!(c, '(' | ')'));
    let counts = place.starts_with('c');
    let start = place.trim_start_matches(['p', 'c']).trim_start_matches(" + ").replace("− ", "-");
    let start = if start.is_empty() { 0.0 } else { real(start.trim())? };
    if counts != given.padding.is_some() {
        return Err(format!("{text:?} does not say what c is"));
    }
    let [rows, columns] = world.shape[..] else { return Err("waves are no matrix".to_owned()) };
    let mut found = Array::tabulate(rows, columns, |_, _| 0.0);
    for p in 0..rows {
        let counted = given.padding.map_or(p, |padding| world.counted(p, padding));
        if zeros && counted == 0 {
            continue;
        }
        let place = (counted as f64 + start).min(most);
        for i in 0..columns / 2 {
            let theta = place / base.powf(times * i as f64 / below);
            found.data[p * columns + step * i + first] = theta.sin();
            found.data[p * columns + step * i + second] = theta.cos();
        }
    }
    Ok(found)
}

impl World {
    /// The place of row `row` among those whose token is not `padding`, from 1 on; 0 where its own is.
    fn counted(&self, row: usize, padding: u32) -> usize {
        if self.ids[row] == padding {
            0
        } else {
            self.ids[..=row].iter().filter(|id| **id != padding).count()
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
            Expr::Beside(all) => {
                let all = all.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                let rows = all[0].matrix()?.0;
                let data = (0..rows).flat_map(|i| all.iter().flat_map(move |part| part.row(i).to_vec()));
                let data: Vec<f64> = data.collect();
                Ok(Array::new(&[rows, data.len() / rows], data))
            }
            Expr::Below(all) => {
                let all = all.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                let data: Vec<f64> = all.iter().flat_map(|part| part.data.clone()).collect();
                let columns = all[all.len() - 1].matrix()?.1;
                Ok(Array::new(&[data.len() / columns, columns], data))
            }
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
        let mut data = Vec::with_capacity(queries * keys * heads);
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
            ([1, _], [_, _, heads], _) => {
                let mut all = b.clone();
                all.data.iter_mut().enumerate().for_each(|(k, x)| *x *= a.data[k % heads]);
                Ok(all)
            }
            // A · V, head by head.
            ([queries, keys, heads], [rows, width], [_, all]) if rows == keys => {
                let size = all / heads;
                let shared = heads / (width / size);
                Ok(Array::tabulate(*queries, *all, |i, column| {
                    let (head, d) = (column / size, column % size);
                    let share = |j: usize| a.data[(i * keys + j) * heads + head];
                    (0..*keys).map(|j| share(j) * b.at(j, head / shared * size + d)).sum()
                }))
            }
            // Q · Kᵀ, head by head.
            ([queries, width], [_, keys], [_, _, heads]) => {
                if given.heads != *heads {
                    return Err(format!("{} heads are written, {heads} are there", given.heads));
                }
                let size = width / heads;
                let shared = heads * size / b.shape[0];
                let mut data = Vec::new();
                for i in 0..*queries {
                    for j in 0..*keys {
                        data.extend((0..*heads).map(|head| {
                            let own = |d: usize| a.at(i, head * size + d) * b.at(head / shared * size + d, j);
                            (0..size).map(own).sum::<f64>()
                        }));
                    }
                }
                Ok(Array::new(&[*queries, *keys, *heads], data))
            }
            ([rows, inner], [other, columns], _) if inner == other => {
                Ok(Array::tabulate(*rows, *columns, |i, j| {
                    (0..*inner).map(|k| a.at(i, k) * b.at(k, j)).sum()
                }))
            }
            _ => Err(format!("{:?} · {:?}", a.shape, b.shape)),
        }
    }

    fn index(&self, of: &Array, place: &str, given: &Given) -> Result<Array, String> {
        if let Some(rest) = place.strip_prefix("bucket") {
            return self.buckets(of, rest);
        }
        if place == "i − j" {
            let [_, distances, heads] = of.shape[..] else { return Err("these are no scores".to_owned()) };
            let before = self.shape[1] - self.shape[0];
            let at = |i: usize, j: usize, head: usize| {
                let distance = i.checked_sub(j)?;
                of.data.get(((i - before) * distances + distance) * heads + head).copied()
            };
            return self.pairs(|i, j, head| at(i, j, head).unwrap_or(0.0));
        }
        let (_, columns) = of.matrix()?;
        if place == ":n" {
            return of.each_row(|row| row[..self.ids.len()].to_vec());
        }
        let (what, shift) = match (place.split_once(" + "), place.split_once(" − ")) {
            (Some((what, by)), _) => (what, by.parse::<i64>().map_err(|_| format!("{place:?}"))?),
            (_, Some((what, by))) => (what, -by.parse::<i64>().map_err(|_| format!("{place:?}"))?),
            (None, None) => (place, 0),
        };
        let mut data = Vec::new();
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
            match found.filter(|&found| found < of.shape[0]) {
                Some(found) => data.extend_from_slice(of.row(found)),
                None if inside => return Err(format!("there is no row {place} of {:?}", of.shape)),
                None => data.extend(vec![0.0; columns]),
            }
        }
        Ok(Array::new(&[self.ids.len(), columns], data))
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
        let count = table.shape[0] / if both { 2 } else { 1 };
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

    fn masked(&self, mut scores: Array, given: &Given) -> Result<Array, String> {
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
        scores.data.iter_mut().zip(mask.data).for_each(|(score, mask)| *score += mask);
        Ok(scores)
    }

    fn call(&self, function: &str, inside: &[Array], given: &Given) -> Result<Array, String> {
        let x = &inside[0];
        let weigh = |weight: &dyn Fn(usize, usize) -> f64| {
            let (rows, columns) = x.matrix()?;
            let sum = |j| (0..rows).map(|i| weight(i, rows) * x.at(i, j)).sum();
            Ok(Array::tabulate(1, columns, |_, j| sum(j)))
        };
        let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match function {
            "ReLU" => Ok(x.clone().map(|x| x.max(0.0))),
            "GELU" => Ok(x.clone().map(gelu)),
            "GELU_tanh" => {
                let c = (2.0 / std::f64::consts::PI).sqrt();
                Ok(x.clone().map(|x| 0.5 * x * (1.0 + (c * (x + 0.044_715 * x * x * x)).tanh())))
            }
            "SiLU" => Ok(x.clone().map(|x| x * sigmoid(x))),
            "tanh" => Ok(x.clone().map(f64::tanh)),
            "σ" => Ok(x.clone().map(sigmoid)),
            "LN" => norm(x, given, true),
            "RMS" => norm(x, given, false),
            "softmax" => softmax(x),
            "RoPE" => rope(x, &inside[1], given),
            "adaptive" => adaptive(inside),
            "dot" => {
                let (rows, columns) = x.matrix()?;
                let dot = |i| (0..columns).map(|j| x.at(i, j) * inside[1].at(i, j)).sum();
                Ok(Array::tabulate(rows, 1, |i, _| dot(i)))
            }
            "repeat" => Ok(Array::tabulate(self.shape[0], x.matrix()?.1, |_, j| x.at(0, j))),
            "lead" => {
                let (rows, columns) = inside[1].matrix()?;
                Ok(Array::tabulate(
                    rows,
                    columns,
                    |i, j| if i == 0 { x.at(0, j) } else { inside[1].at(i, j) },
                ))
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
                Ok(Array::tabulate(1, columns, |_, j| most(j)))
            }
            "halt" | "halted" => {
                let halts = |k: usize| {
                    let (p, sum) = (x.data[k], inside[1].data[k]);
                    match (sum >= 1.0, sum + p > given.threshold, function == "halt") {
                        (true, _, true) => 0.0,
                        (true, _, false) => sum,
                        (false, true, true) => 1.0 - sum,
                        (false, true, false) => 1.0,
                        (false, false, true) => p,
                        (false, false, false) => sum + p,
                    }
                };
                Ok(Array::new(&x.shape, (0..x.data.len()).map(halts).collect()))
            }
            _ => Err(format!("nobody knows the function {function}")),
        }
    }
}

/// Each row, cut into as many parts as there are heads.
fn norm(x: &Array, given: &Given, centred: bool) -> Result<Array, String> {
    x.each_row(|row| {
        let parts = row.chunks(row.len() / given.heads);
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

/// Number by number. What has one row is there for all rows, what has fewer columns for all columns in turn.
fn each(a: &Array, b: &Array, f: impl Fn(f64, f64) -> f64) -> Result<Array, String> {
    let larger = if a.data.len() >= b.data.len() { a } else { b };
    let place = |part: &Array, k: usize| match (&part.shape[..], &larger.shape[..]) {
        ([], _) => Some(0),
        (own, all) if own == all => Some(k),
        ([rows, columns], [all, width]) if (rows == all || *rows == 1) && width % columns == 0 => {
            Some((k / width) % rows * columns + k % width % columns)
        }
        _ => None,
    };
    let data = (0..larger.data.len()).map(|k| Some(f(a.data[place(a, k)?], b.data[place(b, k)?])));
    let data = data.collect::<Option<Vec<f64>>>();
    Ok(Array::new(&larger.shape, data.ok_or_else(|| format!("{:?} beside {:?}", a.shape, b.shape))?))
}

/// Along keys for scores, along the row else. Where nothing is seen nothing has a share.
fn softmax(x: &Array) -> Result<Array, String> {
    let (outer, many, inner) = match x.shape[..] {
        [rows, columns] => (rows, columns, 1),
        [queries, keys, heads] => (queries, keys, heads),
        _ => return Err(format!("softmax of {:?}", x.shape)),
    };
    let mut y = x.clone();
    for (i, h) in (0..outer).flat_map(|i| (0..inner).map(move |h| (i, h))) {
        let at = |j: usize| (i * many + j) * inner + h;
        let most = (0..many).map(|j| x.data[at(j)]).fold(f64::NEG_INFINITY, f64::max);
        let weight = |j: usize| if most.is_finite() { (x.data[at(j)] - most).exp() } else { 0.0 };
        let sum: f64 = (0..many).map(weight).sum();
        (0..many).for_each(|j| y.data[at(j)] = if sum > 0.0 { weight(j) / sum } else { 0.0 });
    }
    Ok(y)
}

/// Su et al. 2021: pairs of each head's numbers turn by p · ω.
fn rope(x: &Array, turns: &Array, given: &Given) -> Result<Array, String> {
    let (rows, width) = x.matrix()?;
    let size = width / given.heads;
    let mut y = x.clone();
    for p in 0..rows {
        for head in 0..given.heads {
            for (i, turn) in turns.data.iter().enumerate() {
                let (first, second) = match given.pairs {
                    Some(Pairs::Neighbours) => (2 * i, 2 * i + 1),
                    Some(Pairs::Apart(apart)) => (i, i + apart),
                    None => return Err("nothing says what forms a pair".to_owned()),
                };
                let (at, to) = (p * width + head * size + first, p * width + head * size + second);
                let (sine, cosine) = (p as f64 * turn).sin_cos();
                y.data[at] = given.magnitude * (x.data[at] * cosine - x.data[to] * sine);
                y.data[to] = given.magnitude * (x.data[to] * cosine + x.data[at] * sine);
            }
        }
    }
    Ok(y)
}

/// Grave et al. 2016: the first words compete with the clusters, the words of a cluster with each other; as logarithms.
fn adaptive(inside: &[Array]) -> Result<Array, String> {
    let log_softmax = |row: &[f64]| -> Vec<f64> {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = most + row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
        row.iter().map(|x| x - sum).collect()
    };
    let (rows, first) = inside[0].matrix()?;
    let mut data = Vec::new();
    for row in 0..rows {
        let clusters = inside.get(1).map_or(&[][..], |clusters| clusters.row(row));
        let all = log_softmax(&[inside[0].row(row), clusters].concat());
        data.extend_from_slice(&all[..first]);
        for (words, cluster) in inside.iter().skip(2).zip(&all[first..]) {
            data.extend(log_softmax(words.row(row)).iter().map(|x| cluster + x));
        }
    }
    Ok(Array::new(&[rows, data.len() / rows], data))
}
