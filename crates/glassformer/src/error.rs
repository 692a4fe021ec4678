//! One error for the whole library.

use thiserror::Error;

/// Anything that can go wrong in this library. `?` makes one of any part's error.
///
/// [`Error::kind`] says what to do about it in a program; the text is for people, and says what to do, too.
///
/// ```
/// use glassformer::{ErrorKind, TextEncoder, backend};
///
/// fn open(folder: &str) -> Result<TextEncoder, glassformer::Error> {
///     Ok(TextEncoder::open(folder, backend())?)
/// }
///
/// let error = open("no/such/folder").err().expect("there is none");
/// assert_eq!(error.kind(), ErrorKind::Io);
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
#[error(transparent)]
pub enum Error {
    /// Of [`crate::engine`].
    Engine(#[from] glassformer_engine::Error),
    /// Of [`crate::explain`].
    #[cfg(feature = "explain")]
    Explain(#[from] glassformer_explain::Error),
    /// Of [`crate::families`].
    Families(#[from] glassformer_families::Error),
    /// A formula that cannot work, of [`crate::formula`].
    Formula(#[from] glassformer_formula::Problems),
    /// Of [`crate::graph`].
    Graph(#[from] glassformer_graph::Error),
    /// Of `hub`.
    #[cfg(feature = "hub")]
    Hub(#[from] glassformer_hub::Error),
    /// Of [`crate::model`].
    Model(#[from] glassformer_model::Error),
    /// Of `quantize`.
    #[cfg(feature = "quantize")]
    Quantize(#[from] glassformer_quantize::Error),
    /// Of [`crate::tasks`].
    Tasks(#[from] glassformer_tasks::Error),
    /// A formula that cannot be read, of [`crate::formula`].
    Text(#[from] glassformer_formula::TextError),
    /// Of [`crate::tokens`].
    Tokens(#[from] glassformer_tokens::Error),
    /// Of `train`.
    #[cfg(feature = "train")]
    Train(#[from] glassformer_train::Error),
    /// Of [`crate::weights`].
    Weights(#[from] glassformer_weights::Error),
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system refuses to read or write a file.
    Io,
    /// A model, or a part of it such as its tokenizer, is not there.
    NotFound,
    /// A file is damaged, is not in its format, or does not belong to the others.
    Damaged,
    /// A format, an architecture, a configuration's key or an operation is not supported.
    Unsupported,
    /// The model cannot do what was asked: it lacks a head, a decoder or a chat template.
    Task,
    /// A text is longer than the model reads.
    TooLong,
    /// A text, a request, an option, a formula or a configuration makes no sense.
    Input,
    /// There is not enough memory, or not enough room on a disk.
    Memory,
    /// A hub cannot be reached, or refuses.
    Network,
    /// Something else.
    Other,
}

impl Error {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => engine(error),
            #[cfg(feature = "explain")]
            Self::Explain(error) => explain(error),
            Self::Families(error) => families(error),
            Self::Formula(_) | Self::Text(_) => ErrorKind::Input,
            Self::Graph(error) => graph(error),
            #[cfg(feature = "hub")]
            Self::Hub(error) => hub(error),
            Self::Model(error) => model(error),
            #[cfg(feature = "quantize")]
            Self::Quantize(error) => quantize(error),
            Self::Tasks(error) => tasks(error),
            Self::Tokens(error) => tokens(error),
            #[cfg(feature = "train")]
            Self::Train(error) => train(error),
            Self::Weights(error) => weights(error),
        }
    }
}

fn engine(error: &glassformer_engine::Error) -> ErrorKind {
    use glassformer_engine::Error;
    match error {
        Error::Model(error) => model(error),
        Error::Graph(error) => graph(error),
        Error::Request { .. } => ErrorKind::Input,
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "explain")]
fn explain(error: &glassformer_explain::Error) -> ErrorKind {
    use glassformer_explain::Error;
    match error {
        Error::Engine(error) => engine(error),
        Error::Model(error) => model(error),
        Error::Graph(error) => graph(error),
        Error::Tasks(error) => tasks(error),
        Error::Long { .. } => ErrorKind::TooLong,
        Error::Pair { .. } | Error::NoTensor { .. } | Error::Detail { .. } => ErrorKind::Input,
        _ => ErrorKind::Other,
    }
}

fn families(error: &glassformer_families::Error) -> ErrorKind {
    use glassformer_families::Error;
    match error {
        Error::Model(error) => model(error),
        Error::Weights(error) => weights(error),
        Error::Write { .. } => ErrorKind::Io,
        Error::Unknown { .. } | Error::Key { .. } | Error::Unread(_) => ErrorKind::Unsupported,
        Error::File { .. } | Error::Options { .. } | Error::Tensors(_) => ErrorKind::Damaged,
        _ => ErrorKind::Other,
    }
}

fn graph(error: &glassformer_graph::Error) -> ErrorKind {
    use glassformer_graph::Error;
    match error {
        Error::MissingWeight { .. } | Error::WeightSize { .. } | Error::NotFinite { .. } => {
            ErrorKind::Damaged
        }
        Error::Batch { .. } | Error::Capacity { .. } => ErrorKind::Input,
        Error::Memory { .. } => ErrorKind::Memory,
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "hub")]
fn hub(error: &glassformer_hub::Error) -> ErrorKind {
    use glassformer_hub::Error;
    match error {
        Error::Io { .. } => ErrorKind::Io,
        Error::Room { .. } => ErrorKind::Memory,
        Error::Name { .. } | Error::Setting { .. } | Error::Ambiguous { .. } => ErrorKind::Input,
        Error::Offline { .. }
        | Error::Incomplete { .. }
        | Error::NotCached { .. }
        | Error::NoModel { .. }
        | Error::NoRevision { .. }
        | Error::NoFile { .. }
        | Error::NoWeights { .. } => ErrorKind::NotFound,
        Error::Corrupt { .. } => ErrorKind::Damaged,
        Error::Gated { .. }
        | Error::NotAsked { .. }
        | Error::Token { .. }
        | Error::Listing { .. }
        | Error::Busy { .. }
        | Error::Unreachable { .. }
        | Error::Answer { .. }
        | Error::Broken { .. }
        | Error::Tls { .. } => ErrorKind::Network,
        _ => ErrorKind::Other,
    }
}

fn model(error: &glassformer_model::Error) -> ErrorKind {
    use glassformer_model::Error;
    match error {
        Error::Graph(error) => graph(error),
        Error::Read(error) => weights(error),
        Error::Formula(_) => ErrorKind::Input,
        Error::Purpose { .. } => ErrorKind::Task,
        Error::File { .. } | Error::Weights(_) => ErrorKind::Damaged,
        Error::Memory { .. } => ErrorKind::Memory,
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "quantize")]
fn quantize(error: &glassformer_quantize::Error) -> ErrorKind {
    use glassformer_quantize::Error;
    match error {
        Error::Weights(error) => weights(error),
        Error::Model(error) => model(error),
        Error::Graph(error) => graph(error),
        Error::Engine(error) => engine(error),
        Error::File { .. } => ErrorKind::Damaged,
        _ => ErrorKind::Other,
    }
}

fn tasks(error: &glassformer_tasks::Error) -> ErrorKind {
    use glassformer_tasks::Error;
    match error {
        Error::Open(error) => families(error),
        Error::Tokens(error) => tokens(error),
        Error::Engine(error) => engine(error),
        Error::Head { .. } => ErrorKind::Task,
        Error::Vocabulary { .. } => ErrorKind::Damaged,
        Error::Long { .. } => ErrorKind::TooLong,
        Error::Text { .. } | Error::Option { .. } => ErrorKind::Input,
        _ => ErrorKind::Other,
    }
}

fn tokens(error: &glassformer_tokens::Error) -> ErrorKind {
    use glassformer_tokens::Error;
    match error {
        Error::Io { .. } => ErrorKind::Io,
        Error::Nothing { .. } => ErrorKind::NotFound,
        Error::Large { .. } | Error::Broken { .. } | Error::Template { .. } => ErrorKind::Damaged,
        Error::Unsupported { .. } => ErrorKind::Unsupported,
        Error::LongText { .. } => ErrorKind::TooLong,
        Error::Learn { .. } | Error::Refused { .. } | Error::Conversation { .. } => ErrorKind::Input,
        _ => ErrorKind::Other,
    }
}

#[cfg(feature = "train")]
fn train(error: &glassformer_train::Error) -> ErrorKind {
    use glassformer_train::Error;
    match error {
        Error::Model(error) => model(error),
        Error::Graph(error) => graph(error),
        Error::Families(error) => families(error),
        Error::Weights(error) => weights(error),
        Error::Tokens(error) => tokens(error),
        Error::Tasks(error) => tasks(error),
        Error::NoHead => ErrorKind::Task,
        Error::MissingInput(_) | Error::Config { .. } | Error::Data { .. } => ErrorKind::Input,
        Error::Io { .. } => ErrorKind::Io,
        _ => ErrorKind::Other,
    }
}

fn weights(error: &glassformer_weights::Error) -> ErrorKind {
    use glassformer_weights::Error;
    match error {
        Error::Io { .. } => ErrorKind::Io,
        Error::NoWeights { .. } => ErrorKind::NotFound,
        Error::Ambiguous { .. } | Error::Name { .. } => ErrorKind::Input,
        Error::Unrecognised { .. }
        | Error::Unsupported { .. }
        | Error::Refused { .. }
        | Error::UnknownType { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Damaged,
    }
}
