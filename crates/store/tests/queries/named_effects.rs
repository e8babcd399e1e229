//! Named effects: who is first, what a repeat finds, and what a late report is worth.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures_util::future::try_join_all;
use semel_model::named_effect::OnDoubt;
use semel_model::{
    EffectId, EffectName, EffectScope, Fingerprint, HolderId, NamedEffectId, NamedEffectState,
    RunId, Span, TokenId,
};
use semel_store::audit::AuditEntry;
use semel_store::named_effects::{
    self, EffectAction, HolderView, NamedBegin, NamedBegun, NamedHold, NamedHolder, NamedReport,
    NamedResult, NamedSettlement, ReportedHold, Reporter,
};
use semel_store::{SlotCell, clock};
use serde_json::json;
use uuid::Uuid;

use crate::world::World;

mod guarded;
mod notices;
mod simulation;
mod undoing;
mod waiting;

const NAMESPACE: i32 = 1;
/// So long that the time which a test itself takes decides nothing.
const LEASE: Span = Span::from_const_secs(600);
const KEEP: Span = Span::from_const_secs(36_000);
/// The longest that a destination remembers a key.
const WINDOW: Span = Span::from_const_secs(86_400);

fn script(number: u128) -> NamedHolder {
    agreeing(number, OnDoubt::Ask)
}

fn agreeing(number: u128, on_doubt: OnDoubt) -> NamedHolder {
    NamedHolder::Script {
        nonce: HolderId::from_uuid(Uuid::from_u128(number)),
        caller: caller(),
        name: format!("host:{number}"),
        lease: LEASE,
        on_doubt,
    }
}

/// The API token of all processes here.
fn caller() -> TokenId {
    TokenId::from_uuid(Uuid::from_u128(77))
}

fn run(number: u128) -> NamedHolder {
    NamedHolder::Run {
        run: RunId::from_uuid(Uuid::from_u128(number)),
        step: "charge".to_owned(),
        item: String::new(),
        generation: 0,
    }
}

fn asking(key: &str, holder: NamedHolder, request: &str) -> Result<NamedBegin> {
    let name = EffectName::new(EffectScope::Shared, key.as_bytes())?;
    Ok(NamedBegin {
        id: NamedEffectId::derive(&"default".parse()?, &name),
        namespace_id: NAMESPACE,
        name,
        action: EffectAction {
            kind: "command".to_owned(),
            destination: String::new(),
            method: String::new(),
        },
        fingerprint: Fingerprint::of(&json!(request)),
        holder,
        keep: KEEP,
        accepts_other: false,
        seq: Some(2),
        renews: false,
        endless: true,
    })
}

fn done(result: &str) -> NamedResult {
    NamedResult {
        result: Some(json!(result)),
        external_id: Some(format!("ch_{result}")),
    }
}

fn act() -> AuditEntry {
    AuditEntry::new(NAMESPACE, "token:ada", "once.settle", "shared k")
}

/// One name in one database.
struct Name<'a> {
    world: &'a World,
    key: &'a str,
    id: NamedEffectId,
}

impl<'a> Name<'a> {
    fn new(world: &'a World, key: &'a str) -> Result<Self> {
        let id = asking(key, script(1), "a")?.id;
        Ok(Self { world, key, id })
    }

