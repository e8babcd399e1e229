//! PostgreSQL as a destination: which Unix sockets lead to it, and whose database answers.
//!
//! An address says where packets go, and not whose database is there: a socket, a proxy or a
//! forwarded port may lead to the engine's own, where a statement could read every token. So each
//! new connection asks the server for its identity before a flow may use it.
//!
//! ```text
//! socket      ─▶ folder allowed by name? ─▶ another server than the engine's, and proven ─▶ used
//! address     ─▶ admitted? ─▶ another server, or another database of an address opened by name ─▶ used
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use semel_model::{DatabaseIdentity, Fault};

use super::{Egress, OWN_MAX};

impl Egress {
    /// Allows the Unix sockets in these folders.
    #[must_use]
    pub fn allowing_sockets(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.sockets = folders.into_iter().collect();
        self
    }

    /// Closes the engine's own database, here and in every clone, by whatever way a connection
    /// leads there.
    pub fn close_database(&self, own: DatabaseIdentity) {
        let mut closed = self
            .databases
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !closed.contains(&own) {
            closed.push(own);
        }
        let surplus = closed.len().saturating_sub(OWN_MAX);
        closed.drain(..surplus);
    }

    /// The socket of a PostgreSQL in a folder that the operator allowed, without symbolic links.
    ///
    /// # Errors
    ///
    /// If the folder is not allowed, the socket leads out of it, or it is not there.
    pub async fn resolve_socket(&self, folder: &str, port: u16) -> Result<PathBuf, Fault> {
        if self.sockets.is_empty() {
            return Err(socket_refused(folder));
        }
        let socket = Path::new(folder).join(format!(".s.PGSQL.{port}"));
        let real = match tokio::fs::canonicalize(&socket).await {
            Ok(real) => real,
            // Only of an allowed folder is it told what lies there.
            Err(error)
                if self
                    .sockets
                    .iter()
                    .any(|allowed| allowed == Path::new(folder)) =>
            {
                let message = format!("{}: {error}", socket.display());
                return Err(Fault::passing("no-connection", message));
            }
            Err(_) => return Err(socket_refused(folder)),
        };
        for allowed in &self.sockets {
            let allowed = tokio::fs::canonicalize(allowed).await.ok();
            if allowed.is_some() && allowed.as_deref() == real.parent() {
                return Ok(real);
            }
        }
        Err(socket_refused(folder))
    }

    /// Whether a database that a socket leads to may be used. Nobody checked an address here, so the
    /// server has to prove that it is not the engine's own.
    #[must_use]
    pub fn admits_database_by_socket(&self, found: Option<DatabaseIdentity>) -> bool {
        let own = self
            .databases
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let is_other = |found: DatabaseIdentity| own.iter().all(|own| own.system != found.system);
        !own.is_empty() && found.is_some_and(is_other)
    }

    /// Whether a database that an admitted address leads to may be used. A server that does not say
    /// who it is passes: it may be none of PostgreSQL's, and the engine's own does say it.
    #[must_use]
    pub fn admits_database_at(&self, address: SocketAddr, found: Option<DatabaseIdentity>) -> bool {
        let Some(found) = found else {
            return true;
        };
        let by_name = self.opens_by_name(address.ip().to_canonical());
        let own = self
            .databases
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        own.iter()
            .all(|own| own.system != found.system || (by_name && own.database != found.database))
    }
}

/// A connection led to the engine's own database server.
pub(crate) fn own_database(host: &str) -> Fault {
    let rule = match host.starts_with('/') {
        true => {
            "or to one that does not say who it is, and flows reach neither by a socket. Another database of Semel's \
             own server is reached by host and port, once an operator names its very address in \
             `serve.allow_private`, as ADDRESS/32 (ADDRESS/128 for IPv6)"
        }
        false => {
            "which a range in `serve.allow_private` does not open. To let flows use another database of that server, \
             an operator names its very address there, as ADDRESS/32 (ADDRESS/128 for IPv6); Semel's own database \
             stays closed"
        }
    };
    let message = format!(
        "{host} leads to Semel's own PostgreSQL, {rule}. See `semel explain address-refused`"
    );
    Fault::permanent("address-refused", message)
}

fn socket_refused(folder: &str) -> Fault {
    let message = format!(
        "flows may not use the sockets in {folder}; an operator can allow the folder with `serve.allow_sockets`"
    );
    Fault::permanent("address-refused", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: DatabaseIdentity = DatabaseIdentity {
        system: 7,
        database: 5,
    };

    const BESIDE: DatabaseIdentity = DatabaseIdentity {
        system: 7,
        database: 6,
    };

    const OTHER: DatabaseIdentity = DatabaseIdentity {
        system: 8,
        database: 5,
    };

    #[test]
    fn a_socket_is_used_only_where_the_server_proves_that_it_is_another() {
        let unknown = Egress::open();
        let known = Egress::open();
        known.close_database(OWN);

        assert!(!unknown.admits_database_by_socket(Some(OTHER)));
        assert!(known.admits_database_by_socket(Some(OTHER)));
        for refused in [Some(OWN), Some(BESIDE), None] {
            assert!(!known.admits_database_by_socket(refused), "{refused:?}");
        }
    }

    #[test]
    fn an_address_that_is_opened_by_name_opens_other_databases_and_never_the_own_one() {
        let address = "127.0.0.1:6432".parse().unwrap();
        let range = Egress::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let named = Egress::new(vec!["127.0.0.1/32".parse().unwrap()]);
        range.close_database(OWN);
        named.clone().close_database(OWN);

        for passes in [Some(OTHER), None] {
            assert!(range.admits_database_at(address, passes), "{passes:?}");
        }
        assert!(!range.admits_database_at(address, Some(OWN)));
        assert!(!range.admits_database_at(address, Some(BESIDE)));
        assert!(named.admits_database_at(address, Some(BESIDE)));
        assert!(!named.admits_database_at(address, Some(OWN)));
    }
}
