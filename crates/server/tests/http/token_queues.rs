//! Tokens with queues: they work on tasks of these, and learn nothing of others.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{
    ClaimTasks, ClaimedTask, CompleteTask, CreateToken, MapGroup, RenewTask, StartRun, TaskFilter,
};
use semel_api::{Client, ClientError, Code};
use semel_model::task::TaskState;
use semel_model::{Label, Networks, Right, Role, Span};
use semel_server::{Access, list_routes};
use semel_testkit::client::Answer;
use semel_testkit::patience;
use serde_json::json;

use crate::console::Browser;
use crate::world::{World, refused};

/// Opens a task of a queue, and gives the queue's name.
async fn open(world: &World, queue: &str) -> Result<()> {
    let flow = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: work\n    \
         task: {{ queue: {queue}, input: '${{{{ input }}}}', within: 1h, lease: 30s }}\n    guard: key\n"
    );
    let flow = world.publish(&format!("of-{queue}"), &flow).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    world.client.start_run(&flow, &start, None).await?;
    Ok(())
}

fn claim(queue: &str, wait: u64) -> ClaimTasks {
    ClaimTasks {
        queue: queue.to_owned(),
        max: Some(5),
        wait: Some(Span::from_secs(wait)),
        worker: None,
        lease: None,
    }
}

async fn take(client: &Client, queue: &str, key: &str) -> Result<ClaimedTask> {
    let claimed = client
        .claim_tasks(&claim(queue, patience().as_secs()), key)
        .await;
    claimed?.tasks.pop().context("a task")
}

fn queues(names: &[&str]) -> Result<Vec<Label>> {
    let read: Result<Vec<Label>, _> = names.iter().map(|name| name.parse()).collect();
    Ok(read?)
}

fn wanted(name: &str, rights: &[Right], of: &[&str]) -> Result<CreateToken> {
    Ok(CreateToken {
        name: name.to_owned(),
        role: None,
        rights: rights.to_vec(),
        groups: Vec::new(),
        networks: Networks::default(),
        queues: queues(of)?,
        lifetime: None,
    })
}

/// A token that works on these queues, and its client.
async fn worker(world: &World, name: &str, of: &[&str]) -> Result<(String, Client)> {
    let wanted = wanted(name, &[Right::Work], of)?;
    let token = world.client.create_token(&wanted, name).await?.body.token;
    let client = Client::new(world.client.base(), &token)?;
    Ok((token, client))
}

