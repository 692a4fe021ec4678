//! How rows come in: tables, their clusters and widths, and patches.

use super::{Place, Report, limits};
use crate::half::Half;
use crate::types::{Clusters, Input, Patches, Side, Table, Tokens};

pub(super) fn check(report: &mut Report, place: &Place<'_>, side: &Side) {
    match &side.input {
        Input::Tokens(given) => tokens(report, place, given, side.stack.width),
        Input::Patches(given) => patches(report, place, given),
    }
}

fn tokens(report: &mut Report, place: &Place<'_>, given: &Tokens, width: usize) {
    let at = format!("{}.input.tokens", place.half.name());
    report.size(format!("{at}.vocabulary"), given.vocabulary, limits::VOCABULARY);
    if let Some(width) = given.width {
        report.size(format!("{at}.width"), width, limits::WIDTH);
    }
    if let Some(given_clusters) = &given.clusters {
        let at = format!("{at}.clusters");
        clusters(report, &at, given_clusters, (given.vocabulary, width));
        if given.width.is_some() {
            report.refuse(
                at,
                "every cluster has a width and a projection of its own, so the input cannot have another",
                "leave out the input's width, or the clusters",
            );
        }
    }
    if let Some(types) = given.types {
        report.size(format!("{at}.types"), types, limits::VOCABULARY);
    }
    report.norm(&format!("{at}.norm"), given.norm);
    match given.table {
        Table::Own => {}
        Table::Source => shared_table(report, place, given, &at),
    }
}

fn shared_table(report: &mut Report, place: &Place<'_>, given: &Tokens, at: &str) {
    let field = format!("{at}.table");
    let own = "write table = \"own\"";
    let other = match (place.half, &place.formula.source) {
        (Half::Source, _) => {
            return report.refuse(field, "the source cannot borrow its table from itself", own);
        }
        (Half::Target, None) => {
            return report.refuse(field, "there is no source to borrow a table from", own);
        }
        (Half::Target, Some(side)) => side,
    };
    let lender = match &other.input {
        Input::Tokens(lender) => lender,
        Input::Patches(_) => return report.refuse(field, "the source reads patches and has no table", own),
    };
    if lender.clusters.is_some() || given.clusters.is_some() {
        return report.refuse(field, "clusters have many tables, and one table cannot be borrowed", own);
    }
    if lender.vocabulary != given.vocabulary {
        report.refuse(
            format!("{at}.vocabulary"),
            format!("{} ids, but the source's table has {}", given.vocabulary, lender.vocabulary),
            "give both sides one vocabulary, or the target a table of its own",
        );
    }
    let width = |side: &Side, tokens: &Tokens| tokens.width.unwrap_or(side.stack.width);
    let target = place.formula.target.as_ref().map(|side| width(side, given));
    if target != Some(width(other, lender)) {
        report.refuse(
            field,
            format!("the source's table is {} wide, the target needs another width", width(other, lender)),
            "give both sides one width, or the target a table of its own",
        );
    }
}

/// Whether the cuts divide the vocabulary, and leave every cluster a width. Without cuts there is one cluster.
pub(super) fn clusters(report: &mut Report, at: &str, given: &Clusters, of: (usize, usize)) {
    let (vocabulary, width) = of;
    let field = format!("{at}.cuts");
    if given.cuts.len() > limits::CUTS {
        let why = format!("{} cuts cannot be meant", given.cuts.len());
        return report.refuse(field, why, format!("give at most {}", limits::CUTS));
    }
    let before = [0].into_iter().chain(given.cuts.iter().copied());
    if let Some((index, (last, cut))) =
        before.zip(given.cuts.iter().copied()).enumerate().find(|(_, (last, cut))| last >= cut)
    {
        let why = format!("{cut} is not above {last}, so a cluster would have no words");
        report.refuse(format!("{field}[{index}]"), why, "give the cuts in ascending order, from 1");
    }
    if let Some(last) = given.cuts.last().filter(|last| **last >= vocabulary) {
        let why = format!("a cluster starts at {last}, but there are {vocabulary} ids");
        report.refuse(&field, why, "give cuts below the vocabulary; its end is not listed");
    }
    report.size(format!("{at}.divisor"), given.divisor, limits::WIDTH);
    if let Some(first) = given.width {
        report.size(format!("{at}.width"), first, limits::WIDTH);
    }
    let width = given.width.unwrap_or(width);
    if width == 0 {
        return; // refused already
    }
    if let Some(empty) = given.list(vocabulary, width).iter().position(|cluster| cluster.width == 0) {
        report.refuse(
            format!("{at}.divisor"),
            format!("nothing is left of the width {width} in cluster {empty}"),
            "give a smaller divisor or fewer cuts",
        );
    }
}

fn patches(report: &mut Report, place: &Place<'_>, given: &Patches) {
    let at = format!("{}.input.patches", place.half.name());
    if place.half == Half::Target {
        report.refuse(
            &at,
            "a target writes tokens, it cannot write patches",
            "put the image into the source",
        );
    }
    report.size(format!("{at}.size"), given.size, limits::PIXELS);
    report.size(format!("{at}.channels"), given.channels, limits::PIXELS);
    report.norm(&format!("{at}.norm"), given.norm);
}
