//! The keys: what can be configured, and where each may be set.

/// One thing that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The server that client commands use.
    Url,
    /// The token that they show.
    Token,
    /// The database of `serve` and `migrate`.
    Database,
    /// Where `serve` listens.
    Listen,
    /// The address that clients reach `serve` by.
    PublicUrl,
    /// The key that callback addresses are signed with, as 64 hex digits.
    Secret,
    /// A file that holds it.
    SecretFile,
    /// The master keys that encrypt the data keys, the current one first.
    MasterKeys,
    /// A file that holds them.
    MasterKeysFile,
    /// Special addresses that flows may reach all the same.
    AllowPrivate,
    /// How long a worker's lease holds without renewal.
    Lease,
    /// How many runs one process holds at once.
    Capacity,
    /// How long a destination may still act after an exchange, where its connection does not say.
    SettleMargin,
    /// Where large outputs are kept: a folder, or s3://BUCKET/PREFIX.
    Resources,
    /// Where answers are kept that could not be recorded before the server stopped.
    StateDir,
    /// The address of the bucket's store, where it is not Amazon's.
    S3Endpoint,
    /// The bucket's region.
    S3Region,
    /// Who authenticates to the bucket.
    S3Access,
    /// With which key.
    S3Secret,
    /// How many deliveries a second each hook takes.
    HookRate,
    /// Where health and metrics are served without a token.
    AdminListen,
    /// How many connections one address may have.
    SourceConnections,
    /// How much memory `serve` plans with, in MiB.
    Memory,
    /// How long a stop may take.
    StopBound,
    /// Log lines for people or for programs.
    LogFormat,
}

impl Key {
    /// Every key, in the order in which they are shown.
    pub(crate) const ALL: [Self; 25] = [
        Self::Url,
        Self::Token,
        Self::Database,
        Self::Listen,
        Self::PublicUrl,
        Self::Secret,
        Self::SecretFile,
        Self::MasterKeys,
        Self::MasterKeysFile,
        Self::AllowPrivate,
        Self::Lease,
        Self::Capacity,
        Self::SettleMargin,
        Self::Resources,
        Self::StateDir,
        Self::S3Endpoint,
        Self::S3Region,
        Self::S3Access,
        Self::S3Secret,
        Self::HookRate,
        Self::AdminListen,
        Self::SourceConnections,
        Self::Memory,
        Self::StopBound,
        Self::LogFormat,
    ];

