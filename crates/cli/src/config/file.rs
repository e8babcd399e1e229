//! `semel.toml` of the working directory. Unknown keys are refused.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use super::key::Key;
use crate::answer::Problem;
use crate::code;
use crate::outcome::Outcome;

/// The file's name.
pub(super) const NAME: &str = "semel.toml";

/// What the file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    url: Option<String>,
    token: Option<String>,
    #[serde(default)]
    serve: Serve,
}

/// What it says about `semel serve`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Serve {
    database: Option<String>,
    listen: Option<String>,
    public_url: Option<String>,
    secret_key_file: Option<String>,
    master_keys_file: Option<String>,
    allow_private: Option<String>,
    allow_hosts: Option<String>,
    allow_sockets: Option<String>,
    http_proxy: Option<String>,
    lease: Option<String>,
    capacity: Option<u32>,
    settle_margin: Option<String>,
    history: Option<String>,
    archive: Option<String>,
    archive_keep: Option<String>,
    audit_keep: Option<String>,
    person_tokens: Option<String>,
    resources: Option<String>,
    state_dir: Option<String>,
    s3_endpoint: Option<String>,
    s3_region: Option<String>,
    hook_rate: Option<u32>,
    require_rehearsal: Option<bool>,
    oidc_issuer: Option<String>,
    oidc_client_id: Option<String>,
    oidc_client_secret_file: Option<String>,
    oidc_groups_claim: Option<String>,
    oidc_scopes: Option<String>,
    oidc_name: Option<String>,
    admin_listen: Option<String>,
    source_connections: Option<u32>,
    trusted_proxies: Option<String>,
    memory: Option<u32>,
    stop_bound: Option<String>,
    log_format: Option<String>,
}

impl File {
    /// Reads the file of a directory; a missing one says nothing.
    pub(super) fn read(directory: &Path) -> Result<Self, Problem> {
        let text = match std::fs::read_to_string(directory.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(broken(&error.to_string())),
        };
        toml::from_str(&text).map_err(|error| broken(&error.to_string()))
    }

    /// What it says of a key.
    pub(super) fn find(&self, key: Key) -> Option<String> {
        match key {
            Key::Url => self.url.clone(),
            Key::Token => self.token.clone(),
            Key::Database => self.serve.database.clone(),
            Key::Listen => self.serve.listen.clone(),
            Key::PublicUrl => self.serve.public_url.clone(),
            // Keys that open every callback or every output do not belong beside the flows.
            Key::Secret
            | Key::MasterKeys
            | Key::S3Access
            | Key::S3Secret
            | Key::OidcClientSecret => None,
            Key::OidcIssuer => self.serve.oidc_issuer.clone(),
            Key::OidcClientId => self.serve.oidc_client_id.clone(),
            Key::OidcClientSecretFile => self.serve.oidc_client_secret_file.clone(),
            Key::OidcGroupsClaim => self.serve.oidc_groups_claim.clone(),
            Key::OidcScopes => self.serve.oidc_scopes.clone(),
            Key::OidcName => self.serve.oidc_name.clone(),
            Key::SecretFile => self.serve.secret_key_file.clone(),
            Key::MasterKeysFile => self.serve.master_keys_file.clone(),
            Key::AllowPrivate => self.serve.allow_private.clone(),
            Key::AllowHosts => self.serve.allow_hosts.clone(),
            Key::AllowSockets => self.serve.allow_sockets.clone(),
            Key::HttpProxy => self.serve.http_proxy.clone(),
            Key::Lease => self.serve.lease.clone(),
            Key::Capacity => self.serve.capacity.map(|capacity| capacity.to_string()),
            Key::SettleMargin => self.serve.settle_margin.clone(),
            Key::History => self.serve.history.clone(),
            Key::Archive => self.serve.archive.clone(),
            Key::ArchiveKeep => self.serve.archive_keep.clone(),
            Key::AuditKeep => self.serve.audit_keep.clone(),
            Key::PersonTokens => self.serve.person_tokens.clone(),
            Key::Resources => self.serve.resources.clone(),
            Key::StateDir => self.serve.state_dir.clone(),
            Key::S3Endpoint => self.serve.s3_endpoint.clone(),
            Key::S3Region => self.serve.s3_region.clone(),
            Key::HookRate => self.serve.hook_rate.map(|rate| rate.to_string()),
            Key::RequireRehearsal => self.serve.require_rehearsal.map(|it| it.to_string()),
            Key::AdminListen => self.serve.admin_listen.clone(),
            Key::SourceConnections => self.serve.source_connections.map(|most| most.to_string()),
            Key::TrustedProxies => self.serve.trusted_proxies.clone(),
            Key::Memory => self.serve.memory.map(|mib| mib.to_string()),
            Key::StopBound => self.serve.stop_bound.clone(),
            Key::LogFormat => self.serve.log_format.clone(),
        }
    }
}

fn broken(why: &str) -> Problem {
    let message = format!("{NAME} cannot be read: {why}");
    Problem::new(Outcome::Usage, code::CONFIG, message.trim_end())
        .hint("fix the file; `semel config show` shows each value and where it came from")
}
