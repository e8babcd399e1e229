//! Signing in through an identity provider.
//!
//! ```text
//! start ──▶ the provider ──▶ finish ══▶ a sign-in of 15 minutes
//!   ▲                                      │ after 10 of them, a page goes through the provider again,
//!   └──────────────────────────────────────┘ which then may show nothing (`prompt=none`)
//! ```
//!
//! A provider that refuses a renewal ends the sign-in: who left a company is out before long. The
//! provider can end all sign-ins of a person, or of one of its sessions, at once (`log_out`).

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use semel_api::Code;
use semel_model::Span;
use semel_store::people::{self, EndedSignIns, NamedPerson, PersonEntry, PersonSignIn};
use sha2::{Digest, Sha256};
use url::form_urlencoded;

use super::shell::status_of;
use super::sign_in::{end_earlier, inside, lead_on, redirect, set_cookies, show_page};
use crate::answer::Answered;
use crate::app::App;
use crate::auth::signed_in::{self, GROUPS_SECS, LIFETIME_SECS, SignedIn, label};
use crate::auth::site::{self, Site};
use crate::body::Payload;
use crate::error::ApiError;
use crate::oidc::claims::{Identity, LogoutScope};
use crate::oidc::flow::{FLOW_SECS, Flow};
use crate::oidc::{Provider, ProviderError, shown};
use crate::rate_limit::Peer;

/// What a provider says that needs the person for a renewal, or knows them no longer.
const NEEDS_PERSON: &[&str] = &[
    "login_required",
    "interaction_required",
    "consent_required",
    "account_selection_required",
    "access_denied",
];

/// How long the identity of a logout token is remembered, in seconds: longer than one is believed.
const LOGOUT_SECS: u64 = 900;

/// What the name of a provider's session is digested under.
const SESSION_DOMAIN: &[u8] = b"semel.oidc.session.1";

/// How many groups a page names.
const GROUPS_SHOWN: usize = 20;

