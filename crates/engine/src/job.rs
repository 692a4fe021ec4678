//! A request under way: its search, and the lanes that the search follows.

use glassformer_graph::{Ask, Error as GraphError, PAGE, Pages};

use crate::draft::{Guess, Wanted};
use crate::generate::{Prepared, Reading};
use crate::processors::{Rules, Scratch};
use crate::search::{Scores, Search, Turn};
use crate::{Error, Event, Matcher, Request};

/// A request that waits, runs, or was sent back to wait.
#[derive(Debug)]
pub(crate) struct Job {
    pub number: usize,
    pub request: Request,
    /// How many tokens its target began with: the rest of its prompt counts as written.
    begun: usize,
    /// How many rows its source has.
    pub source_rows: usize,
    /// How many rows of zeros its lanes begin with.
    zeros: usize,
    /// The table of its source's keys and values, once they are computed.
    pub source: Option<usize>,
    /// The sequences that are written and, where they are guided, behind them as many that they are compared with.
    pub lanes: Vec<Lane>,
    /// Where several lanes are computed anew: how many tokens the first one reads for all.
    trunk: Option<usize>,
    search: Search,
    /// Where guesses at its next tokens come from.
    pub guess: Guess,
    /// What is guessed to come next, to be read in this step.
    pub draft: Vec<u32>,
}

/// A sequence that a search follows.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Prompt and new tokens.
    pub tokens: Vec<u32>,
    /// Where its keys and values are.
    pub table: Option<usize>,
    /// How many of its tokens were read.
    pub read: usize,
    /// Where its text stands in its form, where it must have one.
    pub matcher: Option<Box<dyn Matcher>>,
}

/// What a lane reads in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub lane: usize,
    pub len: usize,
    /// The scores of how many of its last rows are wanted.
    pub asked: usize,
}

impl Job {
    pub fn new(number: usize, mut request: Request, begun: usize, prepared: &Prepared) -> Self {
        let source_rows = request.source_rows(&prepared.formula).unwrap_or(0);
        let zeros = prepared.zeros;
        let lane = |tokens: &[u32]| Lane { tokens: tokens.to_vec(), ..Lane::default() };
        let compared = Some(request.negative()).filter(|negative| !negative.is_empty());
        let mut lanes: Vec<Lane> = [&request.prompt[..]].into_iter().chain(compared).map(lane).collect();
        if let Some(constraint) = &request.constraint {
            lanes[0].matcher = Some(constraint.start());
            // What is cut off is not made to look as if it had ended.
            request.decoding.forced_last.clear();
        }
        let search = Search::new(&request.decoding);
        let guess = Guess::of(&request, prepared);
        Self {
            number,
            request,
            begun,
            source_rows,
            zeros,
            source: None,
            lanes,
            trunk: None,
            search,
            guess,
            draft: Vec::new(),
        }
    }

    /// How many sequences it runs at most.
    pub fn width(&self) -> usize {
        self.request.decoding.width()
    }

    /// How many of its lanes are written.
    fn written(&self) -> usize {
        if self.request.decoding.is_guided() { self.lanes.len() / 2 } else { self.lanes.len() }
    }

    /// About how many pages it needs to begin with, besides those that it has.
    pub fn pages(&self) -> usize {
        let begins = [Some(&self.lanes[0]), self.lanes.get(self.written())];
        let pages = |lane: &Lane| (self.zeros + lane.tokens.len() + 1).div_ceil(PAGE) - lane.read / PAGE;
        begins.into_iter().flatten().map(pages).sum::<usize>() + self.width() - 1
    }

    /// What its first lane has to read before others can follow, but for the last token: that one's scores are wanted.
    pub fn beginning(&self) -> &[u32] {
        let tokens = &self.lanes[0].tokens;
        &tokens[..self.trunk.unwrap_or(tokens.len()) - 1]
    }

    /// Begins with `read` tokens that are stored in `table` already.
    pub fn begin_with(&mut self, table: usize, read: usize) {
        self.lanes[0].table = Some(table);
        self.lanes[0].read = read;
    }

    /// Takes the table of its first lane, with the tokens that are stored there.
    pub fn take_read(&mut self) -> Option<(Vec<u32>, usize)> {
        let lane = self.lanes.first_mut()?;
        let table = lane.table.take()?;
        Some((lane.tokens[..lane.read].to_vec(), table))
    }

    /// Whether its next step is one row of each lane, and what is drafted.
    pub fn writes(&self) -> bool {
        self.trunk.is_none() && self.lanes.iter().all(|lane| lane.read + 1 == lane.tokens.len())
    }