fn problem<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Result<(String, String)> {
    match answer {
        Err(ClientError::Problem(problem)) => Ok((problem.code, problem.detail)),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

/// What a worker sends about a task.
async fn send(world: &World, token: &str, path: &str, body: &str) -> Result<Answer> {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = body.to_owned().into();
    Ok(world.bare.send(Method::POST, path, &headers, body).await?)
}

#[tokio::test]
async fn a_token_with_queues_works_on_tasks_of_these() -> Result<()> {
    let world = World::start().await?;
    open(&world, "images").await?;
    open(&world, "mail").await?;
    let (_, resizer) = worker(&world, "resizer", &["images", "thumbs"]).await?;

    let own = take(&resizer, "images", "a").await?;
    let renew = RenewTask {
        token: own.token,
        lease: None,
    };
    let complete = CompleteTask {
        token: own.token,
        result: json!(1),
    };
    resizer.renew_task(own.task, &renew).await?;
    resizer.complete_task(own.task, &complete).await?;
    let none = resizer.claim_tasks(&claim("thumbs", 0), "b").await?;
    let other = resizer.claim_tasks(&claim("mail", 0), "c").await;
    let absent = resizer.claim_tasks(&claim("absent", 0), "d").await;

    assert!(none.tasks.is_empty());
    for (queue, answer) in [("mail", other), ("absent", absent)] {
        let (code, detail) = problem(answer)?;
        let expected = format!(
            "the token `resizer` does not work on the queue `{queue}`, only on images, thumbs"
        );
        assert_eq!((code.as_str(), detail), ("right-missing", expected));
    }
    let filter = TaskFilter {
        queue: Some("mail".to_owned()),
        ..TaskFilter::default()
    };
    let listed = world.client.list_tasks(&filter).await?;
    assert_eq!(listed.items[0].state, TaskState::Open, "it was not claimed");
    Ok(())
}

#[tokio::test]
async fn a_task_of_another_queue_looks_like_one_that_is_not_there() -> Result<()> {
    let world = World::start().await?;
    open(&world, "mail").await?;
    let (token, _) = worker(&world, "resizer", &["images"]).await?;
    let (all, mailer) = worker(&world, "mailer", &["mail"]).await?;
    let task = take(&mailer, "mail", "m").await?;
    let absent = format!("{}{}", &task.task.to_string()[..20], "0".repeat(16));

    let number = task.token;
    let bodies = [
        ("heartbeat", format!(r#"{{"token":{number}}}"#)),
        ("complete", format!(r#"{{"token":{number},"result":1}}"#)),
        // A result that cannot be stored is an answer too.
        (
            "complete",
            format!(r#"{{"token":{number},"result":9007199254740993}}"#),
        ),
        ("fail", format!(r#"{{"token":{number},"message":"x"}}"#)),
        (
            "fail",
            format!(r#"{{"token":{number},"message":"x","code":"Not A Code"}}"#),
        ),
    ];
    for (verb, body) in &bodies {
        let other = send(
            &world,
            &token,
            &format!("/v1/tasks/{}/{verb}", task.task),
            body,
        )
        .await?;
        let none = send(&world, &token, &format!("/v1/tasks/{absent}/{verb}"), body).await?;
        assert_eq!(other.status, none.status, "{verb} {body}: {}", other.text());
        assert_eq!(
            other.text().replace(&task.task.to_string(), "ID"),
            none.text().replace(&absent, "ID"),
            "{verb} {body}"
        );
        assert!(other.status.is_client_error(), "{verb} {body}");
    }
    let listed = world.client.list_tasks(&TaskFilter::default()).await?;
    assert_eq!(
        listed.items[0].state,
        TaskState::Held,
        "nothing was changed"
    );
    let done = format!("/v1/tasks/{}/complete", task.task);
    assert_eq!(send(&world, &all, &done, &bodies[1].1).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn what_another_token_claimed_under_the_same_key_is_not_given() -> Result<()> {
    let world = World::start().await?;
    open(&world, "mail").await?;
    let (_, resizer) = worker(&world, "resizer", &["images"]).await?;
    let held = take(&world.client, "mail", "the same").await?;

    let claimed = resizer.claim_tasks(&claim("images", 0), "the same").await?;
    let again = take(&world.client, "mail", "the same").await?;

    assert!(claimed.tasks.is_empty(), "{claimed:?}");
    assert_eq!((held.task, held.token), (again.task, again.token));
    Ok(())
}

#[tokio::test]
async fn a_token_gives_queues_of_its_own_and_no_others() -> Result<()> {
    let world = World::start().await?;
    let rights = [Right::Admin, Right::Work, Right::Once, Right::Read];
    let maker = wanted("desk", &rights, &["images", "thumbs"])?;
    let maker = world.client.create_token(&maker, "m").await?.body;
    let desk = Client::new(world.client.base(), &maker.token)?;
    let give = async |key: &str, rights: &[Right], of: &[&str]| {
        let given = desk.create_token(&wanted("given", rights, of)?, key).await;
        Ok::<_, anyhow::Error>(given)
    };
    let map = |role| MapGroup {
        group: "staff".to_owned(),
        role,
        rights: semel_model::Rights::default(),
    };

    let some = give("a", &[Right::Work], &["thumbs"]).await??.body;
    let reader = give("b", &[Right::Read], &[]).await??.body;
    for (key, beyond) in [("c", &[][..]), ("d", &["images", "mail"]), ("e", &["mail"])] {
        let (code, detail) = problem(give(key, &[Right::Work], beyond).await?)?;
        assert_eq!(code, "right-missing");
        let expected =
            "the token `desk` works only on the queues images, thumbs, and gives no others";
        assert_eq!(detail, expected);
    }
    let workers = desk.map_group(&map(Role::Worker)).await;
    let observers = desk.map_group(&map(Role::Observer)).await;

    assert_eq!(some.kept.queues, queues(&["thumbs"])?);
    assert!(
        reader.kept.queues.is_empty(),
        "queues are for those who work"
    );
    assert_eq!(refused(workers)?, Code::RightMissing);
    assert!(observers.is_ok(), "{observers:?}");
    assert_eq!(desk.whoami().await?.queues, maker.kept.queues);
    Ok(())
}

#[tokio::test]
async fn queues_are_few_names_for_tokens_that_work() -> Result<()> {
    let world = World::start().await?;
    let ask = async |rights: &[Right], of: &[&str]| {
        let asked = wanted("x", rights, of)?;
        Ok::<_, anyhow::Error>(problem(world.client.create_token(&asked, "x").await)?.1)
    };

    let idle = ask(&[Right::Read], &["images"]).await?;
    let many = vec!["images"; 33];
    let many = ask(&[Right::Work], &many).await?;
    let odd = r#"{"name":"x","rights":["work"],"queues":["no such queue"]}"#;
    let odd = send(&world, &world.token, "/v1/tokens", odd).await?;

    assert!(idle.contains("the right `work`"), "{idle}");
    assert!(many.contains("at most 32 queues"), "{many}");
    assert_eq!(odd.status, 400, "{}", odd.text());
    worker(&world, "resizer", &["images", "thumbs"]).await?;
    let page = Browser::signed_in(&world).await?;
    let page = page.page("/console/main/tokens").await?;
    assert!(page.contains("images, thumbs"), "{page}");
    Ok(())
}

/// A route that is added for workers needs a check of the queue, and a row in the tests above.
#[test]
fn the_queue_is_checked_on_every_route_for_workers() {
    let routes = list_routes().into_iter();
    let of_workers = routes.filter(|route| route.access == Access::Right(Right::Work));
    let mut paths: Vec<String> = of_workers.map(|route| route.path).collect();
    paths.sort_unstable();

    assert_eq!(
        paths,
        [
            "/v1/tasks/claim",
            "/v1/tasks/{task}/complete",
            "/v1/tasks/{task}/fail",
            "/v1/tasks/{task}/heartbeat",
        ]
    );
}
