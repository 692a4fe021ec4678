//! The verbs, a file each.

pub mod bench;
pub mod chat;
pub mod evaluate;
pub mod explain;
pub mod formula;
pub mod forward;
pub mod generate;
pub mod glass;
pub mod hub;
pub mod init;
pub mod program;
pub mod quantize;
pub mod serve;
pub mod show;
pub mod tasks;
pub mod tokens;
pub mod train;
pub mod verify;
pub mod write;
