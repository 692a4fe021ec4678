//! Many requests as one packed batch, step by step: finished ones leave, waiting ones join, and long prompts are read in
//! pieces beside what others write. Each request gets the same bits as alone.
//!
//! Pages are the only memory that grows with the texts, and there are only so many. When they run out, the youngest request
//! gives its pages back and waits; when there is room again, what it had written is read again, and it goes on.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use glassformer_graph::{Ask, Batch, Leaders, PAGE, Span, State, Sum};

use crate::admit::admit;
use crate::draft::{DraftModel, Guess, MOST_DRAFTED, least_chance};
use crate::forward::source_rows;
use crate::generate::Prepared;
use crate::generate::Reading;
use crate::job::{Job, Piece};
use crate::kept::{Each, Kept};
use crate::processors::Scratch;
use crate::search::{Scores, Short};
use crate::{Error, Event, Request};

/// The most scores of a row that are worth finding without reading it all here.
const MOST_LEADERS: usize = 64;

/// Requests under way and waiting.
pub struct Session {
    prepared: Arc<Prepared>,
    state: State,
    /// Oldest first; those that were sent back before those that never ran.
    waiting: VecDeque<Job>,
    /// Oldest first.
    running: Vec<Job>,
    submitted: usize,
    preempted: usize,
    /// What targets and sources of requests that are over have read.
    kept: Kept,
    kept_sources: Kept,
    asked_tokens: usize,
    kept_tokens: usize,
    draft_model: Option<DraftModel>,
    drafted_tokens: usize,
    accepted_tokens: usize,
    scratch: Scratch,
    leaders: Leaders,
    /// Rows of scores that a rule changes.
    scores: Vec<f32>,
    batch: Batch<'static>,
}

/// What is ruled out in rows whose largest scores are enough; see [`Session::shorts`].
type Shorts = HashMap<(usize, usize), Vec<u32>>;

/// How a request ends.
enum End {
    Done,
    Failed(Error),
}

/// What a session has to do, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests under way.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Pages for keys and values of targets.
    pub pages: usize,
    /// Those of them that are held: by requests, and by what is kept of earlier ones.
    pub held_pages: usize,
    /// How often a request had to give its pages back.
    pub preempted: usize,
    /// Tokens of prompts and sources that could have been kept from earlier requests.
    pub asked_tokens: usize,
    /// Those of them that were.
    pub kept_tokens: usize,
    /// Tokens of drafts that were read.
    pub drafted_tokens: usize,
    /// Those of them that were written.
    pub accepted_tokens: usize,
}

impl Drop for Session {
    fn drop(&mut self) {
        let State { cache, crossing, .. } = &mut self.state;
        while self.kept.let_go(cache) || self.kept_sources.let_go(crossing) {}
        self.prepared.give_back(std::mem::take(&mut self.state));
    }
}

impl Session {
    pub(crate) fn new(prepared: Arc<Prepared>, draft_model: Option<Arc<Prepared>>) -> Self {
        let state = prepared.state();
        Self {
            prepared,
            state,
            waiting: VecDeque::new(),
            running: Vec::new(),
            submitted: 0,
            preempted: 0,
            kept: Kept::default(),
            kept_sources: Kept::default(),
            asked_tokens: 0,
            kept_tokens: 0,
            draft_model: draft_model.map(DraftModel::new),
            drafted_tokens: 0,
            accepted_tokens: 0,
            scratch: Scratch::default(),
            leaders: Leaders::default(),
            scores: Vec::new(),
            batch: Batch::default(),
        }
    }

    /// A session of a draft model. The owner of a request is the number of the one that it drafts for, so all requests of an owner have one
    /// source, and begin as its last one did.
    pub(crate) fn of_drafts(prepared: Arc<Prepared>) -> Self {
        let mut session = Self::new(prepared, None);
        [session.kept, session.kept_sources] = [Each::Last; 2].map(Kept::of);
        session
    }

    /// Lets a request wait for its turn; its number, counted from 0.
    ///
    /// # Errors
    /// If it can never be answered; others are not concerned.
    pub fn submit(&mut self, request: Request) -> Result<usize, Error> {
        let begun = request.prompt.len();
        self.submit_after(request, begun)
    }

    /// The same where all but the first `begun` tokens of the prompt count as written.
    pub(crate) fn submit_after(&mut self, request: Request, begun: usize) -> Result<usize, Error> {
        let number = self.submitted;
        admit(&self.prepared, number, &request)?;
        self.waiting.push_back(Job::new(number, request, begun, &self.prepared));
        self.submitted += 1;
        Ok(number)
    }

