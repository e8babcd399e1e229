//! Signing in by a code, and signing out.
//!
//! A `GET` signs nobody in and uses no code up: the code stands behind `#` in the address, where only the
//! page itself sees it, and the page sends it as a form.

use askama::Template;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use semel_api::Code;
use url::form_urlencoded;

use super::assets;
use super::look::{self, Look};
use super::shell::{Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use crate::answer::Answered;
use crate::app::App;
use crate::auth::signed_in::{self, LIFETIME_SECS, SignedIn};
use crate::auth::site::{self, Site};
use crate::body::Payload;
use crate::error::ApiError;

#[derive(Template)]
#[template(path = "sign-in.html")]
struct SignInPage {
    theme: &'static str,
    css: &'static str,
    js: &'static str,
    back: String,
    /// Whether a code in the address is sent without a click.
    by_itself: bool,
    problem: Option<Trouble>,
}

/// `GET /console`: the overview of the namespace that the browser is signed in to.
pub(super) async fn enter(signed_in: SignedIn) -> Redirect {
    Redirect::to(&format!("/console/{}/", signed_in.caller.namespace))
}

/// `GET /console/sign-in`.
pub(super) async fn page(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Answered {
    let site = Site::of(&headers, &app.engine.options().public_url)?;
    // A link on a page of others could sign a visitor in as somebody else, and out as themselves.
    let cells = (app.cell(), app.engine.cell());
    let by_itself = site::is_typed(&headers)
        && signed_in::find(&headers, site, &app.sign_ins, cells)
            .await?
            .is_none();
    let query = uri.query().unwrap_or_default().as_bytes();
    let back = form_urlencoded::parse(query).find(|(name, _)| name == "to");
    let back = back.map(|(_, back)| back.into_owned()).unwrap_or_default();
    show_page(StatusCode::OK, &headers, (back, by_itself), None)
}

fn show_page(
    status: StatusCode,
    headers: &HeaderMap,
    (back, by_itself): (String, bool),
    problem: Option<Trouble>,
) -> Answered {
    let page = SignInPage {
        theme: Look::of(headers).theme.as_str(),
        css: assets::css_address(),
        js: assets::js_address(),
        back,
        by_itself,
        problem,
    };
    show_as(status, &page)
}

/// `POST /console/sign-in`: uses a code up.
pub(super) async fn submit(
    State(app): State<App>,
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
    match signed_in::exchange(&code, (app.cell(), app.engine.cell())).await {
        Ok((cookie, namespace)) => {
            end_earlier(&app, &headers, &site).await;
            let to = inside(&back).unwrap_or_else(|| format!("/console/{namespace}/"));
            redirect(&to, &site.cookie(&cookie, LIFETIME_SECS))
        }
        Err(error) if error.problem().code() == Some(Code::SignInCodeInvalid) => {
            let status = status_of(&error);
            show_page(status, &headers, (back, false), Some(error.into()))
        }
        Err(error) => Err(error),
    }
}

/// A browser has one sign-in: what it had before ends with the new one. Where it cannot be ended now, it
/// ends by itself.
async fn end_earlier(app: &App, headers: &HeaderMap, site: &Site) {
    let cells = (app.cell(), app.engine.cell());
    let earlier = signed_in::find(headers, site.clone(), &app.sign_ins, cells).await;
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
pub(super) async fn leave(State(app): State<App>, signed_in: SignedIn, _: Form) -> Answered {
    signed_in::end(&signed_in, &app.sign_ins, app.engine.cell()).await?;
    redirect("/console/sign-in", &signed_in.site.cookie("", 0))
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
fn inside(back: &str) -> Option<String> {
    let plain = back.bytes().all(|byte| byte.is_ascii_graphic());
    let is_own = back.starts_with("/console/") && plain && !back.contains('\\');
    is_own.then(|| back.to_owned())
}

fn redirect(to: &str, cookie: &str) -> Answered {
    let cookie = cookie.parse();
    let cookie = cookie.map_err(|_| ApiError::internal("a cookie that is no header"))?;
    let mut response: Response = Redirect::to(to).into_response();
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
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
