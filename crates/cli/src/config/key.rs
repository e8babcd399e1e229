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
    /// The keys that callback addresses are signed with, the current one first, each 64 hex digits.
    Secret,
    /// A file that holds them.
    SecretFile,
    /// The master keys that encrypt the data keys, the current one first.
    MasterKeys,
    /// A file that holds them.
    MasterKeysFile,
    /// Special addresses that flows may reach all the same.
    AllowPrivate,
    /// The only hosts that flows may reach.
    AllowHosts,
    /// The folders whose Unix sockets flows may use.
    AllowSockets,
    /// The proxy that HTTP requests of flows go through.
    HttpProxy,
    /// How long a worker's lease holds without renewal.
    Lease,
    /// How many runs one process holds at once.
    Capacity,
    /// How long a destination may still act after an exchange, where its connection does not say.
    SettleMargin,
    /// How long ended runs are kept where their flow does not say.
    History,
    /// Where ended runs are archived: a folder, or s3://BUCKET/PREFIX.
    Archive,
    /// How long archived runs are kept.
    ArchiveKeep,
    /// How long acts of the audit record are kept.
    AuditKeep,
    /// How long tokens that a person made work after that person's last sign-in.
    PersonTokens,
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
    /// Whether only rehearsed releases are promoted.
    RequireRehearsal,
    /// The identity provider that signs people in to the console.
    OidcIssuer,
    /// What it knows this server by.
    OidcClientId,
    /// What this server proves that with.
    OidcClientSecret,
    /// A file that holds it.
    OidcClientSecretFile,
    /// The claim that names a person's groups.
    OidcGroupsClaim,
    /// What is asked of the identity provider.
    OidcScopes,
    /// What people call the identity provider.
    OidcName,
    /// Where health and metrics are served without a token.
    AdminListen,
    /// How many connections one address may have.
    SourceConnections,
    /// The proxies that are believed when they say where a request comes from.
    TrustedProxies,
    /// How much memory `serve` plans with, in MiB.
    Memory,
    /// How long a stop may take.
    StopBound,
    /// Log lines for people or for programs.
    LogFormat,
}

/// What is known of a key.
struct Facts {
    name: &'static str,
    env: &'static str,
    local: Option<&'static str>,
    default: Option<&'static str>,
    shown: Shown,
}

/// How much of a value may be shown.
#[derive(Clone, Copy)]
enum Shown {
    Whole,
    WithoutPassword,
    Nothing,
}

impl Facts {
    const fn new(name: &'static str, env: &'static str) -> Self {
        Self {
            name,
            env,
            local: None,
            default: None,
            shown: Shown::Whole,
        }
    }

    const fn local(mut self, file: &'static str) -> Self {
        self.local = Some(file);
        self
    }

    const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    const fn secret(mut self) -> Self {
        self.shown = Shown::Nothing;
        self
    }

    const fn with_password(mut self) -> Self {
        self.shown = Shown::WithoutPassword;
        self
    }
}

impl Key {
    /// Every key, in the order in which they are shown.
    pub(crate) const ALL: [Self; 42] = [
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
        Self::AllowHosts,
        Self::AllowSockets,
        Self::HttpProxy,
        Self::Lease,
        Self::Capacity,
        Self::SettleMargin,
        Self::History,
        Self::Archive,
        Self::ArchiveKeep,
        Self::AuditKeep,
        Self::PersonTokens,
        Self::Resources,
        Self::StateDir,
        Self::S3Endpoint,
        Self::S3Region,
        Self::S3Access,
        Self::S3Secret,
        Self::HookRate,
        Self::RequireRehearsal,
        Self::OidcIssuer,
        Self::OidcClientId,
        Self::OidcClientSecret,
        Self::OidcClientSecretFile,
        Self::OidcGroupsClaim,
        Self::OidcScopes,
        Self::OidcName,
        Self::AdminListen,
        Self::SourceConnections,
        Self::TrustedProxies,
        Self::Memory,
        Self::StopBound,
        Self::LogFormat,
    ];

