//! Drafts for a model that writes: where they come from unless options say otherwise.

use std::sync::Arc;

use glassformer_engine::Draft;
use glassformer_families::Checkpoint;
use glassformer_graph::Backend;
use glassformer_tokens::Tokenizer;

use super::TextGenerator;
use crate::Error;

/// A smaller model that drafts, and what runs it.
#[derive(Clone)]
pub(super) struct DraftModel {
    pub checkpoint: Arc<Checkpoint>,
    pub backend: Arc<dyn Backend>,
}

impl TextGenerator {
    /// Lets `small` draft what this one writes, unless options say otherwise: the texts are the same, and come faster where both mostly
    /// agree.
    ///
    /// # Errors
    /// If its tokens are others, or only one of both reads a source.
    pub fn with_draft_model(mut self, small: &Self) -> Result<Self, Error> {
        same_tokens(&self.tokenizer, &small.tokenizer)?;
        if self.reads_source() != small.reads_source() {
            return Err(no_draft_model(
                "names a model without an encoder where this one has one, or the other way round".to_owned(),
            ));
        }
        let (checkpoint, backend) = (small.checkpoint.clone(), small.backend.clone());
        self.draft_model = Some(DraftModel { checkpoint, backend });
        Arc::make_mut(&mut self.usual).decoding.draft = Draft::Model;
        (self.service, self.room) = (Arc::default(), Arc::default());
        Ok(self)
    }

    /// The same with drafts from here, unless options say otherwise.
    #[must_use]
    pub fn drafting(mut self, draft: Draft) -> Self {
        Arc::make_mut(&mut self.usual).decoding.draft = draft;
        self
    }
}

/// Refuses a draft model whose tokens are others.
fn same_tokens(own: &Tokenizer, other: &Tokenizer) -> Result<(), Error> {
    let ids = own.vocabulary().size().max(other.vocabulary().size()) as u32;
    let differ = |&id: &u32| own.token(id) != other.token(id);
    let Some(id) = (0..ids).find(differ) else { return Ok(()) };
    let [own, other] = [own, other].map(|tokenizer| {
        tokenizer.token(id).map_or_else(|| "nothing".to_owned(), |token| format!("{token:?}"))
    });
    Err(no_draft_model(format!("names a model whose token {id} is {other}, and this model's is {own}")))
}

fn no_draft_model(what: String) -> Error {
    Error::Option { option: "draft", what, hint: "draft with a smaller model of the same family".to_owned() }
}
