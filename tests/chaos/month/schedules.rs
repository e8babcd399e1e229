//! Schedules of a month: random patterns, zones and policies; every instant is in one row.

#[path = "../../../crates/flow/tests/schedules/oracle.rs"]
mod oracle;

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, ensure};
use oracle::{Offsets, Pattern};
use semel_testkit::Chance;
use serde_json::{Value, json};

use super::{DAYS, Month, START};

/// Zones whose clocks change in the month, and two whose do not.
const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kolkata",
    "UTC",
];

/// How late an instant may be decided and still be in time.
const IN_TIME_S: i64 = 300;

/// How long a decision takes to its run and its record at the most, where the clock jumps meanwhile.
const RECORDED_WITHIN_S: i64 = 60;

/// Across how many jumps of the clock a slow machine may take from a decision to its record.
const JUMPS_MAX: usize = 3;

/// A schedule as its author declared it.
pub(crate) struct Declared {
    flow: String,
    recurrence: Recurrence,
    missed: &'static str,
    most: usize,
}

enum Recurrence {
    Cron { pattern: String, zone: &'static str },
    Every { minutes: i64 },
}

/// A row of the history.
#[derive(Clone)]
struct Tick {
    first: i64,
    last: i64,
    instants: usize,
    fired: bool,
    reason: String,
    decided_at: i64,
}

/// Makes so many flows live, as promoting would.
pub(crate) async fn prepare(month: &mut Month, count: usize) -> Result<Vec<Declared>> {
    let declared: Vec<Declared> = (0..count).map(|n| declare(&mut month.chance, n)).collect();
    let names: Vec<&str> = declared.iter().map(|one| one.flow.as_str()).collect();
    let sources: Vec<String> = declared.iter().map(source).collect();
    let publish = "
        WITH made AS (
            INSERT INTO flows (namespace_id, name, live_release, live_at)
            SELECT n.id, t.name, 1, $3::text::timestamptz
              FROM unnest($1::text[]) AS t (name), namespaces n WHERE n.name = 'default'
         RETURNING id, name)
        INSERT INTO releases (flow_id, number, digest, source)
        SELECT made.id, 1, encode(sha256(convert_to(t.source, 'UTF8')), 'hex'), t.source
          FROM made JOIN unnest($1::text[], $2::text[]) AS t (name, source) USING (name)";
    let client = &month.client;
    client.execute(publish, &[&names, &sources, &START]).await?;
    client
        .batch_execute("UPDATE config_version SET version = version + 1")
        .await?;
    Ok(declared)
}

fn declare(chance: &mut Chance, number: usize) -> Declared {
    let recurrence = match chance.below(8) {
        0 => Recurrence::Every {
            minutes: [90, 360, 720, 1_440][chance.below(4)],
        },
        _ => Recurrence::Cron {
            pattern: pattern(chance),
            zone: ZONES[chance.below(ZONES.len())],
        },
    };
    Declared {
        flow: format!("tick-{number:04}"),
        recurrence,
        missed: ["skip", "once", "all"][chance.below(3)],
        most: 1 + chance.below(6),
    }
}

/// Mostly once or a few times a day, in the hours in which clocks change.
fn pattern(chance: &mut Chance) -> String {
    let minute = [0, 0, 30, 15, chance.below(60)][chance.below(5)];
    let hour = match chance.below(8) {
        0 => "*/6".to_owned(),
        1 => format!("{},{}", chance.below(4), 12 + chance.below(12)),
        2 => "1-3".to_owned(),
        3 => "*".to_owned(),
        _ => chance.below(5).to_string(),
    };
    // What is due every hour is due on a few days only.
    let day = match (hour.as_str(), chance.below(4)) {
        ("*", _) => ["14", "28", "4"][chance.below(3)].to_owned(),
        (_, 0) => format!("*/{}", 2 + chance.below(3)),
        (_, 1) => "L".to_owned(),
        _ => "*".to_owned(),
    };
    let weekday = match chance.below(5) {
        0 => "0".to_owned(),
        1 => "1-5".to_owned(),
        _ => "*".to_owned(),
    };
    format!("{minute} {hour} {day} * {weekday}")
}

fn source(declared: &Declared) -> String {
    let when = match &declared.recurrence {
        Recurrence::Cron { pattern, zone } => format!("cron: '{pattern}', zone: {zone}"),
        Recurrence::Every { minutes } => format!("every: {minutes}m"),
    };
    let most = match declared.missed {
        "all" => format!(", most: {}", declared.most),
        _ => String::new(),
    };
    let Declared { flow, missed, .. } = declared;
    format!(
        "flow: {flow}\ntrigger:\n  schedule: {{ {when}, missed: {missed}{most} }}\nsteps:\n  - id: count\n    \
         kv: {{ add: 'fired/{flow}@${{{{ trigger.nominal }}}}' }}\n"
    )
}

/// Compares the history with the oracle; says what there was.
pub(crate) async fn check(month: &Month, declared: &[Declared]) -> Result<Value> {
    let ticks = read_ticks(month).await?;
    let decided = read_decided(month).await?;
    let mut zones = HashMap::new();
    for zone in ZONES {
        zones.insert(zone, offsets(month, zone).await?);
    }
    let changes: usize = zones.values().map(Offsets::changes).sum();
    ensure!(changes >= 4, "clocks change {changes} times");
    let mut fired = HashSet::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for one in declared {
        let to = *decided.get(&one.flow).context("a schedule's row")?;
        let due = due(one, &zones, to);
        let ticks = ticks.get(&one.flow).map_or(&[][..], Vec::as_slice);
        cover(one, ticks, &due)?;
        for tick in ticks {
            follows_policy(one, tick, &due, &month.jumps)
                .with_context(|| format!("{}: {}", one.flow, source(one)))?;
            let word = if tick.fired { "fired" } else { &tick.reason };
            *counts.entry(word.to_owned()).or_default() += tick.instants;
            if tick.fired {
                fired.insert(format!("{}@{}", one.flow, tick.first));
            }
        }
    }
    check_runs(month, &fired).await?;
    Ok(json!({ "schedules": declared.len(), "clock_changes": changes, "instants": counts }))
}

/// Every instant is in one row, in order, and no row is about anything else.
fn cover(one: &Declared, ticks: &[Tick], due: &[i64]) -> Result<()> {
    let mut next = 0;
    for tick in ticks {
        let expected = due.get(next).copied();
        ensure!(
            expected == Some(tick.first),
            "{}: {:?} is due, {} is recorded",
            one.flow,
            expected,
            tick.first
        );
        next += tick.instants;
        ensure!(
            next > 0 && due.get(next - 1) == Some(&tick.last),
            "{}: {} instants from {} do not end at {}",
            one.flow,
            tick.instants,
            tick.first,
            tick.last
        );
    }
    ensure!(
        next == due.len(),
        "{}: {} of {} instants are recorded",
        one.flow,
        next,
        due.len()
    );
    Ok(())
}

/// What was decided is what the policy says, for the time at which it was decided. Where the clock jumped between the
/// decision and its run or its record, that is the time which it showed before: a run that was accepted stays fired,
/// although the next look comes too late for it.
fn follows_policy(one: &Declared, tick: &Tick, due: &[i64], jumps: &[(i64, i64)]) -> Result<()> {
    let on_record = tick.decided_at;
    let mut times = vec![on_record];
    for _ in 0..JUMPS_MAX {
        let shown = *times.last().context("a time")?;
        let before = jumps
            .iter()
            .find(|(_, after)| (*after..=after + RECORDED_WITHIN_S).contains(&shown));
        times.extend(before.map(|(before, _)| *before));
    }
    ensure!(
        times.iter().any(|at| is_right(one, tick, due, *at)),
        "{} is {} ({}), decided {} s late",
        tick.last,
        if tick.fired { "fired" } else { "skipped" },
        tick.reason,
        on_record - tick.last
    );
    Ok(())
}

fn is_right(one: &Declared, tick: &Tick, due: &[i64], decided_at: i64) -> bool {
    let late = decided_at - tick.last;
    let after = |instant: &&i64| **instant > tick.last && **instant <= decided_at;
    let overtaken_by = due.iter().filter(after).count();
    late >= 0
        && match (one.missed, tick.fired, tick.reason.as_str()) {
            ("skip", true, _) => late <= IN_TIME_S && overtaken_by == 0,
            ("skip", false, "missed") => late > IN_TIME_S || overtaken_by > 0,
            ("once", true, _) => overtaken_by == 0,
            ("once", false, "missed") => overtaken_by > 0,
            ("all", true, _) => overtaken_by < one.most,
            ("all", false, "capped") => overtaken_by >= one.most,
            _ => false,
        }
}

/// Fired instants and runs are the same, one for one; each run counted once.
async fn check_runs(month: &Month, fired: &HashSet<String>) -> Result<()> {
    let runs = "
        SELECT split_part(convert_from(key, 'UTF8'), '@', 1) || '@'
               || extract(epoch FROM split_part(convert_from(key, 'UTF8'), '@', 2)::timestamptz)::int8,
               state::text
          FROM runs WHERE convert_from(key, 'UTF8') LIKE 'tick-%'";
    let rows = month.client.query(runs, &[]).await?;
    let mut keys = HashSet::new();
    for row in &rows {
        let (key, state): (String, &str) = (row.get(0), row.get(1));
        ensure!(state == "succeeded", "{key} is {state}");
        ensure!(fired.contains(&key), "{key} has a run and no tick");
        ensure!(keys.insert(key.clone()), "{key} has two runs");
    }
    ensure!(
        keys.len() == fired.len(),
        "{} runs for {} instants",
        keys.len(),
        fired.len()
    );
    let counted = "SELECT count(*), count(*) FILTER (WHERE value::text = '1')
                     FROM kv WHERE entry LIKE 'fired/%'";
    let row = month.client.query_one(counted, &[]).await?;
    let (all, once): (i64, i64) = (row.get(0), row.get(1));
    ensure!(
        all == once && all == keys.len() as i64,
        "{once} of {all} instants counted once, {} were fired",
        fired.len()
    );
    Ok(())
}

/// The instants that are due up to one, in seconds.
fn due(one: &Declared, zones: &HashMap<&str, Offsets>, to: i64) -> Vec<i64> {
    let start = start();
    let minutes: Vec<i64> = match &one.recurrence {
        Recurrence::Cron { pattern, zone } => {
            let offsets = &zones[zone];
            Pattern::read(pattern).instants(offsets)
        }
        Recurrence::Every { minutes } => {
            let first = start / 60 / minutes * minutes;
            let steps = 0..2 * DAYS * 1_440 / minutes;
            steps.map(|step| first + step * minutes).collect()
        }
    };
    let seconds = minutes.iter().map(|minute| minute * 60);
    seconds.filter(|at| *at > start && *at <= to).collect()
}

/// The beginning of the month, in seconds: 2027-03-08 is day 20,885.
const fn start() -> i64 {
    20_885 * 86_400 + 30
}

/// The offsets of a zone, as PostgreSQL knows them.
async fn offsets(month: &Month, zone: &str) -> Result<Offsets> {
    // From the day before, so that a time zone ahead of UTC begins before the month does.
    let (from, to) = (start() / 60 - 1_440, start() / 60 + 2 * DAYS * 1_440);
    let from = from / 15 * 15;
    let marks = "
        SELECT (extract(epoch FROM (at AT TIME ZONE $3) - (at AT TIME ZONE 'UTC')) / 60)::int8
          FROM (SELECT to_timestamp(minute * 60.0) AS at
                  FROM generate_series($1::int8, $2::int8) AS minute) t ORDER BY at";
    let end = to + 4 * 1_440;
    let rows = month.client.query(marks, &[&from, &end, &zone]).await?;
    let marks: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    Ok(Offsets::read(from, to, |minute| {
        marks[usize::try_from(minute - from).unwrap_or_default()]
    }))
}

/// What was decided, and when. The server that started an instant's run may have crashed before it
/// recorded that; the instant was decided when the run was accepted.
async fn read_ticks(month: &Month) -> Result<HashMap<String, Vec<Tick>>> {
    let ticks = "
        SELECT s.flow, extract(epoch FROM t.nominal)::int8, extract(epoch FROM t.last)::int8,
               t.instants, t.verdict::text = 'fired', coalesce(t.reason, ''),
               floor(extract(epoch FROM least(t.decided_at, r.accepted_at)))::int8
          FROM ticks t
          JOIN schedules s ON s.id = t.schedule_id
          LEFT JOIN runs r ON r.id = t.run_id
         ORDER BY t.schedule_id, t.nominal";
    let mut all: HashMap<String, Vec<Tick>> = HashMap::new();
    for row in month.client.query(ticks, &[]).await? {
        let instants: i64 = row.get(3);
        all.entry(row.get(0)).or_default().push(Tick {
            first: row.get(1),
            last: row.get(2),
            instants: usize::try_from(instants)?,
            fired: row.get(4),
            reason: row.get(5),
            decided_at: row.get(6),
        });
    }
    Ok(all)
}

async fn read_decided(month: &Month) -> Result<HashMap<String, i64>> {
    let decided = "SELECT flow, floor(extract(epoch FROM decided_to))::int8 FROM schedules";
    let rows = month.client.query(decided, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

#[test]
fn a_history_that_misses_repeats_or_invents_an_instant_is_refused() {
    let one = Declared {
        flow: "tick".to_owned(),
        recurrence: Recurrence::Every { minutes: 60 },
        missed: "once",
        most: 1,
    };
    let tick = |first: i64, last: i64, instants: usize, fired: bool| Tick {
        first,
        last,
        instants,
        fired,
        reason: if fired { "" } else { "missed" }.to_owned(),
        decided_at: 15_000,
    };
    let due = [3_600, 7_200, 10_800, 14_400];
    let whole = || vec![tick(3_600, 10_800, 3, false), tick(14_400, 14_400, 1, true)];

    let missing = vec![tick(3_600, 7_200, 2, false), tick(14_400, 14_400, 1, true)];
    let mut twice = whole();
    twice.push(tick(14_400, 14_400, 1, true));
    let invented = vec![tick(3_600, 14_400, 4, false), tick(15_000, 15_000, 1, true)];
    let fired_twice = tick(10_800, 10_800, 1, true);
    let fired_early = tick(18_000, 18_000, 1, true);

    assert!(cover(&one, &whole(), &due).is_ok());
    for wrong in [missing, twice, invented, whole()[..1].to_vec()] {
        assert!(cover(&one, &wrong, &due).is_err());
    }
    assert!(
        whole()
            .iter()
            .all(|tick| follows_policy(&one, tick, &due, &[]).is_ok())
    );
    assert!(follows_policy(&one, &fired_twice, &due, &[]).is_err());
    assert!(follows_policy(&one, &fired_early, &due, &[]).is_err());
    let stepped = [(18_300, 14_990)];
    assert!(follows_policy(&one, &fired_early, &due, &stepped).is_ok());
}