    const fn facts(self) -> Facts {
        match self {
            Self::Url => Facts::new("url", "SEMEL_URL")
                .local("url")
                .default("http://127.0.0.1:7171"),
            Self::Token => Facts::new("token", "SEMEL_TOKEN").local("token").secret(),
            Self::Database => Facts::new("serve.database", "DATABASE_URL")
                .local("database")
                .with_password(),
            Self::Listen => Facts::new("serve.listen", "SEMEL_LISTEN").default("127.0.0.1:7171"),
            Self::PublicUrl => Facts::new("serve.public_url", "SEMEL_PUBLIC_URL"),
            Self::Secret => Facts::new("serve.secret_key", "SEMEL_SECRET_KEY").secret(),
            Self::SecretFile => Facts::new("serve.secret_key_file", "SEMEL_SECRET_KEY_FILE"),
            Self::MasterKeys => Facts::new("serve.master_keys", "SEMEL_MASTER_KEYS").secret(),
            Self::MasterKeysFile => Facts::new("serve.master_keys_file", "SEMEL_MASTER_KEYS_FILE"),
            Self::AllowPrivate => Facts::new("serve.allow_private", "SEMEL_ALLOW_PRIVATE"),
            Self::AllowHosts => Facts::new("serve.allow_hosts", "SEMEL_ALLOW_HOSTS"),
            Self::AllowSockets => Facts::new("serve.allow_sockets", "SEMEL_ALLOW_SOCKETS"),
            Self::HttpProxy => Facts::new("serve.http_proxy", "SEMEL_HTTP_PROXY").with_password(),
            Self::Lease => Facts::new("serve.lease", "SEMEL_LEASE").default("30s"),
            Self::Capacity => Facts::new("serve.capacity", "SEMEL_CAPACITY").default("1024"),
            Self::History => Facts::new("serve.history", "SEMEL_HISTORY").default("90d"),
            Self::SettleMargin => {
                Facts::new("serve.settle_margin", "SEMEL_SETTLE_MARGIN").default("60s")
            }
            Self::Archive => Facts::new("serve.archive", "SEMEL_ARCHIVE"),
            Self::ArchiveKeep => Facts::new("serve.archive_keep", "SEMEL_ARCHIVE_KEEP"),
            Self::AuditKeep => Facts::new("serve.audit_keep", "SEMEL_AUDIT_KEEP"),
            Self::PersonTokens => {
                Facts::new("serve.person_tokens", "SEMEL_PERSON_TOKENS").default("30d")
            }
            Self::Resources => Facts::new("serve.resources", "SEMEL_RESOURCES"),
            Self::StateDir => Facts::new("serve.state_dir", "SEMEL_STATE_DIR"),
            Self::S3Endpoint => Facts::new("serve.s3_endpoint", "SEMEL_S3_ENDPOINT"),
            Self::S3Region => Facts::new("serve.s3_region", "SEMEL_S3_REGION"),
            Self::S3Access => Facts::new("serve.s3_access_key", "SEMEL_S3_ACCESS_KEY").secret(),
            Self::S3Secret => Facts::new("serve.s3_secret_key", "SEMEL_S3_SECRET_KEY").secret(),
            Self::HookRate => Facts::new("serve.hook_rate", "SEMEL_HOOK_RATE").default("50"),
            Self::RequireRehearsal => {
                Facts::new("serve.require_rehearsal", "SEMEL_REQUIRE_REHEARSAL").default("true")
            }
            Self::OidcIssuer => Facts::new("serve.oidc_issuer", "SEMEL_OIDC_ISSUER"),
            Self::OidcClientId => Facts::new("serve.oidc_client_id", "SEMEL_OIDC_CLIENT_ID"),
            Self::OidcClientSecret => {
                Facts::new("serve.oidc_client_secret", "SEMEL_OIDC_CLIENT_SECRET").secret()
            }
            Self::OidcClientSecretFile => Facts::new(
                "serve.oidc_client_secret_file",
                "SEMEL_OIDC_CLIENT_SECRET_FILE",
            ),
            Self::OidcGroupsClaim => {
                Facts::new("serve.oidc_groups_claim", "SEMEL_OIDC_GROUPS_CLAIM").default("groups")
            }
            Self::OidcScopes => {
                Facts::new("serve.oidc_scopes", "SEMEL_OIDC_SCOPES").default("openid profile")
            }
            Self::OidcName => Facts::new("serve.oidc_name", "SEMEL_OIDC_NAME"),
            Self::AdminListen => Facts::new("serve.admin_listen", "SEMEL_ADMIN_LISTEN"),
            Self::SourceConnections => {
                Facts::new("serve.source_connections", "SEMEL_SOURCE_CONNECTIONS").default("2048")
            }
            Self::TrustedProxies => Facts::new("serve.trusted_proxies", "SEMEL_TRUSTED_PROXIES"),
            Self::Memory => Facts::new("serve.memory", "SEMEL_MEMORY"),
            Self::StopBound => Facts::new("serve.stop_bound", "SEMEL_STOP_BOUND").default("30s"),
            Self::LogFormat => Facts::new("serve.log_format", "SEMEL_LOG_FORMAT").default("json"),
        }
    }

    /// The key's name.
    pub(crate) const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The variable of the environment.
    pub(crate) const fn env(self) -> &'static str {
        self.facts().env
    }

    /// The file that `semel dev` writes.
    pub(crate) const fn local(self) -> Option<&'static str> {
        self.facts().local
    }

    /// What holds where nothing is configured.
    pub(crate) const fn default(self) -> Option<&'static str> {
        self.facts().default
    }

    /// The value as it may be shown: secrets never are.
    pub(crate) fn shown(self, value: &str) -> String {
        match self.facts().shown {
            Shown::Whole => value.to_owned(),
            Shown::WithoutPassword => without_password(value),
            Shown::Nothing => "(kept secret)".to_owned(),
        }
    }

    /// Whether a value holds a secret.
    pub(crate) fn has_secret(self, value: &str) -> bool {
        match self.facts().shown {
            Shown::Whole => false,
            Shown::WithoutPassword => {
                let url = url::Url::parse(value).ok();
                value.contains("password") || url.is_some_and(|url| url.password().is_some())
            }
            Shown::Nothing => true,
        }
    }
}

/// An address without its password; an address of another form is not taken apart, and
/// is shown only when no password can be in it.
fn without_password(address: &str) -> String {
    match url::Url::parse(address) {
        // `user:password@host` reads as a URL of the scheme `user`.
        Ok(url) if !url.has_authority() && address.contains('@') => "(kept secret)".to_owned(),
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
        Err(_) if address.contains("password") || address.contains('@') => {
            "(kept secret)".to_owned()
        }
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_value_is_seen() {
        for (key, value, has) in [
            (Key::Database, "postgresql://semel:hunter2@h/d", true),
            (Key::Database, "host=h password=hunter2", true),
            (Key::Database, "postgresql://semel@%2Frun/d", false),
            (Key::Token, "t", true),
            (Key::Listen, "127.0.0.1:7171", false),
        ] {
            assert_eq!(key.has_secret(value), has, "{value}");
        }
    }

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
        for address in [
            "me:hunter2@proxy.example:3128",
            "http://me:p/hunter2@proxy:3128",
        ] {
            assert!(
                !Key::HttpProxy.shown(address).contains("hunter2"),
                "{address}"
            );
        }
    }
}
