//! The `notify` executor: mail on a real mail server, Slack and webhooks on a peer.

mod floods;
mod mail;
mod posts;
mod starttls;
pub(crate) mod world;
