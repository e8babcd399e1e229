//! Conformance: every executor passes one suite, against a real server of its kind.
//!
//! A line of the table is an executor and a kind of destination. A new executor has a line here, or
//! `the_table_has_every_executor` fails.

mod subject;
mod subjects;
mod suite;

use std::collections::BTreeSet;

use anyhow::Result;
use semel_model::request::ExternalRequest;
use semel_steps::Executors;

use self::subject::{Repeat, Subject};
use self::subjects::db::Db;
use self::subjects::http::Http;
use self::subjects::llm::{Anthropic, Openai};
use self::subjects::notify::{Mail, Slack, Webhook};
use self::subjects::ssh::{Ssh, SshWithMarker};

/// Makes the table, and the tests of the suite for each of its lines.
macro_rules! table {
    ($($name:ident => $subject:ty;)+) => {
        /// The kind of step and what a repeat comes to, for each line.
        const TABLE: &[(&str, Repeat)] = &[$((<$subject>::KIND, <$subject>::REPEAT),)+];

        $(mod $name {
            use super::*;

            #[tokio::test]
            async fn it_performs_what_it_is_asked() -> Result<()> {
                suite::perform::<$subject>().await
            }

            #[tokio::test]
            async fn a_refusal_is_a_failure_and_nothing_happened() -> Result<()> {
                suite::refuse::<$subject>().await
            }

            #[tokio::test]
            async fn a_timeout_before_the_first_byte_is_a_failure() -> Result<()> {
                suite::time_out_before_sending::<$subject>().await
            }

            #[tokio::test]
            async fn a_timeout_after_the_request_was_sent_is_a_doubt() -> Result<()> {
                suite::time_out_after_sending::<$subject>().await
            }

            #[tokio::test]
            async fn a_lost_answer_is_a_doubt() -> Result<()> {
                suite::lose_answer::<$subject>().await
            }

            #[tokio::test]
            async fn an_answer_that_comes_late_is_the_answer() -> Result<()> {
                suite::answer_late::<$subject>().await
            }

            #[tokio::test]
            async fn an_answer_that_comes_too_late_is_not_taken_for_the_next() -> Result<()> {
                suite::answer_too_late::<$subject>().await
            }

            #[tokio::test]
            async fn a_repeat_under_the_same_key_does_what_its_kind_declares() -> Result<()> {
                suite::repeat::<$subject>().await
            }
        })+
    };
}

table! {
    http => Http;
    db => Db;
    ssh => Ssh;
    ssh_with_marker => SshWithMarker;
    mail => Mail;
    slack => Slack;
    webhook => Webhook;
    openai => Openai;
    anthropic => Anthropic;
}

#[test]
fn the_table_has_every_executor() {
    let tested: BTreeSet<&str> = TABLE.iter().map(|(kind, _)| *kind).collect();
    let registered: BTreeSet<&str> = Executors::KINDS.iter().copied().collect();

    assert_eq!(tested, registered);
}

#[test]
fn an_executor_is_called_as_its_request_is() {
    assert_eq!(Executors::KINDS, ExternalRequest::KINDS);
}

#[test]
fn an_executor_that_repeats_what_it_did_says_why() {
    for (kind, repeat) in TABLE {
        if let Repeat::Again(reason) = repeat {
            assert!(!reason.is_empty(), "{kind}");
        }
    }
}