    /// Forgets a request; nothing more is told of it. False where there is no such request any more.
    pub fn cancel(&mut self, request: usize) -> bool {
        let waits = self.waiting.iter().position(|job| job.number == request);
        if let Some(place) = waits {
            self.waiting.remove(place);
            return true;
        }
        let Some(place) = self.running.iter().position(|job| job.number == request) else { return false };
        let job = self.running.remove(place);
        self.end(job);
        true
    }

    /// Forgets what was read for `owner`.
    pub(crate) fn forget(&mut self, owner: u64) {
        let State { cache, crossing, .. } = &mut self.state;
        self.kept.forget(cache, owner);
        self.kept_sources.forget(crossing, owner);
    }

    /// Whether what targets have read is kept: it depends on the source, too.
    fn keeps_targets(&self) -> bool {
        self.prepared.encode.is_none() || self.kept.each() == Each::Last
    }

    /// Ends a job: what it has read is kept where that is allowed, and all else is given back.
    fn end(&mut self, mut job: Job) -> Job {
        if let Some(model) = &mut self.draft_model {
            model.forget(job.number);
        }
        let can_keep = self.prepared.reading == Reading::Pieces && self.prepared.zeros == 0;
        let keeps_targets = self.keeps_targets();
        let State { cache, crossing, .. } = &mut self.state;
        if let Some(owner) = job.request.owner.filter(|_| can_keep && job.request.patches.is_empty()) {
            if keeps_targets && let Some((tokens, table)) = job.take_read() {
                self.kept.keep(cache, owner, tokens, table);
            }
            if let Some(table) = job.source.take() {
                self.kept_sources.keep(crossing, owner, job.request.source.clone(), table);
            }
        }
        job.release(cache, crossing);
        job
    }

    /// Whether nothing is under way or waiting.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// What it has to do, and what it holds.
    pub fn load(&self) -> Load {
        let pages = self.state.cache.count();
        Load {
            running: self.running.len(),
            waiting: self.waiting.len(),
            pages,
            held_pages: pages - self.state.cache.free(),
            preempted: self.preempted,
            asked_tokens: self.asked_tokens,
            kept_tokens: self.kept_tokens,
            drafted_tokens: self.drafted_tokens,
            accepted_tokens: self.accepted_tokens,
        }
    }

    /// Takes one step of everything that is under way, and says what happened.
    ///
    /// # Errors
    /// If the model cannot run; nothing that a request says can be the reason.
    pub fn step(&mut self) -> Result<Vec<Event>, Error> {
        self.join()?;
        self.draft()?;
        let pieces = self.plan();
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        self.run(&pieces)?;
        for &(job, Piece { lane, len, .. }) in &pieces {
            let job = &mut self.running[job];
            job.read(&mut self.state.cache, lane, len - job.draft.len());
        }
        self.choose(&pieces)
    }

    /// Lets waiting requests join, in order, as far as there is room, and computes their sources.
    fn join(&mut self) -> Result<(), Error> {
        let (room, limit) = (self.prepared.room, self.prepared.source_rows);
        let mut patches = Vec::new();
        let mut tables = Vec::new();
        self.batch.source.clear();
        while let Some(job) = self.waiting.front() {
            let width: usize = self.running.iter().map(Job::width).sum();
            let rows = self.batch.source.rows() + job.source_rows;
            if width + job.width() > room.sequences || rows > limit {
                break;
            }
            let Some(mut job) = self.waiting.pop_front() else { break };
            let (asked, kept) = self.begin(&mut job);
            let alone = self.running.is_empty();
            if !self.kept.make_room(&mut self.state.cache, job.pages()) && !alone {
                job.release(&mut self.state.cache, &mut self.state.crossing);
                self.waiting.push_front(job);
                break;
            }
            if self.prepared.encode.is_some() && job.source.is_none() {
                let pages = job.source_rows.div_ceil(PAGE);
                let crossing = &mut self.state.crossing;
                let table = crossing.open();
                self.kept_sources.make_room(crossing, pages);
                if crossing.reserve(table, job.source_rows).is_err() {
                    crossing.close(table);
                    job.release(&mut self.state.cache, &mut self.state.crossing);
                    self.waiting.push_front(job);
                    break;
                }
                job.source = Some(table);
                tables.push((table, job.source_rows));
                let given = (&job.request.source[..], &job.request.patches[..]);
                let rows = source_rows(&self.prepared.formula, given, &mut patches).unwrap_or(0);
                self.batch.source.push_rows(rows, Span { table, ..Span::default() });
                self.batch.source.tokens.extend(&job.request.source);
            }
            self.running.push(job);
            self.asked_tokens += asked;
            self.kept_tokens += kept;
        }
        self.running.sort_by_key(|job| job.number);
        if let Some(encode) = self.prepared.encode.as_ref().filter(|_| !tables.is_empty()) {
            self.batch.target.clear();
            let inputs: Vec<&[f32]> = if self.prepared.reads_patches() { vec![&patches] } else { Vec::new() };
            let batch = Batch { source: std::mem::take(&mut self.batch.source), inputs, ..Batch::default() };
            encode.run(&mut self.state, &batch)?;
            self.batch.source = batch.source;
            for (table, rows) in tables {
                self.state.crossing.set_len(table, rows);
            }
        }
        Ok(())
    }

