//! The releases of a flow, page by page.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{Page, Release, ReleaseFilter};
use semel_rehearse::ReleaseText;
use semel_store::flows;

use super::view_release;
use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query::{Named, Params, page_size};

/// `GET /v1/flows/{flow}/releases`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    flow: Named,
    Params(filter): Params<ReleaseFilter>,
) -> Answered {
    let name = flow.flow()?;
    let before = match filter.cursor.as_deref().map(str::parse::<i32>) {
        None => i32::MAX,
        Some(Ok(number)) if number > 0 => number,
        Some(Ok(_) | Err(_)) => {
            let detail = "`cursor` is not one that this server gave";
            return Err(ApiError::new(Code::QueryInvalid, detail));
        }
    };
    let (id, limit) = (caller.namespace_id, page_size(filter.limit));
    let known = flows::find(app.cell().home(), id, name.as_str()).await?;
    let known = known.ok_or_else(|| ApiError::plain(Code::FlowNotFound))?;
    let home = app.cell().home();
    let found = flows::list_releases_before(home, id, &known.name, before, limit).await?;
    let texts: Vec<ReleaseText<'_>> = found
        .iter()
        .map(|release| ReleaseText {
            flow: &known.name,
            digest: &release.digest,
            source: &release.source,
        })
        .collect();
    let proofs = semel_rehearse::proofs_of(app.cell(), id, &texts).await?;
    let oldest = found.last().map(|release| release.number);
    let items = found
        .into_iter()
        .zip(proofs)
        .map(|(release, proof)| Release {
            proof: Some(proof.to_string()),
            ..view_release(release)
        });
    answer::ok(&Page {
        items: items.collect(),
        next: oldest
            .filter(|number| *number > 1)
            .map(|number| number.to_string()),
    })
}