    fn cell(&self) -> SlotCell<'a> {
        self.world.cell.of(self.id)
    }

    async fn begin(&self, holder: NamedHolder, request: &str) -> Result<NamedBegun> {
        let asked = asking(self.key, holder, request)?;
        Ok(named_effects::begin(self.cell(), &asked).await?)
    }

    async fn first(&self, holder: NamedHolder, request: &str) -> Result<NamedHold> {
        match self.begin(holder, request).await? {
            NamedBegun::First(hold) => Ok(hold),
            NamedBegun::Done(_)
            | NamedBegun::Other(_)
            | NamedBegun::Held(_)
            | NamedBegun::InDoubt(_)
            | NamedBegun::Over(_) => bail!("not first"),
        }
    }

    fn hold(&self, token: i64, by: Reporter) -> ReportedHold {
        ReportedHold {
            namespace_id: NAMESPACE,
            id: self.id,
            token,
            by,
        }
    }

    /// A hold of the kind that the latest one is.
    async fn own(&self, token: i64) -> Result<ReportedHold> {
        let found = named_effects::find(self.cell(), NAMESPACE, self.id).await?;
        let by = match found.map(|view| view.holder) {
            Some(HolderView::Run { .. }) => Reporter::Run,
            Some(HolderView::Script { .. }) | None => Reporter::Script(caller()),
        };
        Ok(self.hold(token, by))
    }

    async fn done(&self, token: i64, result: &str) -> Result<NamedReport> {
        let (hold, result) = (self.own(token).await?, done(result));
        Ok(named_effects::done(self.cell(), hold, &result).await?)
    }

    async fn fail(&self, token: i64) -> Result<NamedReport> {
        let (hold, fault) = (self.own(token).await?, json!({ "code": "exit-2" }));
        Ok(named_effects::fail(self.cell(), hold, &fault).await?)
    }

    async fn settle(&self, token: i64, settlement: NamedSettlement) -> Result<NamedReport> {
        let (cell, act) = (self.cell(), act());
        Ok(named_effects::settle(cell, NAMESPACE, self.id, token, &settlement, &act).await?)
    }

    async fn state(&self) -> Result<Option<NamedEffectState>> {
        let found = named_effects::find(self.cell(), NAMESPACE, self.id).await?;
        Ok(found.map(|view| view.state))
    }

    async fn pass(&self, secs: u64) -> Result<()> {
        clock::move_ahead(&self.world.cell, Duration::from_secs(secs)).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_holders_one_is_first_and_finds_itself_again() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;

    let begun = try_join_all((1..=20).map(|it| name.begin(script(it), "a"))).await?;

    let mut firsts = Vec::new();
    for (index, begun) in begun.iter().enumerate() {
        match begun {
            NamedBegun::First(hold) => firsts.push((index, *hold)),
            NamedBegun::Held(view) => ensure!(matches!(view.holder, HolderView::Script { .. })),
            NamedBegun::Done(_)
            | NamedBegun::Other(_)
            | NamedBegun::InDoubt(_)
            | NamedBegun::Over(_) => bail!("{begun:?}"),
        }
    }
    let [(index, hold)] = firsts[..] else {
        bail!("{} are first", firsts.len());
    };
    assert_eq!(hold.key, EffectId::named(name.id, 0));
    let again = name.first(script(index as u128 + 1), "a").await?;
    assert_eq!((again.token, again.generation), (hold.token, 0));
    Ok(())
}

#[tokio::test]
async fn a_repeat_finds_the_result_and_another_kind_is_told_apart() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;

    assert!(matches!(
        name.done(hold.token, "x").await?,
        NamedReport::Recorded(_)
    ));
    assert!(matches!(
        name.done(hold.token, "x").await?,
        NamedReport::Repeated(_)
    ));
    assert!(matches!(
        name.done(hold.token, "y").await?,
        NamedReport::Late(_)
    ));

    let NamedBegun::Done(view) = name.begin(run(7), "b").await? else {
        bail!("not done");
    };
    assert_eq!(view.result, Some(json!("x")));
    assert_eq!(view.external_id.as_deref(), Some("ch_x"));
    assert_eq!(view.fingerprint, Some(Fingerprint::of(&json!("a"))));
    let mut other = asking(name.key, run(7), "a")?;
    other.action.kind = "http".to_owned();
    let begun = named_effects::begin(name.cell(), &other).await?;
    assert!(matches!(begun, NamedBegun::Other(_)), "{begun:?}");
    let found = named_effects::find_by_key(name.cell(), NAMESPACE, hold.key).await?;
    assert_eq!(found.map(|view| view.id), Some(name.id));
    Ok(())
}

#[tokio::test]
async fn a_failed_effect_keeps_its_key_for_the_same_request_only() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let first = name.first(script(1), "a").await?;
    assert!(matches!(
        name.fail(first.token).await?,
        NamedReport::Recorded(_)
    ));
    assert!(matches!(
        name.fail(first.token).await?,
        NamedReport::Repeated(_)
    ));

    let same = name.first(script(2), "a").await?;
    assert!(same.key == first.key && same.token > first.token);
    assert!(matches!(
        name.done(first.token, "x").await?,
        NamedReport::Late(_)
    ));
    let view = named_effects::find(name.cell(), NAMESPACE, name.id).await?;
    let note = view.and_then(|view| view.note).unwrap_or_default();
    assert!(note.contains("reported that it is done"), "{note}");

    name.fail(same.token).await?;
    let other = name.first(script(3), "b").await?;
    assert_eq!((other.generation, other.key == first.key), (1, false));
    Ok(())
}

#[tokio::test]
async fn a_key_under_which_a_refusal_is_kept_is_left_behind_once() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let refused = name.first(run(1), "a").await?;
    name.fail(refused.token).await?;
    let renewing = NamedBegin {
        renews: true,
        ..asking("charge:o-1", run(1), "a")?
    };

    let mut keys = Vec::new();
    for _ in 0..2 {
        let begun = named_effects::begin(name.cell(), &renewing).await?;
        let NamedBegun::First(hold) = begun else {
            bail!("not first: {begun:?}")
        };
        keys.push(hold.key);
    }

    let next = EffectId::named(name.id, 1);
    assert_eq!(keys, [next, next], "a repeat finds its hold");
    assert_ne!(refused.key, next);
    Ok(())
}