/// `GET /console/sign-in/oidc`: to the provider.
pub(super) async fn start(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Answered {
    let (site, provider) = here(&app, &headers)?;
    let query = Query::of(&uri);
    let (is_quiet, to) = (query.get("quiet") == "yes", query.get("to"));
    if !site::is_own(&headers) {
        let back: String = form_urlencoded::byte_serialize(to.as_bytes()).collect();
        return redirect(&format!("/console/sign-in?to={back}"), &[]);
    }
    if is_quiet
        && find_earlier(&app, &headers, &site, "").await?.is_some()
        && !provider.answers().await
    {
        return stay(to);
    }
    let begun = Flow::read(&headers, site.flow_cookie_name());
    let flow = match begun.filter(|flow| is_quiet && flow.is_quiet) {
        Some(flow) => flow.leading_to(to),
        None => Flow::begin(is_quiet, to)?,
    };
    match provider.address(&flow, &callback(&site)).await {
        Ok(address) => {
            let cookies = [site.flow_cookie(&flow.to_cookie(), FLOW_SECS)];
            // A renewal may be due where a form leads to.
            match flow.is_quiet {
                true => lead_on(&headers, provider.name(), (address, false), &cookies),
                false => redirect(&address, &cookies),
            }
        }
        Err(error) => refuse(&app, &headers, &site, to, error.into()),
    }
}

/// A provider that does not answer renews nothing: who is signed in stays so until the time of the
/// sign-in is over.
fn stay(to: &str) -> Answered {
    let to = inside(to).unwrap_or_else(|| "/console".to_owned());
    redirect(&to, &[])
}

/// `GET /console/sign-in/oidc/callback`: back from the provider.
pub(super) async fn finish(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Answered {
    let (site, provider) = here(&app, &headers)?;
    let query = Query::of(&uri);
    let flow = Flow::read(&headers, site.flow_cookie_name());
    let Some(flow) = flow.filter(|flow| flow.owns_state(query.get("state"))) else {
        return come_late(&app, &headers, &site).await;
    };
    let (error, sender) = (query.get("error"), query.find("iss"));
    // Some providers name themselves in what they grant, and not in what they refuse. A refusal lets
    // nobody in, whoever sent it.
    let is_nameless_refusal = sender.is_none() && !error.is_empty();
    if !is_nameless_refusal && let Err(error) = provider.check_sender(sender).await {
        return refuse(&app, &headers, &site, &flow.back, error.into());
    }
    if flow.is_quiet && NEEDS_PERSON.contains(&error) {
        return give_up(&app, &headers, &site, &flow.back).await;
    }
    if !error.is_empty() {
        let words = shown(error, query.get("error_description"));
        return refuse(
            &app,
            &headers,
            &site,
            &flow.back,
            ProviderError::Refused(words).into(),
        );
    }
    let redirected = callback(&site);
    let now = app.engine.now();
    let identity = match provider.enter(peer).await {
        Ok(_place) => {
            let with = (&flow, redirected.as_str());
            provider.exchange(query.get("code"), with, now).await
        }
        Err(error) => Err(error),
    };
    match identity {
        Ok(identity) => let_in(&app, &headers, &site, (&flow, provider), &identity).await,
        Err(error) => {
            let is_away = flow.is_quiet && matches!(error, ProviderError::Unavailable(_));
            if is_away && find_earlier(&app, &headers, &site, "").await?.is_some() {
                provider.note_down();
                return stay(&flow.back);
            }
            refuse(&app, &headers, &site, &flow.back, error.into())
        }
    }
}

/// Two pages may be renewed at the same time, and one of them then comes too late: it is signed in.
async fn come_late(app: &App, headers: &HeaderMap, site: &Site) -> Answered {
    match find_earlier(app, headers, site, "").await? {
        Some(_) => redirect("/console", &[site.flow_cookie("", 0)]),
        None => refuse(app, headers, site, "", ApiError::plain(Code::SignInExpired)),
    }
}

/// The provider does not renew: the person signs in again, or does not.
async fn give_up(app: &App, headers: &HeaderMap, site: &Site, back: &str) -> Answered {
    end_earlier(app, headers, site).await;
    let back: String = form_urlencoded::byte_serialize(back.as_bytes()).collect();
    let gone = [site.flow_cookie("", 0), site.cookie("", 0)];
    redirect(&format!("/console/sign-in?to={back}"), &gone)
}

/// Lets a person in as far as their groups reach.
async fn let_in(
    app: &App,
    headers: &HeaderMap,
    site: &Site,
    (flow, provider): (&Flow, &Provider),
    identity: &Identity,
) -> Answered {
    let back = inside(&flow.back);
    let asked = back.as_deref().map_or("", namespace_of);
    let earlier = find_earlier(app, headers, site, asked).await?;
    let other = earlier.as_ref().is_some_and(|earlier| {
        let subject = earlier.caller.subject.as_deref();
        subject != Some(&identity.subject)
    });
    if flow.is_quiet && other {
        return give_up(app, headers, site, &flow.back).await;
    }
    let (cookie, seed) = (signed_in::mint()?, signed_in::mint()?);
    let person = NamedPerson {
        issuer: provider.issuer(),
        subject: &identity.subject,
        name: &identity.name,
        groups: &identity.groups,
        lifetime: Span::from_secs(GROUPS_SECS),
    };
    let renewable = earlier.as_ref().filter(|_| flow.is_quiet);
    let session = identity.session.as_deref();
    let session = session.map(|session| digest_of(SESSION_DOMAIN, provider, session));
    let wish = PersonSignIn {
        namespace: asked,
        digest: &cookie.digest,
        earlier: renewable.map(|it| (it.digest().as_slice(), it.caller.rights)),
        longest: Span::from_secs(LIFETIME_SECS),
        provider_session: session.as_ref().map(<[u8; 32]>::as_slice),
        token_lifetime: app.engine.person_token_lifetime(),
        seed: seed.digest,
    };
    let actor = format!("oidc:{}", label(&identity.name, &identity.subject));
    let entry = people::sign_in(app.engine.cell().home(), &person, &wish, &actor).await?;
    app.sign_ins.forget_subject(&identity.subject);
    match entry {
        PersonEntry::Made { namespace } => {
            end_earlier(app, headers, site).await;
            tracing::info!(actor, namespace, "a person signed in");
            let to = back.unwrap_or_else(|| format!("/console/{namespace}/"));
            let cookie = site.cookie(&cookie.text, LIFETIME_SECS);
            redirect(&to, &[cookie, site.flow_cookie("", 0)])
        }
        PersonEntry::Renewed => {
            let to = back.unwrap_or_else(|| "/console".to_owned());
            redirect(&to, &[site.flow_cookie("", 0)])
        }
        PersonEntry::NoGroup => refuse(app, headers, site, &flow.back, no_group(identity)),
        PersonEntry::Revoked => {
            let error = ApiError::plain(Code::PersonRevoked);
            refuse(app, headers, site, &flow.back, error)
        }
    }
}

fn no_group(identity: &Identity) -> ApiError {
    let named: Vec<&str> = identity.groups.iter().map(String::as_str).collect();
    let detail = match named.as_slice() {
        [] => "the identity provider names no group of yours".to_owned(),
        some => {
            let some = &some[..some.len().min(GROUPS_SHOWN)];
            format!(
                "the identity provider names these groups: {}",
                some.join(", ")
            )
        }
    };
    ApiError::new(Code::GroupMissing, detail)
}

/// `POST /console/sign-in/oidc/logout`: the provider ends all sign-ins of a person, or of a session.
pub(super) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (_, provider) = here(&app, &headers)?;
    let token = form_urlencoded::parse(&payload.0).find(|(name, _)| name == "logout_token");
    let token = token.map(|(_, token)| token).unwrap_or_default();
    let invalid = |why: String| ApiError::new(Code::LogoutInvalid, why);
    let _place = provider.enter_logout().await?;
    let logout = match provider.read_logout(&token, app.engine.now()).await {
        Ok(logout) => logout,
        Err(error @ ProviderError::Unavailable(_)) => return Err(error.into()),
        Err(error) => return Err(invalid(error.to_string())),
    };
    let token = digest_of(b"semel.oidc.logout.1", provider, &logout.id);
    let remembered = Span::from_secs(LOGOUT_SECS);
    let home = app.engine.cell().home();
    let ended = match &logout.ended {
        LogoutScope::Person { subject } => {
            let which = EndedSignIns::Person((provider.issuer(), subject));
            people::log_out(home, which, &token, remembered).await
        }
        LogoutScope::Session { session } => {
            let session = digest_of(SESSION_DOMAIN, provider, session);
            people::log_out(home, EndedSignIns::Session(&session), &token, remembered).await
        }
        LogoutScope::SessionOf { subject, session } => {
            let session = digest_of(SESSION_DOMAIN, provider, session);
            let which = EndedSignIns::SessionOf((provider.issuer(), subject), &session);
            people::log_out(home, which, &token, remembered).await
        }
    };
    let Some(ended) = ended? else {
        return Err(invalid("the logout token was used before".to_owned()));
    };
    app.sign_ins.forget_all(&ended);
    tracing::info!(
        ended = ended.len(),
        "the identity provider ended sign-ins of a person"
    );
    Ok(StatusCode::OK.into_response())
}

/// What is kept of something that the provider gave a name.
fn digest_of(domain: &[u8], provider: &Provider, name: &str) -> [u8; 32] {
    Sha256::new_with_prefix(domain)
        .chain_update(provider.issuer())
        .chain_update([0])
        .chain_update(name)
        .finalize()
        .into()
}

/// Where the browser is, and the provider; the routes are not there without one.
fn here<'a>(app: &'a App, headers: &HeaderMap) -> Result<(Site, &'a Provider), ApiError> {
    let provider = app.provider.as_ref();
    let provider = provider.ok_or_else(|| ApiError::plain(Code::RouteNotFound))?;
    Ok((
        Site::of(headers, &app.engine.options().public_url)?,
        provider,
    ))
}

async fn find_earlier(
    app: &App,
    headers: &HeaderMap,
    site: &Site,
    namespace: &str,
) -> Result<Option<SignedIn>, ApiError> {
    let cells = (app.cell(), app.engine.cell());
    signed_in::find_anywhere(headers, (site.clone(), namespace), &app.sign_ins, cells).await
}

/// The page that signs in, with what went wrong. What the browser held of this sign-in is over.
fn refuse(app: &App, headers: &HeaderMap, site: &Site, back: &str, error: ApiError) -> Answered {
    let status = status_of(&error);
    let back = inside(back).unwrap_or_default();
    let mut response = show_page(app, status, headers, (back, false), Some(error.into()))?;
    set_cookies(&mut response, &[site.flow_cookie("", 0)])?;
    Ok(response)
}

fn callback(site: &Site) -> String {
    format!("{}/console/sign-in/oidc/callback", site.origin())
}

fn namespace_of(page: &str) -> &str {
    let rest = page.strip_prefix("/console/").unwrap_or_default();
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// The parameters of an address.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default().as_bytes();
        Self(form_urlencoded::parse(query).into_owned().collect())
    }

    fn find(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }
}
