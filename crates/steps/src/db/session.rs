//! A connection in the middle of a transaction.

use semel_model::{Doubt, Fault, Span};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::classify::{self, Ended};
use super::link::Link;
use super::pool::Object;
use super::{Stop, WIRE_BYTES_MAX};
use crate::wire::Cut;

/// What a transaction may do.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Writing,
    ReadOnly,
}

/// A connection in the middle of a transaction.
///
/// Dropped before the transaction's end, it closes the connection: the pool must never hand out
/// one on which another effect is still open.
pub(super) struct Session {
    client: Option<Object>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Session {
    /// Opens a transaction whose statements end by themselves when the request's time is up.
    pub(super) async fn begin(client: Object, mode: Mode, timeout: Span) -> Result<Self, Fault> {
        let session = Self {
            client: Some(client),
        };
        let begin = match mode {
            Mode::Writing => "BEGIN READ WRITE",
            Mode::ReadOnly => "BEGIN READ ONLY",
        };
        session.link().expect_answer();
        let client = session.client();
        client.batch_execute(begin).await.map_err(classify::fault)?;
        let patience_ms = timeout.as_millis().clamp(1, 86_400_000);
        // A statement that waits for a lock gives up first: what it says then is of more use.
        let lock_ms = (patience_ms / 2).max(1).to_string();
        let patience_ms = patience_ms.to_string();
        client
            .query_typed(
                "SELECT set_config('statement_timeout', $1, true),
                        set_config('idle_in_transaction_session_timeout', $1, true),
                        set_config('lock_timeout', $2, true)",
                &[(&patience_ms, Type::TEXT), (&lock_ms, Type::TEXT)],
            )
            .await
            .map_err(classify::fault)?;
        Ok(session)
    }

    /// The connection.
    pub(super) fn client(&self) -> &Client {
        self.link()
    }

    fn link(&self) -> &Link {
        match &self.client {
            Some(client) => client,
            None => unreachable!("a session holds its connection until it ends"),
        }
    }

    /// A fault from before the commit. Where the connection was broken off here, it says why: of an
    /// answer that is too large, the statement would answer the same again.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        match self.link().cut() {
            Some(cut) if fault.code == "no-connection" => explain_cut(cut),
            Some(_) | None => fault,
        }
    }

    /// Ends the transaction without a change and gives the connection back.
    pub(super) async fn roll_back(mut self) {
        self.link().expect_little();
        if self.client().batch_execute("ROLLBACK").await.is_ok() {
            self.give_back();
        }
    }

    /// Gives the connection back, unless a large answer came over it: the driver keeps the room of
    /// that for as long as the connection stands, so that it is closed instead.
    fn give_back(&mut self) {
        if !self.link().is_grown() {
            drop(self.client.take());
        }
    }

    /// Commits. From here on, silence is doubt.
    pub(super) async fn commit(mut self, patience: Instant) -> Result<(), Stop> {
        // From here on the connection is not broken off for the sake of others: that would be a doubt.
        self.link().expect_little();
        if self.client().is_closed() || self.link().cut().is_some() {
            let message = "the connection broke before the transaction was committed";
            return Err(self
                .explain(Fault::passing("no-connection", message))
                .into());
        }
        let answer = timeout_at(patience, self.client().batch_execute("COMMIT")).await;
        match answer {
            Ok(Ok(())) => {
                self.give_back();
                Ok(())
            }
            Ok(Err(error)) => match classify::commit_ended(&error) {
                Ended::RolledBack => Err(classify::fault(error).into()),
                Ended::Unknown => Err(no_answer(&classify::describe(&error))),
            },
            Err(_) => Err(no_answer("timed out")),
        }
    }
}

fn explain_cut(cut: Cut) -> Fault {
    match cut {
        Cut::TooMuch => {
            let message = format!(
                "the server sent more than {WIRE_BYTES_MAX} bytes: select fewer columns or rows"
            );
            Fault::permanent("result-too-large", message)
        }
        Cut::ForOthers => {
            let message = "the server was slow to send a large answer while others waited for \
                           theirs: the transaction is rolled back";
            Fault::passing("timeout", message)
        }
    }
}

fn no_answer(seen: &str) -> Stop {
    let message = format!("COMMIT was sent and not answered: {seen}");
    Stop::InDoubt(Doubt::new("no-answer", message))
}
