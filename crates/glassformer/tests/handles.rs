//! What programs hold on to can be shared by threads.

use glassformer::explain::{Trace, Walkthrough};
use glassformer::hub::Hub;
use glassformer::tokens::Tokenizer;
use glassformer::train::{Run, Trainer};
use glassformer::{
    Backend, Cpu, Error, Formula, Generator, Model, Session, TextEncoder, TextGenerator, Translator, Weights,
};

fn shared<T: ?Sized + Send + Sync>() {}

fn sent<T: Send>() {}

#[test]
fn handles_are_send_and_sync() {
    shared::<TextEncoder>();
    shared::<TextGenerator>();
    shared::<Translator>();
    shared::<Model>();
    shared::<Weights>();
    shared::<Tokenizer>();
    shared::<Formula>();
    shared::<Generator>();
    shared::<Cpu>();
    shared::<dyn Backend>();
    shared::<Hub>();
    shared::<Trace>();
    shared::<Walkthrough>();
    shared::<Error>();
    // One thread at a time.
    sent::<Session>();
    sent::<Trainer>();
    sent::<Run>();
}
