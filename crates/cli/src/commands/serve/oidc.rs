//! The identity provider that signs people in to the console.

use semel_model::SecretText;
use semel_server::oidc::OidcOptions;

use super::keys;
use crate::answer::Problem;
use crate::config::Key;
use crate::context::Context;

/// Which identity provider signs people in.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ProviderArguments {
    /// The identity provider that signs people in to the console, exactly as it names itself [env:
    /// SEMEL_OIDC_ISSUER] [default: none].
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// What the identity provider knows this server by [env: SEMEL_OIDC_CLIENT_ID].
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// A file with the secret of that client [env: SEMEL_OIDC_CLIENT_SECRET_FILE; or the secret itself
    /// in SEMEL_OIDC_CLIENT_SECRET].
    #[arg(long, value_name = "FILE")]
    oidc_client_secret_file: Option<String>,
    /// The claim that names a person's groups [env: SEMEL_OIDC_GROUPS_CLAIM] [default: groups].
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// What is asked of the identity provider [env: SEMEL_OIDC_SCOPES] [default: openid profile].
    #[arg(long, value_name = "SCOPES")]
    oidc_scopes: Option<String>,
    /// What people call the identity provider [env: SEMEL_OIDC_NAME] [default: its host].
    #[arg(long, value_name = "NAME")]
    oidc_name: Option<String>,
}

/// The identity provider, where one is configured.
pub(crate) fn configured(
    ctx: &Context,
    arguments: &ProviderArguments,
) -> Result<Option<OidcOptions>, Problem> {
    let find = |key, flag: &Option<String>| {
        let setting = ctx.config.find(key, flag.as_deref());
        setting.map(|setting| setting.value)
    };
    let Some(issuer) = find(Key::OidcIssuer, &arguments.oidc_issuer) else {
        return Ok(None);
    };
    let Some(client) = find(Key::OidcClientId, &arguments.oidc_client_id) else {
        return Err(
            Problem::usage("an identity provider is configured, and no client")
                .hint("set SEMEL_OIDC_CLIENT_ID to what the provider knows this server by"),
        );
    };
    let mut options = OidcOptions::new(&issuer, &client)
        .map_err(|why| Problem::usage(format!("serve.oidc_issuer cannot be used: {why}")))?;
    let file = arguments.oidc_client_secret_file.as_deref();
    let secret = keys::find(ctx, Key::OidcClientSecret, Key::OidcClientSecretFile, file)?;
    options.client_secret = secret.map(|secret| SecretText::new(secret.trim().to_owned()));
    if let Some(claim) = find(Key::OidcGroupsClaim, &arguments.oidc_groups_claim) {
        options.groups_claim = claim;
    }
    if let Some(scopes) = find(Key::OidcScopes, &arguments.oidc_scopes) {
        if !scopes.split_whitespace().any(|scope| scope == "openid") {
            return Err(Problem::usage(
                "serve.oidc_scopes has to have `openid` among them",
            ));
        }
        options.scopes = scopes;
    }
    if let Some(name) = find(Key::OidcName, &arguments.oidc_name) {
        options.name = name;
    }
    Ok(Some(options))
}
