//! The wire: request and response types, and the client that speaks them.
//!
//! Read in this order: [`types`] is what goes over the wire, [`code`] names every error that a
//! person can meet, and [`Client`] carries both. [`schema`] describes the model's types where the
//! API's document names them. Nothing here decides anything.

pub mod client;
pub mod code;
pub mod schema;
pub mod types;

pub use client::{Answer, Client, ClientError};
pub use code::Code;
pub use types::Problem;
