//! A page with the curves of a training: one file, nothing fetched from anywhere.

use std::fmt::Write;

use crate::config::Config;
use crate::log::Entry;

/// The size of a plot and of its margins, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const BELOW: f64 = 30.0;

/// The most points of a curve: more are averaged, since nobody sees them.
const POINTS: usize = 400;

/// A curve: its name, its colour, its points.
struct Curve {
    name: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// The page for a log.
pub fn report(config: &Config, entries: &[Entry]) -> String {
    let mut losses = Vec::new();
    let (mut rates, mut speeds, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        match *entry {
            Entry::Step { step, loss, rate, rows, seconds, .. } => {
                losses.extend(loss.map(|loss| (step as f64, f64::from(loss))));
                rates.push((step as f64, f64::from(rate)));
                speeds.push((step as f64, rows as f64 / seconds.max(1e-9)));
            }
            Entry::Check { step, valid, .. } => checks.extend(valid.map(|valid| (step as f64, valid))),
        }
    }
    let best = checks.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let curve = |name, colour, points: &[(f64, f64)]| Curve { name, colour, points: thin(points) };
    let seconds: f64 = entries
        .iter()
        .map(|entry| match entry {
            Entry::Step { seconds, .. } => *seconds,
            Entry::Check { .. } => 0.0,
        })
        .sum();
    let mut page = String::from(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>Training</title>\n<style>body{font:15px/1.5 system-ui,sans-serif;max-width:900px;\
         margin:2em auto;padding:0 1em;color:#222}svg{background:#fafafa;border:1px solid #ddd}text{font:12px system-ui,sans-serif;fill:#555}\
         @media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg{background:#222;border-color:#444}text{fill:#aaa}}</style>\n",
    );
    let last = losses.last().copied().unwrap_or_default();
    let _ = writeln!(page, "<h1>{}</h1>", escape(&config.out.display().to_string()));
    let _ = writeln!(
        page,
        "<p>{} of {} steps, {:.1} minutes in steps; the last loss is {:.4}.",
        last.0,
        config.schedule.steps,
        seconds / 60.0,
        last.1
    );
    if let Some((step, loss)) = best {
        let _ = writeln!(
            page,
            " The lowest loss on other data is {loss:.4} (perplexity {:.2}), after step {step}.",
            loss.exp()
        );
    }
    page += "</p>\n";
    page +=
        &plot("Loss", &[curve("learned from", "#3a7bd5", &losses), curve("other data", "#d5503a", &checks)]);
    page += &plot("Learning rate", &[curve("rate", "#5a9a3a", &rates)]);
    page += &plot("Rows with labels in a second", &[curve("speed", "#8a5ad5", &speeds)]);
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Means over stretches of equal length.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> = points.iter().copied().filter(|(_, y)| y.is_finite()).collect();
    let stretch = finite.len().div_ceil(POINTS).max(1);
    let mean = |part: &[(f64, f64)]| {
        let count = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / count, part.iter().map(|p| p.1).sum::<f64>() / count)
    };
    finite.chunks(stretch).map(mean).collect()
}

fn plot(title: &str, curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = all().map(of).fold(f64::INFINITY, f64::min);
        let high = all().map(of).fold(f64::NEG_INFINITY, f64::max);
        if high > low { (low, high) } else { (low - 0.5, low + 0.5) }
    };
    if all().next().is_none() {
        return String::new();
    }
    let (left, right) = (0.0, range(|p| p.0).1);
    let (low, high) = range(|p| p.1);
    let x = |value: f64| LEFT + (value - left) / (right - left) * (WIDTH - LEFT - 10.0);
    let y = |value: f64| 10.0 + (high - value) / (high - low) * (HEIGHT - BELOW - 10.0);
    let mut svg = format!("<h2>{title}</h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"100%\">\n");
    for at in ticks(low, high) {
        let (place, end) = (y(at), WIDTH - 10.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{place:.1}\" y2=\"{place:.1}\" stroke=\"#8883\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            place + 4.0,
            short(at)
        );
    }
    for step in ticks(left, right) {
        // The last number must not hang over the edge.
        let anchor = if x(step) > WIDTH - 40.0 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{step:.0}</text>",
            x(step),
            HEIGHT - 8.0
        );
    }
    for (number, curve) in curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty()) {
        let points: Vec<String> =
            curve.points.iter().map(|&(step, value)| format!("{:.1},{:.1}", x(step), y(value))).collect();
        let place = 24.0 + 18.0 * number as f64;
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/><text x=\"{}\" y=\"{place}\" style=\"fill:{}\">{}</text>",
            curve.colour,
            points.join(" "),
            WIDTH - 120.0,
            curve.colour,
            curve.name
        );
    }
    svg + "</svg>\n"
}

/// Round numbers between two others, about five.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let count = |value: f64| (value / step * (1.0 + f64::EPSILON)) as i64;
    let first = if low > 0.0 { (low / step).ceil() as i64 } else { count(low) };
    (first..=count(high)).map(|at| at as f64 * step).collect()
}

/// A number in few letters.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 0.1 || value == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_both_curves_and_survives_losses_that_are_not_finite() {
        let config = Config::parse(
            "out = \"<run>\"\nobjective = \"generate\"\nmodel.formula = \"f\"\ndata.train = [{ path = \"a.txt\" }]\nschedule = { steps = 2000, rate = 1.0 }",
            "c",
        )
        .unwrap();
        let step = |step| Entry::Step {
            step,
            loss: (step != 7).then(|| 5.0 / step as f32),
            rate: 0.1,
            length: None,
            rows: 10,
            seconds: 0.5,
        };
        let mut entries: Vec<Entry> = (1..=1000).map(step).collect();
        entries.push(Entry::Check { step: 1000, valid: Some(1.5), accuracy: 0.5 });
        let page = report(&config, &entries);
        assert!(page.contains("1000 of 2000 steps") && page.contains("perplexity 4.48"), "{page}");
        assert!(page.contains("&lt;run>") && !page.contains("NaN"));
        assert_eq!(page.matches("<polyline").count(), 4);
    }

    #[test]
    fn ticks_are_round_numbers_within_the_range() {
        assert_eq!(ticks(0.0, 2000.0), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(ticks(1.6, 4.48), [2.0, 3.0, 4.0]);
        assert_eq!(ticks(-0.5, 0.5), [-0.4, -0.2, 0.0, 0.2, 0.4]);
        assert_eq!(ticks(7391.0, 11496.0), [8000.0, 9000.0, 10000.0, 11000.0]);
    }
}
