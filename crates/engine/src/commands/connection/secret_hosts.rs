//! Secrets and hosts: a connection may send a secret only where its owner said that it may go.

use std::sync::Arc;

use semel_model::Connection;
use semel_store::connections::{self, ConnectionRow};

use super::{ConnectionError, validate};
use crate::runtime::Runtime;
use crate::vault::hosts;

impl Runtime {
    /// Checks that a connection sends its secrets where they are bound to. Gives those that need the right
    /// to set them, because who stores it decides where they go or who can read them on the way: they are
    /// not set or may go to any host, no connection uses them in this way, or the connection is not
    /// encrypted. A connection that leads where it leads already needs nothing. Where no connection uses a
    /// secret, nothing says how it may be used: whoever deletes its connection must not choose another way.
    ///
    /// # Errors
    ///
    /// Where it is not valid, or one is bound to other hosts.
    pub async fn check_secret_hosts(
        self: &Arc<Self>,
        namespace_id: i32,
        name: &str,
        connection: &Connection,
    ) -> Result<Vec<String>, ConnectionError> {
        validate(connection).map_err(ConnectionError::Invalid)?;
        let hosts = hosts::of_connection(connection);
        let known = self.vault.list(namespace_id).await?;
        let stored = connections::list(self.cell.home(), namespace_id).await?;
        let is_kept = |secret: &str, known: &ConnectionRow| {
            known.name == name
                && known.connection.to == connection.to
                && known.connection.secrets().contains(&secret)
        };
        let mut in_question = Vec::new();
        for secret in connection.secrets() {
            let bound = known.iter().find(|view| view.name == secret);
            let bound = bound.map_or(&[][..], |view| &view.hosts);
            if let Some(host) = hosts::find_unbound(bound, &hosts) {
                return Err(ConnectionError::SecretBoundElsewhere {
                    secret: secret.to_owned(),
                    host: host.to_owned(),
                });
            }
            if stored.iter().any(|known| is_kept(secret, known)) {
                continue;
            }
            let users = stored.iter().map(|row| &row.connection);
            let mut users = users.filter(|known| known.secrets().contains(&secret));
            let is_new_way = !users.any(|known| hosts::is_same_way(known, connection));
            if bound.is_empty() || is_new_way || !hosts::is_encrypted(connection) {
                in_question.push(secret.to_owned());
            }
        }
        Ok(in_question)
    }
}
