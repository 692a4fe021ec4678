//! Models by name: found in the cache that Hugging Face's own tools use, or fetched into it.
//!
//! [`Hub::open`] turns a [`Name`] such as `org/name`, `org/name@revision` or `org/name:file.gguf` into a folder or file.
//! What the cache holds is used without a network. What is missing is fetched: only the files that a model needs,
//! resumed after a break, with size and hash checked. Nothing that a server says is trusted.
//!
//! ```no_run
//! use glassformer_hub::{Hub, Name};
//!
//! let hub = Hub::from_env()?;
//! let name: Name = "HuggingFaceTB/SmolLM2-135M-Instruct".parse()?;
//! let folder = hub.open(&name, &|_| ())?;
//! # Ok::<(), glassformer_hub::Error>(())
//! ```
//!
//! Reading order: `name`, `settings` (the environment), `cache` (the layout on disk), `listing` (what a model has),
//! `wanted` (what of it is needed), `hub` (open and pull), `fetch` (one file), `client` (requests, redirects, retries),
//! `tls`, `proxy`, and `inventory` (list and remove). This crate knows no model: it deals in files.
#![forbid(unsafe_code)]

mod ask;
mod cache;
mod client;
mod digest;
mod disk;
mod error;
mod fetch;
mod hub;
mod inventory;
mod listing;
mod name;
mod near;
mod proxy;
mod settings;
mod status;
mod tls;
mod url;
mod wanted;
mod watch;

pub use disk::bytes;
pub use error::Error;
pub use hub::{Hub, Pulled};
pub use inventory::{File, Model, Removal, Revision};
pub use name::Name;
pub use proxy::Proxies;
pub use settings::{Network, Patience, Settings};
pub use watch::{Event, Watch};