    /// What its lanes read next, within `rows` rows.
    pub fn pieces(&self, reading: Reading, mut rows: usize) -> Vec<Piece> {
        if self.writes() {
            let len = 1 + self.draft.len();
            return (0..self.lanes.len()).map(|lane| Piece { lane, len, asked: len }).collect();
        }
        let mut pieces = Vec::new();
        let lanes = if self.trunk.is_some() { 1 } else { self.lanes.len() };
        for (lane, given) in self.lanes.iter().enumerate().take(lanes) {
            // Several lanes get their scores in the same step, so they stop one token before.
            let end = self.trunk.unwrap_or(given.tokens.len() - usize::from(lanes > 1));
            let most = match reading {
                Reading::Pieces => end - given.read,
                Reading::AsWritten if given.read == 0 => self.request.prompt.len().min(end),
                Reading::AsWritten => (end - given.read).min(1),
            };
            let len = match reading {
                Reading::Pieces => most.min(rows),
                Reading::AsWritten if most <= rows => most,
                Reading::AsWritten => 0,
            };
            if len > 0 {
                let asked = usize::from(given.read + len == given.tokens.len());
                pieces.push(Piece { lane, len, asked });
                rows -= len;
            }
        }
        pieces
    }

    /// Makes room for what `piece` says.
    pub fn reserve(&mut self, pages: &mut Pages, piece: Piece) -> Result<(), GraphError> {
        let lane = &mut self.lanes[piece.lane];
        let table = *lane.table.get_or_insert_with(|| pages.open());
        if lane.read == 0 && pages.len(table) < self.zeros {
            pages.begin_with_zeros(table, self.zeros)?;
        }
        pages.reserve(table, self.zeros + lane.read + piece.len)
    }

    /// How many rows of a lane are stored.
    pub fn stored(&self, lane: usize) -> usize {
        self.zeros + self.lanes[lane].read
    }

    /// What it reads in `piece`.
    pub fn tokens(&self, piece: Piece) -> impl Iterator<Item = u32> {
        let Lane { tokens, read, .. } = &self.lanes[piece.lane];
        tokens[*read..].iter().chain(&self.draft).take(piece.len).copied()
    }

    /// How many of its next tokens may be drafted: the last one that it may write need not be read.
    pub fn most_drafted(&self) -> usize {
        match self.guess {
            Guess::LookUp(_) | Guess::Model(_) if self.writes() => {
                let longest = self.request.decoding.longest(self.request.prompt.len());
                longest.saturating_sub(self.lanes[0].tokens.len() + 1)
            }
            Guess::Never | Guess::LookUp(_) | Guess::Model(_) => 0,
        }
    }

    /// The draft that is wanted of it.
    pub fn wanted(&self, most: usize) -> Wanted {
        let Self { number, begun: prompt, .. } = *self;
        // A form is followed from its first token on, which a draft does not begin with.
        let request = Request {
            prompt: self.lanes[0].tokens.clone(),
            constraint: None,
            observer: None,
            ..self.request.clone()
        };
        Wanted { number, request, prompt, most }
    }

    /// Notes that `len` rows of a lane were read. What was read of a draft counts once its token is written; a row that never counts is
    /// written over by the next one.
    pub fn read(&mut self, pages: &mut Pages, lane: usize, len: usize) {
        let lane = &mut self.lanes[lane];
        lane.read += len;
        let (read, Some(table)) = (lane.read, lane.table) else { return };
        pages.set_len(table, self.zeros + read);
        if self.trunk == Some(read) {
            self.trunk = None;
            let written = self.written();
            for lane in &mut self.lanes[1..written] {
                lane.table = Some(pages.fork(table));
                lane.read = read;
            }
        }
    }

    /// Gives all its pages back. What it has written is kept, and is read again when its turn comes.
    pub fn release(&mut self, cache: &mut Pages, crossing: &mut Pages) {
        for lane in &mut self.lanes {
            if let Some(table) = lane.table.take() {
                cache.close(table);
            }
            lane.read = 0;
        }
        if let Some(table) = self.source.take() {
            crossing.close(table);
        }
        self.draft.clear();
        self.trunk = if self.written() > 1 { Some(self.common()) } else { None };
    }

    /// How many tokens all lanes that are written begin with, but not the last.
    fn common(&self) -> usize {
        let first = &self.lanes[0].tokens;
        let same = |lane: &Lane| first.iter().zip(&lane.tokens).take_while(|(a, b)| a == b).count();
        self.lanes[..self.written()].iter().map(same).min().unwrap_or(0).min(first.len() - 1)
    }

    /// What its search wants to know of the scores of each lane behind `drafted` tokens of the draft, if it does not want all of them;
    /// and what is ruled out.
    pub fn short(&self, prepared: &Prepared, drafted: usize) -> Option<(Ask, Vec<u32>)> {
        if self.request.constraint.is_some() {
            return None;
        }
        let rules = rules(&self.request, self.begun, prepared);
        if drafted > 0 {
            let ahead = [&self.lanes[0].tokens, &self.draft[..drafted]].concat();
            return self.search.short(&rules, &[&ahead]);
        }
        let lanes: Vec<&[u32]> =
            self.lanes[..self.written()].iter().map(|lane| lane.tokens.as_slice()).collect();
        self.search.short(&rules, &lanes)
    }