#[tokio::test]
async fn a_lost_lease_is_a_doubt_that_only_a_report_of_done_or_an_operator_ends() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    name.pass(601).await?;

    // Before and after the service has seen it.
    for lapsed in [0, 1] {
        let begun = name.begin(script(2), "a").await?;
        assert!(matches!(begun, NamedBegun::InDoubt(_)), "{begun:?}");
        let own = name.hold(hold.token, Reporter::Script(caller()));
        let beat = named_effects::heartbeat(name.cell(), own).await?;
        assert_eq!(beat, None);
        assert!(matches!(name.fail(hold.token).await?, NamedReport::Late(_)));
        let over = named_effects::lapse(world.cell.every()).await?;
        assert_eq!(over.len(), 1 - lapsed);
    }
    name.pass(10 * 36_000).await?;
    named_effects::expire(world.cell.every(), WINDOW).await?;
    assert_eq!(name.state().await?, Some(NamedEffectState::InDoubt));

    assert!(matches!(
        name.done(hold.token, "x").await?,
        NamedReport::Recorded(_)
    ));
    assert_eq!(name.state().await?, Some(NamedEffectState::Done));
    Ok(())
}

#[tokio::test]
async fn an_operator_settles_once_and_a_late_done_corrects_a_wrong_word() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    let no = NamedSettlement::DidNotHappen;
    assert!(matches!(
        name.settle(hold.token, no.clone()).await?,
        NamedReport::Late(_)
    ));
    name.pass(601).await?;

    assert!(matches!(
        name.settle(hold.token, no.clone()).await?,
        NamedReport::Recorded(_)
    ));
    assert!(matches!(
        name.settle(hold.token, no.clone()).await?,
        NamedReport::Repeated(_)
    ));
    let yes = NamedSettlement::Happened(done("x"));
    assert!(matches!(
        name.settle(hold.token, yes.clone()).await?,
        NamedReport::Late(_)
    ));
    let client = world.connect().await?;
    let acts: i64 = client
        .query_one("SELECT count(*) FROM audit", &[])
        .await?
        .get(0);
    assert_eq!(acts, 1);

    assert!(matches!(
        name.done(hold.token, "x").await?,
        NamedReport::Recorded(_)
    ));
    assert_eq!(name.state().await?, Some(NamedEffectState::Done));
    Ok(())
}

#[tokio::test]
async fn redo_and_expiry_begin_a_generation_whether_or_not_the_sweep_came_by() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(script(1), "a").await?;
    name.done(hold.token, "x").await?;

    let redo =
        async |token| named_effects::redo(name.cell(), NAMESPACE, name.id, token, &act()).await;
    assert!(matches!(redo(hold.token).await?, NamedReport::Recorded(_)));
    assert!(matches!(redo(hold.token).await?, NamedReport::Repeated(_)));
    assert_eq!(name.state().await?, None);
    let second = name.first(script(2), "a").await?;
    assert_eq!(second.generation, 1);
    assert!(matches!(redo(hold.token).await?, NamedReport::Late(_)));

    for (generation, sweep) in [(2, false), (3, true)] {
        let hold = name.first(script(2), "a").await?;
        name.done(hold.token, "x").await?;
        name.pass(36_001).await?;
        assert_eq!(name.state().await?, None);
        if sweep {
            let expired = named_effects::expire(world.cell.every(), WINDOW).await?;
            assert_eq!(expired, (1, false));
        }
        assert_eq!(name.first(script(2), "a").await?.generation, generation);
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_script_is_followed_only_if_both_agreed_and_time_has_passed() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let retry = |number| agreeing(number, OnDoubt::Retry);
    let hold = name.first(retry(1), "a").await?;
    name.pass(601).await?;
    named_effects::lapse(world.cell.every()).await?;
    assert!(matches!(
        name.begin(retry(2), "a").await?,
        NamedBegun::InDoubt(_)
    ));
    name.pass(60).await?;
    assert!(matches!(
        name.begin(script(3), "a").await?,
        NamedBegun::InDoubt(_)
    ));
    assert!(matches!(
        name.begin(retry(2), "b").await?,
        NamedBegun::InDoubt(_)
    ));

    let next = name.first(retry(2), "a").await?;

    assert!(next.key == hold.key && next.token > hold.token);
    let other = Name::new(&world, "charge:o-2")?;
    other.first(script(1), "a").await?;
    other.pass(36_000).await?;
    assert!(matches!(
        other.begin(retry(2), "a").await?,
        NamedBegun::InDoubt(_)
    ));
    Ok(())
}
