//! The sweep: every operation of the API's document with every role, in its own namespace and in a
//! foreign one. Nothing is listed here by hand: the document says what each operation needs, and what it
//! takes.

mod objects;
mod sample;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use hyper::Method;
use semel_model::{Right, Rights, Role};
use semel_server::openapi_document;
use semel_testkit::client::Answer;
use serde_json::Value;

use self::objects::Objects;
use self::sample::{Members, sample};
use crate::openapi::operations;
use crate::world::{World, add_token_in};

/// An operation that needs a token, as the document describes it.
struct Operation<'a> {
    method: Method,
    path: String,
    described: &'a Value,
}

impl Operation<'_> {
    fn place(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The right that it needs; none where any token will do.
    fn right(&self) -> Result<Option<Right>> {
        match self.described["x-right"].as_str() {
            Some("any") => Ok(None),
            Some(word) => Ok(Some(word.parse()?)),
            None => anyhow::bail!("{} says no right", self.place()),
        }
    }

    /// Whether it is about something of a namespace. Namespaces themselves belong to the installation.
    fn has_objects(&self) -> bool {
        self.path.contains('{') && self.described["x-right"] != "instance"
    }
}

/// Every operation that needs a token.
fn guarded(document: &Value) -> Result<Vec<Operation<'_>>> {
    let mut guarded = Vec::new();
    for (method, path, described) in operations(document) {
        if described["x-right"] != "none" {
            guarded.push(Operation {
                method: method.parse()?,
                path,
                described,
            });
        }
    }
    ensure!(guarded.len() > 100, "{}", guarded.len());
    Ok(guarded)
}

/// Asks as the document says: with every parameter that is needed and a body of the right form.
async fn ask(
    world: &World,
    document: &Value,
    operation: &Operation<'_>,
    path: &str,
    caller: (Option<&str>, &str),
) -> Result<Answer> {
    ask_with(world, document, operation, path, caller, Members::Needed).await
}

/// The same, with parameters and members of choice.
async fn ask_with(
    world: &World,
    document: &Value,
    operation: &Operation<'_>,
    path: &str,
    (token, key): (Option<&str>, &str),
    members: Members,
) -> Result<Answer> {
    let mut path = path.to_owned();
    let parameters = operation.described["parameters"].as_array();
    let sent = parameters.into_iter().flatten();
    let sent = sent.filter(|it| it["in"] == "query");
    let sent = sent.filter(|it| members == Members::All || it["required"] == true);
    for (position, parameter) in sent.enumerate() {
        path.push(if position == 0 { '?' } else { '&' });
        path.push_str(parameter["name"].as_str().context("a name")?);
        let value = sample(document, &parameter["schema"], members);
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        path.push_str(&format!("={text}"));
    }
    let content = &operation.described["requestBody"]["content"];
    let json = &content["application/json"]["schema"];
    let (media_type, body) = match (content.is_null(), json.is_null()) {
        (true, _) => ("application/json", String::new()),
        (false, false) => (
            "application/json",
            sample(document, json, members).to_string(),
        ),
        (false, true) => ("application/octet-stream", "1".to_owned()),
    };
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("content-type", media_type)];
    headers.extend(bearer.iter().map(|it| ("authorization", it.as_str())));
    if !operation.described["x-key"].is_null() {
        headers.push(("idempotency-key", key));
    }
    let method = operation.method.clone();
    let sent = world.bare.send(method, &path, &headers, body.into());
    Ok(sent.await?)
}

/// Whether a response says that the token lacks the right.
fn lacks_right(answer: &Answer) -> bool {
    let said: Value = answer.json().unwrap_or_default();
    answer.status == 403 && said["code"] == "right-missing"
}

/// A token of each role.
async fn tokens(world: &World, namespace: &str) -> Result<Vec<(Role, String)>> {
    let mut tokens = Vec::new();
    for role in Role::ALL {
        let (cell, name) = (world.engine.cell(), role.as_str());
        let token = add_token_in(cell, namespace, name, role.rights()).await?;
        tokens.push((*role, token));
    }
    Ok(tokens)
}

