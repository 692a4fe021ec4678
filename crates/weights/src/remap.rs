//! Following rules: weights made of weights, without reading a number.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::clip;
use crate::rules::{Action, Pairing, Rule, Rules, fill, matches};
use crate::stored::Stored;
use crate::walk::Walk;
use crate::{Error, Weights};

/// What became of weights under rules.
#[derive(Debug)]
pub struct Remapped {
    /// The tensors that some rule named, under their new names. Their numbers still lie where they lay.
    pub weights: Weights,
    /// The names, in the old weights, of the tensors that these are made of.
    pub used: Vec<String>,
    /// The names of those that a rule left out: dropped, or replaced by a tie.
    pub dropped: Vec<String>,
    /// The names of those that no rule was for. They are not in the new weights.
    pub left: Vec<String>,
}

/// A tensor on its way.
#[derive(Clone)]
struct Held<'w> {
    stored: Stored,
    /// What it was called at first.
    origin: &'w str,
    /// Whether a rule was for it.
    named: bool,
}

impl Weights {
    /// New weights by rules. Views of them read from the same files; cuts, turns and sums are done when their values are
    /// asked for. Only tensors that a rule is for are in them: what is left over is reported instead.
    ///
    /// # Errors
    /// [`Error::Rule`] if two tensors would have one name, or a tensor cannot be divided as a rule wants.
    pub fn remap(&self, rules: &Rules) -> Result<Remapped, Error> {
        let mut held = BTreeMap::new();
        for (origin, stored) in &self.tensors {
            held.insert(origin.clone(), Held { stored: stored.clone(), origin, named: false });
        }
        let mut dropped = BTreeSet::new();
        for rule in &rules.0 {
            dropped.extend(follow(rule, &mut held)?);
        }
        let (named, left): (Vec<_>, Vec<_>) = held.into_iter().partition(|(_, held)| held.named);
        let used: BTreeSet<&str> = named.iter().map(|(_, held)| held.origin).collect();
        let left: BTreeSet<&str> = left.iter().map(|(_, held)| held.origin).collect();
        let unused = |names: BTreeSet<&str>| names.difference(&used).map(|&name| name.to_owned()).collect();
        let (dropped, left) = (unused(dropped), unused(left));
        let used = used.iter().map(|&name| name.to_owned()).collect();
        let tensors = named.into_iter().map(|(name, held)| (name, held.stored)).collect();
        Ok(Remapped { weights: Self { tensors, ..self.clone() }, used, dropped, left })
    }
}

/// Does what a rule says, and gives the origins of the tensors that are gone then.
fn follow<'w>(rule: &Rule, held: &mut BTreeMap<String, Held<'w>>) -> Result<Vec<&'w str>, Error> {
    let error = |name: &str, reason: String| Error::Rule {
        pattern: rule.pattern.clone(),
        name: clip(name),
        reason: clip(&reason),
    };
    let names: Vec<String> =
        held.keys().filter(|name| matches(&rule.pattern, name).is_some()).cloned().collect();
    let mut made: BTreeMap<String, Held> = BTreeMap::new();
    let mut gone = Vec::new();
    for name in names {
        let found = matches(&rule.pattern, &name).unwrap_or_default();
        let results =
            apply(&rule.action, &name, &found, &held[&name].stored).map_err(|reason| error(&name, reason))?;
        let Held { origin, named, .. } = held[&name];
        // A tie leaves the tensor itself what it was.
        if !matches!(rule.action, Action::Tie(_)) {
            held.remove(&name);
        }
        if results.is_empty() {
            gone.push(origin);
        }
        let named = named || matches!(rule.action, Action::Rename(_) | Action::Split { .. } | Action::Tie(_));
        for (new, stored) in results {
            if let Some(other) = made.insert(new.clone(), Held { stored, origin, named }) {
                return Err(error(&name, format!("{:?} made another tensor {new:?}", clip(other.origin))));
            }
        }
    }
    for (name, new) in made {
        match (&rule.action, held.insert(name.clone(), new)) {
            (_, None) => {}
            (Action::Tie(_), Some(old)) => gone.push(old.origin),
            (_, Some(old)) => return Err(error(old.origin, format!("there already is a tensor {name:?}"))),
        }
    }
    Ok(gone)
}

/// What one tensor becomes: names and tensors, or the reason why it cannot.
fn apply(
    action: &Action,
    name: &str,
    found: &[&str],
    stored: &Stored,
) -> Result<Vec<(String, Stored)>, String> {
    let shape = &stored.shape;
    let one = |name: String, stored: Stored| Ok(vec![(name, stored)]);
    match action {
        Action::Rename(new) | Action::Tie(new) => one(fill(new, found)?, stored.clone()),
        Action::Drop => Ok(Vec::new()),
        Action::Transpose => match stored.rewalked(&Walk::transposed) {
            Some(turned) => one(name.into(), turned),
            None => Err(format!("shape {shape:?} has no two dimensions to exchange")),
        },
        Action::Split { groups, parts } => split(*groups, parts, found, stored),
        Action::Rotary { heads, to } => {
            let size = shape.first().copied().unwrap_or(0) / (*heads).max(1);
            let inner = match to {
                Pairing::Halves => 2,
                Pairing::Neighbours => size / 2,
            };
            match stored.rewalked(&|walk| walk.regrouped(*heads, inner).filter(|_| size.is_multiple_of(2))) {
                Some(rows) => one(name.into(), rows),
                None => Err(format!("the rows of shape {shape:?} are not {heads} heads of pairs")),
            }
        }
        Action::Add(constant) => one(name.into(), stored.shifted(*constant)),
    }
}

fn split(
    groups: usize,
    parts: &[(String, usize)],
    found: &[&str],
    stored: &Stored,
) -> Result<Vec<(String, Stored)>, String> {
    let shares: usize = parts.iter().map(|&(_, share)| share).sum();
    let rows = stored.shape.first().copied().unwrap_or(0);
    let undivided =
        || format!("the rows of shape {:?} are not {groups} groups of {shares} shares", stored.shape);
    let pieces = groups.checked_mul(shares).filter(|&pieces| pieces != 0 && rows.is_multiple_of(pieces));
    let unit = rows / pieces.ok_or_else(undivided)?;
    let mut from = 0;
    let mut made = Vec::new();
    for (name, share) in parts {
        let count = share * unit;
        let part = stored.rewalked(&|walk| walk.part(groups, from, count)).ok_or_else(undivided)?;
        made.push((fill(name, found)?, part));
        from += count;
    }
    Ok(made)
}
