//! A provider that says what a test tells it to. It is a fake, because no real one lies.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use semel_api::types::MapGroup;
use semel_model::{Role, SecretText};
use semel_server::ServerOptions;
use semel_server::oidc::OidcOptions;
use serde_json::{Value, json};
use url::Url;

use super::traveller::{Shown, Traveller};
use crate::world::World;

const SECRET: &str = "hush-client-secret";
const CODE: &str = "hush-code";

/// What the fake says next.
#[derive(Default)]
pub(super) struct Script {
    pub(super) issuer: String,
    pub(super) configuration: Option<String>,
    pub(super) keys: Option<Value>,
    pub(super) token: String,
    /// Whether it never says what it is.
    pub(super) is_silent: bool,
    pub(super) keys_read: usize,
}

pub(super) type Shared = Arc<Mutex<Script>>;

/// The fake, and a server that believes in it.
pub(super) struct Liar {
    pub(super) world: World,
    pub(super) script: Shared,
    pub(super) key: EcdsaKeyPair,
    private: EncodingKey,
}

impl Liar {
    pub(super) async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let issuer = format!("http://{}", listener.local_addr()?);
        let script = Shared::default();
        edit(&script, |script| script.issuer.clone_from(&issuer));
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &aws_lc_rs::rand::SystemRandom::new(),
        )?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref())?;
        let mut oidc = OidcOptions::new(&issuer, "semel").map_err(anyhow::Error::msg)?;
        oidc.client_secret = Some(SecretText::new(SECRET.to_owned()));
        let world = World::start_with(ServerOptions {
            oidc: Some(oidc),
            ..ServerOptions::default()
        })
        .await?;
        let group = MapGroup {
            group: "ops".to_owned(),
            role: Role::Admin,
            rights: semel_model::Rights::default(),
        };
        world.client.map_group(&group).await?;
        let liar = Self {
            world,
            private: EncodingKey::from_ec_der(pkcs8.as_ref()),
            script,
            key,
        };
        let shown = json!({ "keys": [liar.jwk("k")] });
        edit(&liar.script, |script| script.keys = Some(shown));
        Ok(liar)
    }

    /// The public key, under a name.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        let point = self.key.public_key().as_ref();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (part(&point[1..33]), part(&point[33..]));
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": x, "y": y })
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.world.address)
    }

    /// Begins a sign-in, and gives where the browser would go.
    pub(super) async fn begin(&self) -> Result<(Traveller, Url)> {
        let start = "/console/sign-in/oidc?to=%2Fconsole%2Fmain%2Fruns";
        let answer = self.world.bare.get(start).await?;
        let to = answer.header("location").context("a way to the provider")?;
        let cookie = answer.header("set-cookie").context("a cookie")?;
        ensure!(
            cookie.contains("; HttpOnly; SameSite=Lax") && cookie.contains("Max-Age=600"),
            "{cookie}"
        );
        let (name, value) = cookie
            .split(';')
            .next()
            .and_then(|it| it.split_once('='))
            .context("a pair")?;
        let mut browser = Traveller::new();
        browser.set_cookie(&self.base(), name, value)?;
        Ok((browser, Url::parse(to)?))
    }

    pub(super) fn claims(&self, nonce: &str) -> Value {
        let now = self.world.engine.now().as_second();
        let issuer = edit(&self.script, |script| script.issuer.clone());
        json!({
            "iss": issuer, "aud": "semel", "sub": "mallory", "nonce": nonce, "iat": now, "exp": now + 300,
            "name": "Mallory", "groups": ["ops"],
        })
    }

    pub(super) fn sign(&self, kid: &str, claims: &Value) -> Result<String> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(kid.to_owned());
        Ok(encode(&header, claims, &self.private)?)
    }

    pub(super) async fn come_back(&self, browser: &mut Traveller, state: &str) -> Result<Shown> {
        let url = format!(
            "{}/console/sign-in/oidc/callback?code={CODE}&state={state}",
            self.base()
        );
        browser.go(&url).await
    }

    /// One whole sign-in with the token that the fake makes of the nonce.
    pub(super) async fn attempt(
        &self,
        token: impl FnOnce(&str) -> Result<String>,
    ) -> Result<(Traveller, Shown)> {
        let (mut browser, to) = self.begin().await?;
        let made = token(&parameter(&to, "nonce")?)?;
        edit(&self.script, |script| script.token = made);
        let shown = self
            .come_back(&mut browser, &parameter(&to, "state")?)
            .await?;
        Ok((browser, shown))
    }

    /// Sends a logout token, and gives the status.
    pub(super) async fn log_out(&self, token: &str) -> Result<u16> {
        let body = format!("logout_token={token}");
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let path = "/console/sign-in/oidc/logout";
        let sent = self
            .world
            .bare
            .send(hyper::Method::POST, path, &form, body.into());
        Ok(sent.await?.status.as_u16())
    }

    pub(super) async fn count_sign_ins(&self) -> Result<i64> {
        let client = self.world.database.connect().await?;
        Ok(client
            .query_one("SELECT count(*) FROM sign_ins", &[])
            .await?
            .get(0))
    }
}

pub(super) fn edit<T>(script: &Shared, change: impl FnOnce(&mut Script) -> T) -> T {
    change(&mut script.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(super) fn parameter(url: &Url, name: &str) -> Result<String> {
    let found = url.query_pairs().find(|(given, _)| given == name);
    Ok(found
        .with_context(|| format!("{name} in {url}"))?
        .1
        .into_owned())
}

async fn configuration(State(script): State<Shared>) -> String {
    let (issuer, said, is_silent) = edit(&script, |it| {
        (it.issuer.clone(), it.configuration.clone(), it.is_silent)
    });
    if is_silent {
        std::future::pending::<()>().await;
    }
    let usual = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
    });
    said.unwrap_or_else(|| usual.to_string())
}

async fn keys(State(script): State<Shared>) -> String {
    edit(&script, |it| {
        it.keys_read += 1;
        it.keys.clone().unwrap_or_default().to_string()
    })
}

async fn token(State(script): State<Shared>) -> String {
    let token = edit(&script, |it| it.token.clone());
    json!({ "id_token": token, "access_token": "hush-access", "token_type": "Bearer" }).to_string()
}
