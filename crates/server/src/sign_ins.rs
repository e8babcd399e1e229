//! Codes that sign a browser in to the console.

use axum::extract::State;
use semel_api::types::SignInCode;
use semel_model::Span;
use semel_store::sign_ins;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::auth::signed_in::{self, CODE_SECS};

/// `POST /v1/sign-in-codes`. Each request makes another code; one that is not used expires.
pub(crate) async fn make(State(app): State<App>, caller: Caller) -> Answered {
    let minted = signed_in::mint()?;
    let lifetime = Span::from_secs(CODE_SECS);
    let home = app.engine.cell().home();
    let expires_at = sign_ins::add_code(home, &minted.digest, caller.id, lifetime).await?;
    let path = format!("/console/sign-in#{}", minted.text);
    let base = app.engine.options().public_url.trim_end_matches('/');
    answer::ok(&SignInCode {
        url: format!("{base}{path}"),
        code: minted.text,
        path,
        expires_at,
    })
}