    /// The key's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Token => "token",
            Self::Database => "serve.database",
            Self::Listen => "serve.listen",
            Self::PublicUrl => "serve.public_url",
            Self::Secret => "serve.secret_key",
            Self::SecretFile => "serve.secret_key_file",
            Self::MasterKeys => "serve.master_keys",
            Self::MasterKeysFile => "serve.master_keys_file",
            Self::AllowPrivate => "serve.allow_private",
            Self::Lease => "serve.lease",
            Self::Capacity => "serve.capacity",
            Self::SettleMargin => "serve.settle_margin",
            Self::Resources => "serve.resources",
            Self::StateDir => "serve.state_dir",
            Self::S3Endpoint => "serve.s3_endpoint",
            Self::S3Region => "serve.s3_region",
            Self::S3Access => "serve.s3_access_key",
            Self::S3Secret => "serve.s3_secret_key",
            Self::HookRate => "serve.hook_rate",
            Self::AdminListen => "serve.admin_listen",
            Self::SourceConnections => "serve.source_connections",
            Self::Memory => "serve.memory",
            Self::StopBound => "serve.stop_bound",
            Self::LogFormat => "serve.log_format",
        }
    }

    /// The variable of the environment.
    pub(crate) const fn env(self) -> Option<&'static str> {
        Some(match self {
            Self::Url => "SEMEL_URL",
            Self::Token => "SEMEL_TOKEN",
            Self::Database => "DATABASE_URL",
            Self::Listen => "SEMEL_LISTEN",
            Self::PublicUrl => "SEMEL_PUBLIC_URL",
            Self::Secret => "SEMEL_SECRET_KEY",
            Self::SecretFile => "SEMEL_SECRET_KEY_FILE",
            Self::MasterKeys => "SEMEL_MASTER_KEYS",
            Self::MasterKeysFile => "SEMEL_MASTER_KEYS_FILE",
            Self::AllowPrivate => "SEMEL_ALLOW_PRIVATE",
            Self::Lease => "SEMEL_LEASE",
            Self::Capacity => "SEMEL_CAPACITY",
            Self::SettleMargin => "SEMEL_SETTLE_MARGIN",
            Self::Resources => "SEMEL_RESOURCES",
            Self::StateDir => "SEMEL_STATE_DIR",
            Self::S3Endpoint => "SEMEL_S3_ENDPOINT",
            Self::S3Region => "SEMEL_S3_REGION",
            Self::S3Access => "SEMEL_S3_ACCESS_KEY",
            Self::S3Secret => "SEMEL_S3_SECRET_KEY",
            Self::HookRate => "SEMEL_HOOK_RATE",
            Self::AdminListen => "SEMEL_ADMIN_LISTEN",
            Self::SourceConnections => "SEMEL_SOURCE_CONNECTIONS",
            Self::Memory => "SEMEL_MEMORY",
            Self::StopBound => "SEMEL_STOP_BOUND",
            Self::LogFormat => "SEMEL_LOG_FORMAT",
        })
    }

    /// The file that `semel dev` writes.
    pub(crate) const fn local(self) -> Option<&'static str> {
        match self {
            Self::Url => Some("url"),
            Self::Token => Some("token"),
            Self::Database => Some("database"),
            Self::Listen
            | Self::PublicUrl
            | Self::Secret
            | Self::SecretFile
            | Self::MasterKeys
            | Self::MasterKeysFile
            | Self::AllowPrivate
            | Self::Lease
            | Self::Capacity
            | Self::SettleMargin
            | Self::Resources
            | Self::StateDir
            | Self::S3Endpoint
            | Self::S3Region
            | Self::S3Access
            | Self::S3Secret
            | Self::HookRate
            | Self::AdminListen
            | Self::SourceConnections
            | Self::Memory
            | Self::StopBound
            | Self::LogFormat => None,
        }
    }

    /// The value if none is given.
    pub(crate) const fn default(self) -> Option<&'static str> {
        match self {
            Self::Url => Some("http://127.0.0.1:7171"),
            Self::Listen => Some("127.0.0.1:7171"),
            Self::Lease => Some("30s"),
            Self::Capacity => Some("1024"),
            Self::SettleMargin => Some("60s"),
            Self::HookRate => Some("50"),
            Self::SourceConnections => Some("2048"),
            Self::StopBound => Some("30s"),
            Self::LogFormat => Some("json"),
            Self::Token
            | Self::Database
            | Self::PublicUrl
            | Self::Secret
            | Self::SecretFile
            | Self::Resources
            | Self::StateDir
            | Self::S3Endpoint
            | Self::S3Region
            | Self::S3Access
            | Self::S3Secret
            | Self::MasterKeys
            | Self::MasterKeysFile
            | Self::AdminListen
            | Self::Memory
            | Self::AllowPrivate => None,
        }
    }

    /// The value as it may be shown: secrets never are.
    pub(crate) fn shown(self, value: &str) -> String {
        match self {
            Self::Token | Self::Secret | Self::MasterKeys | Self::S3Access | Self::S3Secret => {
                "(kept secret)".to_owned()
            }
            Self::Database => without_password(value),
            Self::Url
            | Self::Listen
            | Self::PublicUrl
            | Self::SecretFile
            | Self::MasterKeysFile
            | Self::AllowPrivate
            | Self::Lease
            | Self::Capacity
            | Self::SettleMargin
            | Self::Resources
            | Self::StateDir
            | Self::S3Endpoint
            | Self::S3Region
            | Self::HookRate
            | Self::AdminListen
            | Self::SourceConnections
            | Self::Memory
            | Self::StopBound
            | Self::LogFormat => value.to_owned(),
        }
    }
}

/// A database's address without its password; an address of another form is not taken apart, and
/// is shown only when no password can be in it.
fn without_password(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(mut url) => {
            if url.password().is_some() {
                // Fails for addresses that cannot have one, which then have none to show.
                let _ = url.set_password(Some("***"));
            }
            if address.contains("password=") {
                url.set_query(None);
            }
            url.to_string()
        }
        Err(_) if address.contains("password") => "(kept secret)".to_owned(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let shown = Key::Database.shown("postgresql://semel:hunter2@db.example/semel");

        assert_eq!(shown, "postgresql://semel:***@db.example/semel");
        assert!(
            !Key::Database
                .shown("host=x password=hunter2")
                .contains("hunter2")
        );
        assert!(
            !Key::Database
                .shown("postgresql://h/d?password=hunter2")
                .contains("hunter2")
        );
    }
}