/// Asks for one operation with every role, and compares who is let in with the rights of the roles.
async fn try_roles(
    world: &World,
    document: &Value,
    operation: &Operation<'_>,
    path: &str,
    tokens: &[(Role, String)],
) -> Result<Vec<Answer>> {
    let place = operation.place();
    let right = operation.right()?;
    let asked = tokens.iter().map(|(role, token)| {
        let key = format!("{place} {role}");
        async move { ask(world, document, operation, path, (Some(token), &key)).await }
    });
    let answers = try_join_all(asked).await?;
    let bare = ask(world, document, operation, path, (None, "bare")).await?;
    assert_eq!(bare.status, 401, "{place} without a token: {}", bare.text());
    for ((role, _), answer) in tokens.iter().zip(&answers) {
        let may = right.is_none_or(|right| role.rights().contains(right));
        let text = answer.text();
        assert_ne!(answer.status, 401, "{place} as {role}: {text}");
        assert_eq!(!lacks_right(answer), may, "{place} as {role}: {text}");
        ensure!(
            !answer.status.is_server_error(),
            "{place} as {role}: {text}"
        );
    }
    Ok(answers)
}

#[tokio::test]
async fn a_role_reaches_exactly_the_operations_that_it_has_the_right_for() -> Result<()> {
    let world = World::start().await?;
    let document = openapi_document();
    let tokens = tokens(&world, "main").await?;

    for operation in guarded(&document)? {
        let path = objects::absent(&operation.path);
        try_roles(&world, &document, &operation, &path, &tokens).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_role_reaches_nothing_of_a_foreign_namespace() -> Result<()> {
    let world = World::start().await?;
    let document = openapi_document();
    let objects = Objects::make(&world).await?;
    let tokens = tokens(&world, "elsewhere").await?;

    for operation in guarded(&document)?.iter().filter(|it| it.has_objects()) {
        let path = objects.fill(&operation.path)?;
        let answers = try_roles(&world, &document, operation, &path, &tokens).await?;
        for answer in answers {
            let text = answer.text();
            ensure!(!objects::shows(&text), "{}: {text}", operation.place());
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_is_foreign_looks_as_what_is_absent_and_what_is_own_is_there() -> Result<()> {
    let world = World::start().await?;
    let document = openapi_document();
    let objects = Objects::make(&world).await?;
    let guarded = guarded(&document)?;
    let own = Some(world.token.as_str());

    let with_objects = guarded.iter().filter(|operation| operation.has_objects());
    for (position, operation) in with_objects.enumerate() {
        let place = operation.place();
        let (real, absent) = (
            objects.fill(&operation.path)?,
            objects::absent(&operation.path),
        );
        if operation.method == Method::GET {
            let seen = ask(&world, &document, operation, &real, (own, "own")).await?;
            assert_eq!(seen.status, 200, "{place} of its own: {}", seen.text());
        }
        // A namespace for each operation: what one of them makes there is not found by another.
        let namespace = format!("elsewhere-{position}");
        let cell = world.engine.cell();
        let token = add_token_in(cell, &namespace, "all", Rights::ALL).await?;
        let token = Some(token.as_str());
        let foreign = ask(&world, &document, operation, &real, (token, "foreign")).await?;
        let nothing = ask(&world, &document, operation, &absent, (token, "absent")).await?;

        assert_eq!(
            foreign.status,
            nothing.status,
            "{place}: {}",
            foreign.text()
        );
        let (foreign, nothing) = (objects.hide(&foreign.text()), objects.hide(&nothing.text()));
        assert_eq!(foreign, nothing, "{place}");
    }
    Ok(())
}

#[tokio::test]
async fn a_request_that_fits_the_document_is_read() -> Result<()> {
    let world = World::start().await?;
    let document = openapi_document();
    let token = Some(world.token.as_str());

    for operation in guarded(&document)? {
        let (place, path) = (operation.place(), objects::absent(&operation.path));
        for (key, members) in [("needed", Members::Needed), ("all", Members::All)] {
            let answer = ask_with(&world, &document, &operation, &path, (token, key), members);
            let answer = answer.await?;
            let said: Value = answer.json().unwrap_or_default();
            let detail = said["detail"].as_str().unwrap_or_default();
            for unread in [
                "missing field",
                "unknown field",
                "unknown variant",
                "invalid type",
            ] {
                ensure!(!detail.contains(unread), "{place} with {key}: {detail}");
            }
            ensure!(
                said["code"] != "body-not-json",
                "{place} with {key}: {detail}"
            );
            ensure!(
                !answer.status.is_server_error(),
                "{place} with {key}: {said}"
            );
        }
    }
    Ok(())
}