    /// Lets a job go on from what was read for its owner before: how many tokens could have been, and how many were.
    fn begin(&mut self, job: &mut Job) -> (usize, usize) {
        let Some(owner) = job.request.owner.filter(|_| job.request.patches.is_empty()) else {
            return (0, 0);
        };
        let keeps_targets = self.keeps_targets();
        let State { cache, crossing, .. } = &mut self.state;
        let (mut asked, mut kept) = (0, 0);
        if self.prepared.encode.is_some() {
            let source = &job.request.source;
            job.source = self.kept_sources.whole(crossing, owner, source);
            asked += source.len();
            kept += if job.source.is_some() { source.len() } else { 0 };
        }
        if keeps_targets {
            let beginning = job.beginning();
            asked += beginning.len();
            if let Some((table, read)) = self.kept.begin(cache, owner, beginning) {
                job.begin_with(table, read);
                kept += read;
            }
        }
        (asked, kept)
    }

    /// Lets every request that writes guess what comes next, as far as a step with so many rows gains by it.
    fn draft(&mut self) -> Result<(), Error> {
        let least = least_chance(self.running.iter().map(|job| job.lanes.len()).sum());
        let mut rows = MOST_DRAFTED;
        let (mut places, mut wanted) = (Vec::new(), Vec::new());
        for (place, job) in self.running.iter_mut().enumerate() {
            job.draft.clear();
            let most = job.most_drafted().min(rows);
            match &mut job.guess {
                Guess::LookUp(look_up) => {
                    look_up.draft(most, least, &mut job.draft);
                    rows -= job.draft.len();
                }
                Guess::Model(pace) if self.draft_model.is_some() => {
                    let most = pace.len(most, least);
                    if most > 0 {
                        rows -= most;
                        places.push(place);
                        wanted.push(job.wanted(most));
                    }
                }
                Guess::Never | Guess::Model(_) => {}
            }
        }
        if let Some(model) = self.draft_model.as_mut().filter(|_| !wanted.is_empty()) {
            for (place, draft) in places.into_iter().zip(model.draft(wanted)?) {
                self.running[place].draft = draft;
            }
        }
        Ok(())
    }

    /// What each request reads in this step, with pages for all of it.
    fn plan(&mut self) -> Vec<(usize, Piece)> {
        let reading = self.prepared.reading;
        let writing = self.running.iter().filter(|job| job.writes());
        let writing: usize = writing.map(|job| job.lanes.len() + job.draft.len()).sum();
        let mut rows = self.prepared.rows.saturating_sub(writing);
        let mut pieces = Vec::new();
        let mut place = 0;
        while place < self.running.len() {
            let wanted = self.running[place].pieces(reading, rows);
            if !self.running[place].writes() {
                rows -= wanted.iter().map(|piece| piece.len).sum::<usize>();
            }
            for mut piece in wanted {
                while place < self.running.len()
                    && self.running[place].reserve(&mut self.state.cache, piece).is_err()
                {
                    if self.kept.let_go(&mut self.state.cache) {
                        continue;
                    }
                    // Nobody is sent back for a guess.
                    let drafted = std::mem::take(&mut self.running[place].draft).len();
                    if drafted == 0 {
                        self.preempt();
                    }
                    piece = Piece { len: piece.len - drafted, asked: piece.asked - drafted, ..piece };
                }
                pieces.push((place, piece));
            }
            place += 1;
        }
        // Some of these may have been sent back by an older one since.
        pieces.retain(|&(job, _)| job < self.running.len());
        pieces
    }

    /// Sends the youngest request back.
    fn preempt(&mut self) {
        if let Some(mut job) = self.running.pop() {
            job.release(&mut self.state.cache, &mut self.state.crossing);
            self.waiting.push_front(job);
            self.preempted += 1;
        }
    }

    /// Runs the model over all pieces.
    fn run(&mut self, pieces: &[(usize, Piece)]) -> Result<(), Error> {
        self.batch.source.clear();
        let target = &mut self.batch.target;
        target.clear();
        for &(job, piece) in pieces {
            let job = &self.running[job];
            let lane = &job.lanes[piece.lane];
            let past = job.stored(piece.lane);
            let first = past.saturating_sub(self.prepared.remembered);
            let (table, source) = (lane.table.unwrap_or(0), job.source.unwrap_or(0));
            let span = Span { table, past, first, source, ..Span::default() };
            target.push_rows(piece.len, span);
            target.tokens.extend(job.tokens(piece));
            let end = target.rows() as u32;
            target.picked.extend(end - piece.asked as u32..end);
        }
        Ok(self.prepared.step.run(&mut self.state, &self.batch)?)
    }

