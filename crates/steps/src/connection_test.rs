//! Trying a destination before a flow does: nothing is sent there that could change anything.

use std::time::Duration;

use semel_model::Fault;
use semel_model::connection::Target;
use tokio::net::TcpStream;
use url::Url;

use crate::destination::Destination;
use crate::executors::Executors;

/// How long a destination may take to be reached.
const PATIENCE: Duration = Duration::from_secs(5);

impl Executors {
    /// Tries whether a destination can be reached, and says what was found.
    ///
    /// # Errors
    ///
    /// What stands in the way.
    pub async fn test(&self, to: &Destination) -> Result<String, Fault> {
        for name in to.connection.secrets() {
            to.secret(name)?;
        }
        let said = match &to.connection.to {
            Target::Postgres(_) => self.db.test(to).await,
            Target::Ssh(_) => self.ssh.test(to).await,
            Target::Smtp(_) => self.notify.test(to).await,
            Target::Http(_) | Target::Slack(_) | Target::Webhook(_) | Target::Llm(_) => {
                self.reach_out(to).await
            }
        };
        said.map_err(|fault| to.redactor().redact_fault(fault))
    }

    /// Whether a connection to an address stands. Whether authentication works, only a call can
    /// tell.
    async fn reach_out(&self, to: &Destination) -> Result<String, Fault> {
        let (host, port) = address(to)?;
        let addresses = self.egress.resolve(to.namespace_id, &host, port).await?;
        let mut last = None;
        for address in &addresses {
            match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(_)) => {
                    return Ok(format!(
                        "{host}:{port} can be reached; authentication was not tested"
                    ));
                }
                Ok(Err(error)) => last = Some(error.to_string()),
                Err(_) => last = Some(format!("no answer within {} s", PATIENCE.as_secs())),
            }
        }
        let why = last.unwrap_or_else(|| "no address".to_owned());
        let message = format!("{host}:{port} cannot be reached: {why}");
        Err(Fault::passing("no-connection", message))
    }

    /// Makes what effects need at a destination, and says what that is. May be repeated.
    ///
    /// # Errors
    ///
    /// What stands in the way.
    pub async fn prepare(&self, to: &Destination) -> Result<String, Fault> {
        match &to.connection.to {
            Target::Postgres(_) => match self.db.prepare(to).await {
                Ok(()) => Ok("the table of markers exists".to_owned()),
                Err(fault) => Err(to.redactor().redact_fault(fault)),
            },
            Target::Http(_)
            | Target::Smtp(_)
            | Target::Ssh(_)
            | Target::Slack(_)
            | Target::Webhook(_)
            | Target::Llm(_) => {
                let kind = to.connection.kind();
                Ok(format!(
                    "a connection of the kind {kind} needs no preparation"
                ))
            }
        }
    }
}

/// Where a destination listens.
fn address(to: &Destination) -> Result<(String, u16), Fault> {
    let (host, port) = match &to.connection.to {
        Target::Http(http) => return address_of(&http.base_url),
        Target::Slack(slack) => return address_of(&slack.base_url),
        Target::Webhook(webhook) => return address_of(&webhook.url),
        Target::Llm(llm) => return address_of(&llm.base_url),
        Target::Postgres(postgres) => (&postgres.host, postgres.port),
        Target::Smtp(smtp) => (&smtp.host, smtp.port),
        Target::Ssh(ssh) => (&ssh.host, ssh.port),
    };
    Ok((host.clone(), port))
}

fn address_of(url: &str) -> Result<(String, u16), Fault> {
    let read = Url::parse(url).ok();
    let address = read.and_then(|url| {
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        Some((host, url.port_or_known_default()?))
    });
    address.ok_or_else(|| Fault::permanent("address-invalid", "the connection has no address"))
}
