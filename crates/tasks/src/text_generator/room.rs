//! The thread that writes for all callers, and the memory that it has: as requests need it, or set aside beforehand.

use glassformer_engine::{Generator, Request, Room};

use super::TextGenerator;
use crate::Error;
use crate::service::{QueueLimits, Rooms, Service};

/// Sequences that are written at once: enough that a step is a matrix product, few enough that pages fit.
const TOGETHER: usize = 32;

/// Lengths that room is made for are rounded up to this, so that few texts need the model prepared again.
const ROUND: usize = 128;

/// The same where what was read is kept for a longer text: preparing anew forgets it.
const ROUND_KEPT: usize = 2048;

/// Sequences that there is room for at least, if the system has the memory: callers on other threads join.
const AT_LEAST: usize = 8;

/// What a generator sets aside for many callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Sequences that are written at once.
    pub sequences: usize,
    /// The longest text, prompt and answer together, where the model does not end before.
    pub longest: usize,
    /// Bytes for keys and values; requests wait where there are no more.
    pub memory: usize,
    /// How much may wait.
    pub queue: QueueLimits,
}

impl TextGenerator {
    /// The thread that writes for all callers.
    pub(crate) fn service(&self) -> Result<&Service, Error> {
        if let Some(service) = self.service.get() {
            return Ok(service);
        }
        let service = Service::start(self.rooms(), QueueLimits::default())?;
        Ok(self.service.get_or_init(|| service))
    }

    /// Sets memory aside for many callers, before anything is written. Without it there is as much as requests need, and all of them
    /// wait while there is made more.
    ///
    /// # Errors
    /// If there is not the memory for one text of that length, or something was written already.
    pub fn reserve(&self, reserve: &Reserve) -> Result<Room, Error> {
        let wrong =
            |what: String, hint: &str| Err(Error::Option { option: "memory", what, hint: hint.to_owned() });
        let longest = self.longest().unwrap_or(usize::MAX).min(reserve.longest);
        let formula = self.checkpoint.model.formula();
        let positions = formula.target.as_ref().and_then(|side| side.stack.position.count());
        // What an encoder reads says nothing of how much is written.
        let (source, target) = if self.reads_source() { (longest, reserve.longest) } else { (0, longest) };
        let mut room = Room::new(1, source, target.min(positions.unwrap_or(usize::MAX)));
        let one = self.prepared()(room)?.bytes().max(1);
        if one > reserve.memory {
            let what =
                format!("of {} bytes is less than the {one} of one text of {longest} tokens", reserve.memory);
            return wrong(what, "allow shorter texts, or more memory");
        }
        let sequences = reserve.sequences.max(1);
        let texts = (reserve.memory / one).min(sequences);
        let pages = (room.pages * texts, room.source_pages * texts);
        room = Room { pages: pages.0, source_pages: pages.1, ..Room::new(sequences, source, room.target) };
        let generator = self.prepared()(room)?;
        let rooms = Rooms {
            prepare: Box::new(move |_| Ok(generator.clone())),
            more: Box::new(move |_, had| had.is_none().then_some(room)),
        };
        match self.service.set(Service::start(rooms, reserve.queue)?) {
            Ok(()) => Ok(*self.room.get_or_init(|| room)),
            Err(_) => wrong("is set aside too late".to_owned(), "reserve it before anything is written"),
        }
    }

    /// Prepares the model for some room, and the one that drafts for it.
    fn prepared(&self) -> impl Fn(Room) -> Result<Generator, Error> + Send + 'static {
        let (checkpoint, backend) = (self.checkpoint.clone(), self.backend.clone());
        let draft_model = self.draft_model.clone();
        move |room| {
            let generator = Generator::new(&checkpoint.model, &*backend, room)?;
            let Some(small) = &draft_model else { return Ok(generator) };
            let small = Generator::new(&small.checkpoint.model, &*small.backend, room)?;
            Ok(generator.with_draft_model(&small)?)
        }
    }

    /// Room as requests need it: more when larger ones come.
    fn rooms(&self) -> Rooms {
        let prepared = self.prepared();
        let prepare = move |room: Room| {
            let generous = Room { sequences: room.sequences.max(AT_LEAST), ..room };
            let generous = Room::new(generous.sequences, room.source, room.target);
            prepared(generous).or_else(|_| prepared(room))
        };
        let (formula, limit) =
            (self.checkpoint.model.formula().clone(), self.longest().unwrap_or(usize::MAX));
        let more = move |requests: &[&Request], had: Option<Room>| {
            let each =
                requests.iter().map(|request| Room::of(&formula, std::slice::from_ref(request), TOGETHER));
            let widest = each.clone().map(|room| room.sequences).max()?;
            let all = each.clone().fold(0, |sum: usize, room| sum.saturating_add(room.sequences));
            let sequences = all.min(TOGETHER.max(widest));
            let (source, target) =
                (each.clone().map(|room| room.source).max()?, each.map(|room| room.target).max()?);
            let had = had.unwrap_or(Room::new(1, 0, 0));
            if sequences <= had.sequences && source <= had.source && target <= had.target {
                return None;
            }
            let kept = requests.iter().any(|request| request.owner.is_some());
            let by = if kept { ROUND_KEPT } else { ROUND };
            let round = |need: usize, had: usize| {
                let round = need.div_ceil(by).saturating_mul(by).min(limit.max(need));
                if need == 0 { 0 } else { round.max(had) }
            };
            let (source, target) = (round(source, had.source), round(target, had.target));
            Some(Room::new(sequences.max(had.sequences), source, target))
        };
        Rooms { prepare: Box::new(prepare), more: Box::new(more) }
    }
}
