//! Signing in by a code, and signing out.
//!
//! A `GET` signs nobody in and uses no code up: the code stands behind `#` in the address, where only the
//! page itself sees it, and the page sends it as a form.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::header::{REFRESH, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use semel_api::Code;
use url::form_urlencoded;

use super::assets;
use super::look::{self, Look};
use super::markup::visible;
use super::shell::{Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use crate::answer::Answered;
use crate::app::App;
use crate::auth::signed_in::{self, LIFETIME_SECS, SignedIn};
use crate::auth::site::{self, Site};
use crate::body::Payload;
use crate::error::ApiError;
use crate::rate_limit::Peer;

#[derive(Template)]
#[template(path = "sign-in.html")]
struct SignInPage {
    theme: &'static str,
    css: &'static str,
    js: &'static str,
    back: String,
    /// What people call the identity provider, and where it is entered.
    provider: Option<(String, String)>,
    /// Whether a code in the address is sent without a click.
    by_itself: bool,
    problem: Option<Trouble>,
}

/// On the way to the identity provider.
#[derive(Template)]
#[template(path = "onward.html")]
struct OnwardPage {
    theme: &'static str,
    css: &'static str,
    provider: String,
    address: String,
    /// Whether to sign out there, and not to be renewed.
    signed_out: bool,
}

/// `GET /console`: the overview of the namespace that the browser is signed in to.
pub(super) async fn enter(signed_in: SignedIn) -> Redirect {
    Redirect::to(&format!("/console/{}/", signed_in.caller.namespace))
}

/// `GET /console/sign-in`.
pub(super) async fn page(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Answered {
    let site = Site::of(&headers, &app.engine.options().public_url)?;
    // A link on a page of others could sign a visitor in as somebody else, and out as themselves.
    let cells = (app.cell(), app.engine.cell());
    let from = app.check_peer(Some(peer));
    let by_itself = site::is_typed(&headers)
        && signed_in::find(&headers, (site, ""), from, &app.sign_ins, cells)
            .await?
            .is_none();
    let query = uri.query().unwrap_or_default().as_bytes();
    let back = form_urlencoded::parse(query).find(|(name, _)| name == "to");
    let back = back.map(|(_, back)| back.into_owned()).unwrap_or_default();
    show_page(&app, StatusCode::OK, &headers, (back, by_itself), None)
}

/// The page that signs in, with what went wrong.
pub(super) fn show_page(
    app: &App,
    status: StatusCode,
    headers: &HeaderMap,
    (back, by_itself): (String, bool),
    problem: Option<Trouble>,
) -> Answered {
    let to: String = form_urlencoded::byte_serialize(back.as_bytes()).collect();
    let provider = app.provider.as_ref().map(|provider| {
        let href = format!("/console/sign-in/oidc?to={to}");
        (visible(provider.name(), false), href)
    });
    let page = SignInPage {
        theme: Look::of(headers).theme.as_str(),
        css: assets::css_address(),
        js: assets::js_address(),
        provider,
        back,
        by_itself,
        problem,
    };
    show_as(status, &page)
}

/// `POST /console/sign-in`: uses a code up.
pub(super) async fn submit(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let site = Site::of(&headers, &app.engine.options().public_url)?;
    site.check_form(&headers)?;
    let (mut code, mut back) = (String::new(), String::new());
    for (name, value) in form_urlencoded::parse(&payload.0) {
        match &*name {
            "code" => code = value.into_owned(),
            "to" => back = value.into_owned(),
            _ => {}
        }
    }
    let from = app.check_peer(Some(peer));
    match signed_in::exchange(&code, from, (app.cell(), app.engine.cell())).await {
        Ok((cookie, namespace)) => {
            end_earlier(&app, &headers, &site).await;
            let to = inside(&back).unwrap_or_else(|| format!("/console/{namespace}/"));
            redirect(&to, &[site.cookie(&cookie, LIFETIME_SECS)])
        }
        Err(error) if error.problem().code() == Some(Code::SignInCodeInvalid) => {
            let status = status_of(&error);
            show_page(&app, status, &headers, (back, false), Some(error.into()))
        }
        Err(error) => Err(error),
    }
}

/// A browser has one sign-in: what it had before ends with the new one. Where it cannot be ended now, it
/// ends by itself.
pub(super) async fn end_earlier(app: &App, headers: &HeaderMap, site: &Site) {
    let cells = (app.cell(), app.engine.cell());
    let at = (site.clone(), "");
    let earlier = signed_in::find_anywhere(headers, at, &app.sign_ins, cells).await;
    if let Ok(Some(earlier)) = earlier
        && let Err(error) = signed_in::end(&earlier, &app.sign_ins, app.engine.cell()).await
    {
        tracing::warn!(
            code = error.problem().code,
            "failed to end an earlier sign-in"
        );
    }
}

/// `POST /console/{namespace}/sign-out`.
///
/// Whom a provider signed in leaves it as well.
pub(super) async fn leave(
    State(app): State<App>,
    headers: HeaderMap,
    signed_in: SignedIn,
    _: Form,
) -> Answered {
    signed_in::end(&signed_in, &app.sign_ins, app.engine.cell()).await?;
    let gone = signed_in.site.cookie("", 0);
    let Some(provider) = app
        .provider
        .as_ref()
        .filter(|_| signed_in.caller.subject.is_some())
    else {
        return redirect("/console/sign-in", &[gone]);
    };
    let back = format!("{}/console/sign-in", signed_in.site.origin());
    let Some(leave) = provider.leave_address(&back).await else {
        return redirect("/console/sign-in", &[gone]);
    };
    lead_on(&headers, provider.name(), (leave, true), &[gone])
}

/// `POST /console/{namespace}/sign-out-everywhere`: this browser, and every other one.
pub(super) async fn leave_everywhere(
    State(app): State<App>,
    signed_in: SignedIn,
    _: Form,
) -> Answered {
    signed_in::end_everywhere(&signed_in, &app.sign_ins, app.engine.cell()).await?;
    let gone = signed_in.site.cookie("", 0);
    redirect("/console/sign-in", &[gone])
}

/// Leads to the identity provider by a page of ours. A form may lead to this site alone, and so may
/// everything that it is sent on to.
pub(super) fn lead_on(
    headers: &HeaderMap,
    provider: &str,
    (address, signed_out): (String, bool),
    cookies: &[String],
) -> Answered {
    let refresh = format!("0; url={address}").parse();
    let page = OnwardPage {
        theme: Look::of(headers).theme.as_str(),
        css: assets::css_address(),
        provider: visible(provider, false),
        address,
        signed_out,
    };
    let mut response = show_as(StatusCode::OK, &page)?;
    set_cookies(&mut response, cookies)?;
    if let Ok(refresh) = refresh {
        response.headers_mut().insert(REFRESH, refresh);
    }
    Ok(response)
}

/// `POST /console/{namespace}/look`: light or dark, and the zone of times.
pub(super) async fn set_look(visit: Visit, form: Form) -> Answered {
    let time = (form.get("time"), form.get("zone"));
    let cookies = look::choose(&visit.signed_in.site, form.get("theme"), time)?;
    let back = inside(form.get("to")).unwrap_or_else(|| visit.page("/"));
    let mut response = Redirect::to(&back).into_response();
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// A page of this console, and of no other site.
pub(super) fn inside(back: &str) -> Option<String> {
    let plain = back.bytes().all(|byte| byte.is_ascii_graphic());
    let is_own = back.starts_with("/console/") && plain && !back.contains('\\');
    is_own.then(|| back.to_owned())
}

/// Leads a browser elsewhere, with its cookies.
pub(super) fn redirect(to: &str, cookies: &[String]) -> Answered {
    let mut response: Response = Redirect::to(to).into_response();
    set_cookies(&mut response, cookies)?;
    Ok(response)
}

/// Adds cookies to a response.
pub(super) fn set_cookies(response: &mut Response, cookies: &[String]) -> Result<(), ApiError> {
    for cookie in cookies {
        let cookie = cookie.parse();
        let cookie = cookie.map_err(|_| ApiError::internal("a cookie that is no header"))?;
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_a_page_of_this_console_only() {
        assert!(inside("/console/main/runs?state=failed").is_some());
        for elsewhere in [
            "//evil",
            "https://evil",
            "/console",
            "/console/\\evil",
            "/console/a b",
            "",
        ] {
            assert_eq!(inside(elsewhere), None, "{elsewhere}");
        }
    }
}
