//! One object of each kind that a path of the API can name.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{
    AskReconcile, AskRehearsal, AskRunJob, BeginOnce, MapGroup, PlanReplay, PutConnection,
    PutSubscription, RunJobVerb, SetSecret, StartRun, TaskFilter, UploadResource,
};
use semel_model::{FlowName, HolderId, Label, ResourceRef, Role, SecretText, Span, TokenId};
use semel_store::people::{self, NamedPerson, PersonSignIn};
use semel_testkit::until_some;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::world::{World, patience_span};

/// What objects with a name are called.
const NAME: &str = "swept";

/// What nothing is called.
const NOTHING: &str = "absent";

/// A flow that has a webhook, a schedule and a list to reconcile with, and whose runs wait for a worker.
const SWEPT: &str = "trigger:\n  webhook: { auth: none, key: input.id, mismatch: hold }\n  \
    schedule: { every: 300d }\nreconcile:\n  every: 300d\n  \
    list: { http: { get: 'http://127.0.0.1:1/list' } }\n  key: item.id\n  at: item.at\n  window: 1d\n\
    steps:\n  - id: work\n    task: { queue: images, input: '${{ input }}', within: 1h, lease: 30s }\n    \
    guard: key\n";

const WAITING: &str =
    "trigger: { api: {} }\nsteps:\n  - { id: one, wait: { callback: true, within: 1h } }\n";

const ASKING: &str = "trigger: { api: {} }\nsteps:\n  - id: sign\n    \
    approval: { from: [ada], show: '${{ input }}', within: 1h }\n";

const EMITTING: &str =
    "trigger: { api: {} }\nsteps:\n  - id: tell\n    emit: { event: order.paid }\n";

const FAILING: &str =
    "trigger: { api: {} }\nsteps:\n  - { id: one, fail: { code: no, message: no } }\n";

const REHEARSED: &str = "flow: rehearsed\ntrigger: { api: { key: input.id } }\nsteps:\n  \
    - { id: one, kv: { add: seen } }\nexamples:\n  - { name: one, input: { id: a } }\n";

/// What each variable part of a path stands for, by the path's beginning and the part's name.
pub(super) struct Objects(Vec<(&'static str, &'static str, String)>);

impl Objects {
    /// Makes one of each, in the namespace `main`.
    pub(super) async fn make(world: &World) -> Result<Self> {
        let mut made = Self(vec![
            ("/v1/", "{flow}", NAME.to_owned()),
            ("/v1/", "{name}", NAME.to_owned()),
        ]);
        made.name_things(world).await?;
        made.start_runs(world).await?;
        made.act_on_runs(world).await?;
        Ok(made)
    }

    fn add(&mut self, part: &'static str, value: impl ToString) {
        self.0.push(("/v1/", part, value.to_string()));
    }