    /// Chooses the next tokens from the scores of each lane. Nothing when it is done.
    pub fn choose(
        &mut self,
        prepared: &Prepared,
        scores: Scores<'_>,
        scratch: &mut Scratch,
        events: &mut Vec<Event>,
    ) -> Result<Vec<(usize, u32)>, Error> {
        let written = self.written();
        let stopper = &self.request.stopper;
        let rules = rules(&self.request, self.begun, prepared);
        let count = self.lanes.len();
        let hint = match self.request.constraint {
            None => "check the model's weights, and what is banned",
            Some(_) => "ask for a form that this model's tokens can spell, and check what is banned",
        };
        let failed = |what| Error::Request { request: self.number, what, hint: hint.into() };
        let mut lanes = Vec::with_capacity(written);
        let mut allowed = Vec::with_capacity(written);
        for Lane { tokens, matcher, .. } in &mut self.lanes[..written] {
            let matcher = matcher.as_mut().filter(|_| !rules.forces_first(tokens.len()));
            allowed.push(matcher.map(|matcher| matcher.allowed()).transpose().map_err(failed)?);
            lanes.push(tokens.as_slice());
        }
        let (scores, compared): (_, &[f32]) = match scores {
            Scores::Rows(rows) => {
                let (rows, compared) = rows.split_at_mut(rows.len() / count * written);
                (Scores::Rows(rows), compared)
            }
            Scores::Leaders(short) => (Scores::Leaders(short), &[]),
        };
        let (stopper, observer) = (stopper.as_deref(), self.request.observer.as_deref());
        let mut turn = Turn { rules, stopper, lanes, allowed, compared, scratch, observer };
        let next = self.search.step(&mut turn, scores).map_err(failed)?;
        let told = next.told.into_iter();
        events.extend(told.map(|(sequence, token)| Event::Token { request: self.number, sequence, token }));
        Ok(next.lanes)
    }

    /// Goes on with the lanes of `next`. Lanes that several go on from share their pages; nothing is copied here.
    pub fn follow(&mut self, pages: &mut Pages, next: &[(usize, u32)]) {
        let compared = self.lanes.split_off(self.written());
        self.lanes = go_on(std::mem::take(&mut self.lanes), pages, next);
        for Lane { tokens, matcher, .. } in &mut self.lanes {
            // The token that must come first is no part of what is written.
            let forced = tokens.len() == 2 && self.request.decoding.forced_first.is_some();
            if let Some((matcher, &token)) = matcher.as_mut().zip(tokens.last()).filter(|_| !forced) {
                matcher.push(token);
            }
        }
        if let [(_, token)] = next {
            self.guess.written(*token);
        }
        if compared.is_empty() {
            return;
        }
        // As the reference does it: what beams are compared with stays in its place, and reads whatever beam is written there.
        let stays = compared.len() == next.len() && self.search.reorders();
        let own = |(place, &(from, token)): (usize, &(usize, u32))| (if stays { place } else { from }, token);
        let next: Vec<(usize, u32)> = next.iter().enumerate().map(own).collect();
        self.lanes.extend(go_on(compared, pages, &next));
    }

    /// What was found.
    pub fn finish(self) -> Event {
        let (request, decoding) = (self.number, &self.request.decoding);
        let outputs = self.search.into_outputs(decoding.returns);
        if outputs.is_empty() {
            let what =
                format!("length_penalty {} leaves no beam a score that is a number", decoding.length_penalty);
            let hint = "use a length penalty nearer to 0".into();
            return Event::Failed { request, error: Error::Request { request, what, hint } };
        }
        Event::Done { request, outputs }
    }
}

/// The lanes of `next`, each of which goes on from one of `old`.
fn go_on(mut old: Vec<Lane>, pages: &mut Pages, next: &[(usize, u32)]) -> Vec<Lane> {
    let mut left = vec![0; old.len()];
    for &(from, _) in next {
        left[from] += 1;
    }
    let mut lanes = Vec::with_capacity(next.len());
    for &(from, token) in next {
        left[from] -= 1;
        let mut lane = if left[from] == 0 {
            std::mem::take(&mut old[from])
        } else {
            let Lane { ref tokens, table, read, ref matcher } = old[from];
            let matcher = matcher.as_ref().map(|matcher| matcher.fork());
            Lane { tokens: tokens.clone(), table: table.map(|table| pages.fork(table)), read, matcher }
        };
        lane.tokens.push(token);
        lanes.push(lane);
    }
    for table in old.into_iter().filter_map(|lane| lane.table) {
        pages.close(table);
    }
    lanes
}

fn rules<'r>(request: &'r Request, begun: usize, prepared: &Prepared) -> Rules<'r> {
    let Request { source, prompt, decoding, .. } = request;
    let source = if prepared.encode.is_some() { source } else { &prompt[..begun] };
    Rules { decoding, source, prompt: begun, longest: decoding.longest(prompt.len()) }
}
