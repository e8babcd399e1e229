//! Lanes: one connection each, for duties that must not wait behind other statements.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Connector, ReadError};
use crate::writer::connection::{ErrorClass, WriterConnection, classify};

/// A connection for one duty. Its statements have a time limit of their own; whatever exceeds it
/// costs the connection, and the next statement makes another.
pub(crate) struct Lane {
    connection: Mutex<WriterConnection>,
}

impl Lane {
    pub(super) fn new(connector: &Connector) -> Self {
        Self {
            connection: Mutex::new(WriterConnection::over(connector)),
        }
    }

    /// Asks for rows, within `patience`.
    pub(crate) async fn query(
        &self,
        text: &'static str,
        values: &[&(dyn ToSql + Sync)],
        patience: Duration,
    ) -> Result<Vec<Row>, ReadError> {
        let mut connection = self.connection.lock().await;
        let asked = async {
            let ready = connection.prepare(&[text]).await?;
            ready.client.query(ready.statement(text), values).await
        };
        let answer = tokio::time::timeout(patience, asked).await;
        judge(&mut connection, answer)
    }

    /// Carries a statement out, within `patience`, and says how many rows it touched.
    pub(crate) async fn execute(
        &self,
        text: &'static str,
        values: &[&(dyn ToSql + Sync)],
        patience: Duration,
    ) -> Result<u64, ReadError> {
        let mut connection = self.connection.lock().await;
        let asked = async {
            let ready = connection.prepare(&[text]).await?;
            ready.client.execute(ready.statement(text), values).await
        };
        let answer = tokio::time::timeout(patience, asked).await;
        judge(&mut connection, answer)
    }
}

/// Closes the connection unless it is known to work.
fn judge<T>(
    connection: &mut WriterConnection,
    answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
) -> Result<T, ReadError> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            match classify(&error) {
                ErrorClass::Unknown | ErrorClass::Unfit => connection.give_up(),
                ErrorClass::Fenced | ErrorClass::Again | ErrorClass::Refused => {}
            }
            Err(ReadError::Database(error))
        }
        Err(_) => {
            connection.give_up();
            Err(ReadError::Slow)
        }
    }
}