    /// A connection, a secret and a subscription of one name, a resource, a token and a rehearsal.
    async fn name_things(&mut self, world: &World) -> Result<()> {
        let (client, name): (_, Label) = (&world.client, NAME.parse()?);
        let webhook = json!({ "webhook": { "url": "http://127.0.0.1:1/hook", "secret": NAME } });
        let connection = PutConnection {
            connection: serde_json::from_value(json!({ "to": webhook }))?,
            replace: false,
        };
        client.put_connection(&name, &connection, None).await?;
        let secret = SetSecret {
            value: SecretText::new(format!("whsec_{}", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")),
            overlap: None,
            hosts: None,
        };
        client.set_secret(&name, &secret, None).await?;
        let subscription = PutSubscription {
            event: "order.*".to_owned(),
            connection: NAME.to_owned(),
            replace: false,
        };
        client.put_subscription(&name, &subscription, None).await?;
        let bytes = b"a report";
        let resource = ResourceRef::from_digest(Sha256::digest(bytes).into());
        let how = UploadResource::default();
        client
            .upload_resource(resource, &how, "text/plain", &bytes[..])
            .await?;
        self.add("{digest}", resource.to_string().replace("res://", ""));
        let tokens = client.list_tokens(&Default::default()).await?.items;
        self.add("{token}", tokens.first().context("a token")?.id);
        self.add("{person}", sign_in(world).await?);
        let rehearsal = "00000000-0000-4000-8000-0000000000aa";
        let ask = AskRehearsal {
            source: REHEARSED.to_owned(),
            file: "rehearsed.flow.yaml".to_owned(),
            example: None,
            fault: None,
            seed: 0,
        };
        client.ask_rehearsal(rehearsal, &ask).await?;
        self.add("{rehearsal}", rehearsal);
        Ok(())
    }

    /// A run that waits for a worker, one for a callback, one for a person, one that emits.
    async fn start_runs(&mut self, world: &World) -> Result<()> {
        let client = &world.client;
        world.publish(NAME, SWEPT).await?;
        let deliver = |total: u32| {
            let body = json!({ "id": "1", "total": total }).to_string();
            let json = [("content-type", "application/json")];
            let hook = format!("/hooks/main/{NAME}");
            async move {
                world
                    .bare
                    .send(Method::POST, &hook, &json, body.into())
                    .await
            }
        };
        let first: serde_json::Value = deliver(5).await?.json()?;
        self.add("{run}", first["run"].as_str().context("a run")?);
        deliver(7).await?;
        let held = client.list_held(None).await?.items.pop();
        let held = held
            .and_then(|it| it.duplicate)
            .context("a held delivery")?;
        self.add("{duplicate}", held);
        let task = until_some("a task", async || {
            let tasks = client.list_tasks(&TaskFilter::default()).await?;
            Ok(tasks.items.into_iter().next())
        });
        let task = task.await?.task;
        self.add("{task}", task);
        self.add("{effect}", task);
        let waiting = start(world, "waiting", WAITING).await?;
        self.add("{wait}", world.until_waiting(waiting).await?.id);
        let asking = start(world, "asking", ASKING).await?;
        self.add("{approval}", world.until_asked(asking).await?.approval);
        start(world, "emitting", EMITTING).await?;
        let name: Label = NAME.parse()?;
        let delivery = until_some("a delivery", async || {
            let listed = client.list_deliveries(&name, &Default::default()).await?;
            Ok(listed.items.into_iter().next())
        });
        self.add("{event}", delivery.await?.id);
        Ok(())
    }

    /// A pass, a job, a plan, and an effect of a script.
    async fn act_on_runs(&mut self, world: &World) -> Result<()> {
        let client = &world.client;
        let dry_run = AskReconcile {
            since: None,
            dry_run: true,
        };
        let flow: FlowName = NAME.parse()?;
        let asked = client.ask_reconcile(&flow, &dry_run, None).await?;
        self.add("{nominal}", asked.body.nominal);
        start(world, "jobs", WAITING).await?;
        let mut job = AskRunJob {
            verb: RunJobVerb::Cancel,
            flow: "jobs".parse()?,
            state: None,
            after: None,
            before: None,
            digest: None,
            reason: Some("a test".to_owned()),
        };
        job.digest = Some(client.plan_run_job(&job).await?.digest);
        self.add("{job}", client.make_run_job(&job, "job").await?.body.job);
        let failing = start(world, "failing", FAILING).await?;
        let patience = patience_span();
        client.await_run(failing, patience).await?;
        let plan = PlanReplay {
            flow: "failing".parse()?,
            state: None,
            since: None,
            until: None,
            error: None,
            per_second: None,
            reason: Some("a test".to_owned()),
        };
        self.add("{plan}", client.plan_replay(&plan, "plan").await?.body.plan);
        let begin = BeginOnce {
            scope: None,
            key: "1".to_owned(),
            holder: HolderId::from_uuid(uuid::Uuid::from_u128(1)),
            holder_name: "test".to_owned(),
            request: json!({}),
            lease: None,
            on_doubt: None,
            keep: None,
        };
        let hold = client.begin_once(&begin).await?.hold.context("a hold")?;
        let key = hold.effect_key.to_string();
        self.0.push(("/v1/once/", "{effect}", key));
        Ok(())
    }

    /// A path that leads to what was made.
    pub(super) fn fill(&self, path: &str) -> Result<String> {
        let mut filled = path.to_owned();
        // What was added last is the most special.
        for (begin, part, value) in self.0.iter().rev() {
            if path.starts_with(begin) {
                filled = filled.replace(part, value);
            }
        }
        anyhow::ensure!(!filled.contains('{'), "nothing was made for {path}");
        Ok(filled)
    }

    /// A response without what it was asked for, which it may repeat.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut hidden = text.replace(NOTHING, "…");
        for (_, part, value) in &self.0 {
            hidden = hidden.replace(value, "…").replace(&absent(part), "…");
        }
        hidden
    }
}

/// Whether a response shows something of what was made that no request names.
pub(super) fn shows(text: &str) -> bool {
    let secrets = ["order.paid", "rehearsed", "whsec_", "a report"];
    secrets.iter().any(|it| text.contains(it))
}

/// A person whom an identity provider signed in.
async fn sign_in(world: &World) -> Result<TokenId> {
    let group = NAME.to_owned();
    let role = Role::Viewer;
    world
        .client
        .map_group(&MapGroup {
            group,
            role,
            rights: semel_model::Rights::default(),
        })
        .await?;
    let person = NamedPerson {
        issuer: "https://id.example",
        subject: "1",
        name: "Ada",
        groups: &[NAME.to_owned()],
        lifetime: Span::from_secs(900),
    };
    let wish = PersonSignIn {
        namespace: "main",
        digest: &[1; 32],
        earlier: None,
        longest: Span::from_secs(900),
        provider_session: None,
        token_lifetime: Span::from_secs(86_400),
        seed: [2; 32],
    };
    people::sign_in(world.engine.cell().home(), &person, &wish, "oidc:Ada (1)").await?;
    let known = world.client.list_people(&Default::default()).await?.items;
    Ok(known.first().context("a person")?.id)
}

async fn start(world: &World, name: &str, rest: &str) -> Result<semel_model::RunId> {
    let flow = world.publish(name, rest).await?;
    let start = StartRun {
        key: Some("1".to_owned()),
        input: json!({ "id": "1" }),
        ..StartRun::default()
    };
    Ok(world.client.start_run(&flow, &start, None).await?.body.run)
}

/// A path of the same form that leads to nothing.
pub(super) fn absent(path: &str) -> String {
    let zeros = "0".repeat(32);
    let effect = format!("eff_{zeros}");
    path.replace("{run}", &format!("run_{zeros}"))
        .replace("{effect}", &effect)
        .replace("{event}", &effect)
        .replace("{task}", &effect)
        .replace("{duplicate}", &format!("dup_{zeros}"))
        .replace("{wait}", &format!("wait_{zeros}"))
        .replace("{approval}", &format!("wait_{zeros}"))
        .replace("{job}", &format!("job_{zeros}"))
        .replace("{plan}", &format!("plan_{zeros}"))
        .replace("{token}", &format!("tok_{zeros}"))
        .replace("{person}", &format!("tok_{zeros}"))
        .replace("{digest}", &"0".repeat(64))
        .replace("{rehearsal}", "00000000-0000-4000-8000-000000000000")
        .replace("{nominal}", "2001-01-01T00:00:00Z")
        .replace("{flow}", NOTHING)
        .replace("{name}", NOTHING)
}