    /// Finds the largest scores for all rows that need no more, and says what is ruled out in each: by the places of requests, and
    /// by how many drafted tokens stand before.
    fn shorts(&mut self, pieces: &[(usize, Piece)]) -> Result<Shorts, Error> {
        let mut wanted = Ask { most: 0, sum: Sum::Numbers };
        let mut shorts = HashMap::new();
        for &(place, _) in pieces.iter().filter(|(_, piece)| piece.asked > 0) {
            let job = &self.running[place];
            for drafted in 0..=job.draft.len() {
                let short = job.short(&self.prepared, drafted);
                if let Some((ask, banned)) = short.filter(|(ask, _)| ask.most <= MOST_LEADERS) {
                    wanted.most = wanted.most.max(ask.most);
                    wanted.sum = if ask.sum == Sum::LogExp { Sum::LogExp } else { wanted.sum };
                    shorts.insert((place, drafted), banned);
                }
            }
        }
        if !shorts.is_empty() {
            let logits = self.prepared.logits;
            self.prepared.step.leaders(&self.state, logits, wanted, &mut self.leaders)?;
        }
        Ok(shorts)
    }

    /// Lets every request whose scores are there choose.
    fn choose(&mut self, pieces: &[(usize, Piece)]) -> Result<Vec<Event>, Error> {
        let shorts = self.shorts(pieces)?;
        let mut events = Vec::new();
        let mut row = 0;
        let mut over = Vec::new();
        for same in pieces.chunk_by(|a, b| a.0 == b.0) {
            let (place, count) = (same[0].0, same.iter().map(|(_, piece)| piece.asked).sum::<usize>());
            if count > 0 {
                let end = self.choose_from(place, row..row + count, &shorts, &mut events)?;
                over.extend(end.map(|end| (place, end)));
                row += count;
            }
        }
        for (place, end) in over.into_iter().rev() {
            let job = self.running.remove(place);
            let job = self.end(job);
            events.push(match end {
                End::Failed(error) => Event::Failed { request: job.number, error },
                End::Done => job.finish(),
            });
        }
        Ok(events)
    }

    /// Lets a request choose from these rows: one of each lane. Where it has a draft, there is another row behind each drafted token, which
    /// holds as long as the tokens chosen before are the drafted ones.
    fn choose_from(
        &mut self,
        place: usize,
        rows: Range<usize>,
        shorts: &Shorts,
        events: &mut Vec<Event>,
    ) -> Result<Option<End>, Error> {
        let draft = std::mem::take(&mut self.running[place].draft);
        let lanes = rows.len() - draft.len();
        let mut end = None;
        let mut accepted = 0;
        for drafted in 0..=draft.len() {
            let first = rows.start + drafted;
            let scores = if let Some(banned) = shorts.get(&(place, drafted)) {
                self.scores.clear();
                if self.running[place].request.observer.is_some() {
                    let rows = first..first + lanes;
                    self.scores.extend_from_slice(&self.prepared.step.read(
                        &self.state,
                        self.prepared.logits,
                        rows,
                    )?);
                }
                let (leaders, width) = (&self.leaders, self.prepared.limits.scores);
                let watched = &mut self.scores[..];
                Scores::Leaders(Short { leaders, first, width, banned: banned.clone(), watched })
            } else {
                let rows =
                    self.prepared.step.read(&self.state, self.prepared.logits, first..first + lanes)?;
                self.scores.clear();
                self.scores.extend_from_slice(&rows);
                Scores::Rows(&mut self.scores)
            };
            let job = &mut self.running[place];
            match job.choose(&self.prepared, scores, &mut self.scratch, events) {
                Ok(next) if next.is_empty() => end = Some(End::Done),
                Ok(next) => {
                    job.follow(&mut self.state.cache, &next);
                    if draft.get(drafted).is_some_and(|&token| next[..] == [(0, token)]) {
                        job.read(&mut self.state.cache, 0, 1);
                        accepted += 1;
                        continue;
                    }
                }
                Err(error) => end = Some(End::Failed(error)),
            }
            break;
        }
        self.drafted_tokens += draft.len();
        self.accepted_tokens += accepted;
        if let Guess::Model(pace) = &mut self.running[place].guess {
            pace.told(draft.len(), accepted);
        }
        Ok(end)
    }
}
