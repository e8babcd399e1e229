//! Many visits to many gates, one transaction.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all, try_join3, try_join5};
use jiff::Timestamp;
use semel_model::gate::{
    AdmissionState, EntryRequest, FreeStarts, GateOperation, GateVerdict, Rate, WakeUp,
};
use semel_model::{GateId, InSlot, RunId, Slot, Span};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{read_entry, statements};
use crate::cell::Cell;
use crate::clock;
use crate::writer::connection::{PreparedClient, WriterConnection};
use crate::writer::{Batch, Writer};

/// How many runs are woken in one pass if there is room for more.
const LINE_MAX: i64 = 64;

/// How many runs that joined another one are woken in one pass.
const JOINED_MAX: i64 = 256;

/// How often a gate is looked at again if more runs may have to be woken.
const ROUNDS_MAX: usize = 1_000;

/// One run's visit to one gate.
#[derive(Clone, Copy, Debug)]
pub struct GateRequest {
    /// The gate.
    pub gate: GateId,
    /// The run.
    pub run: RunId,
    /// What it asks.
    pub operation: GateOperation,
}

/// What came of a visit.
#[derive(Clone, Debug, Default)]
pub struct GateResponse {
    /// The gate's decision, if the run asked to enter.
    pub verdict: Option<GateVerdict>,
    /// The run that has to end so that this one can take its place.
    pub wanted: Option<RunId>,
    /// The runs that have to look at the gate.
    pub wake_ups: Vec<WakeUp>,
}

/// The batch of one commit of visits.
pub struct AdmissionBatch;

/// Starts the writer that all visits of a process go through.
pub fn start_visiting(cell: &Cell) -> Writer<AdmissionBatch> {
    Writer::start(cell, || AdmissionBatch)
}

impl Batch for AdmissionBatch {
    type Item = GateRequest;
    type Answer = GateResponse;
    type Gathered = ();

    const LANES: usize = 2;

    fn slot(item: &GateRequest) -> Slot {
        item.gate.slot()
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<GateRequest>,
    ) -> Result<Vec<GateResponse>, Error> {
        let mut answers = vec![GateResponse::default(); items.len()];
        let mut round: Vec<(usize, GateRequest)> = items.iter().copied().enumerate().collect();
        for _ in 0..ROUNDS_MAX {
            let ready = connection.prepare(statements::ALL).await?;
            let calls: Vec<GateRequest> = round.iter().map(|(_, call)| *call).collect();
            let visited = match visit(ready, &calls).await {
                Ok(visited) => visited,
                Err(error) => {
                    let _ = ready.client.batch_execute("ROLLBACK").await;
                    return Err(error);
                }
            };
            let mut again = Vec::new();
            for ((index, call), (answer, more)) in round.into_iter().zip(visited) {
                let whole = &mut answers[index];
                whole.verdict = whole.verdict.or(answer.verdict);
                whole.wanted = whole.wanted.or(answer.wanted);
                whole.wake_ups.extend(answer.wake_ups);
                if more {
                    again.push((index, call));
                }
            }
            if again.is_empty() {
                break;
            }
            round = again;
        }
        Ok(answers)
    }
}

/// Makes the visits, in order, and says of each whether more is to be done after it.
async fn visit(
    ready: PreparedClient<'_>,
    calls: &[GateRequest],
) -> Result<Vec<(GateResponse, bool)>, Error> {
    let (mut books, now) = open(ready, calls).await?;
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        let Some(page) = books.get_mut(&call.gate) else {
            unreachable!("every gate that is visited is held");
        };
        answers.push((page.answer(call), false));
    }
    for (index, call) in calls.iter().enumerate() {
        // The last visit that leaves handles the rest of the line, and the rest of those that
        // joined it.
        let leaves = matches!(call.operation, GateOperation::Leave { .. });
        let later = calls[index + 1..]
            .iter()
            .any(|later| later.gate == call.gate);
        if let Some(page) = books.get(&call.gate) {
            let joined = page.joined.get(&call.run).copied().unwrap_or_default();
            answers[index].1 = leaves && (joined >= JOINED_MAX || (!later && page.is_unsettled()));
        }
    }
    close(ready, &books, now).await?;
    Ok(answers)
}

/// A gate, and how much of it was read.
struct Page {
    book: AdmissionState,
    in_line: i64,
    joined: BTreeMap<RunId, i64>,
}

impl Page {
    fn answer(&mut self, call: &GateRequest) -> GateResponse {
        let verdict = match call.operation {
            GateOperation::Enter {
                accepted_at,
                since,
                rules,
            } => Some(self.book.enter(EntryRequest {
                run: call.run,
                accepted_at,
                since,
                rules,
            })),
            GateOperation::Leave { seq } => {
                self.book.leave(call.run, seq);
                None
            }
        };
        GateResponse {
            verdict,
            wanted: self.book.take_wanted(),
            wake_ups: self.book.take_summons(),
        }
    }

    /// Whether there is room left, and possibly a run in line that was not read.
    fn is_unsettled(&self) -> bool {
        let read_all = match self.book.concurrency {
            Some(most) => self.in_line <= i64::from(most).min(LINE_MAX),
            None => self.in_line <= LINE_MAX,
        };
        !read_all && self.book.has_room() && !self.book.has_line()
    }
}

type Pages = BTreeMap<GateId, Page>;

/// Holds the gates and reads what the visits can concern.
async fn open(
    ready: PreparedClient<'_>,
    calls: &[GateRequest],
) -> Result<(Pages, Timestamp), Error> {
    let mut ids: Vec<Uuid> = calls.iter().map(|call| *call.gate.as_uuid()).collect();
    ids.sort_unstable();
    ids.dedup();
    let (mut own, mut leaving) = (statements::Pairs::default(), statements::Pairs::default());
    for call in calls {
        own.push(call.gate, call.run);
        if matches!(call.operation, GateOperation::Leave { .. }) {
            leaving.push(call.gate, call.run);
        }
    }
    let client = ready.client;
    let joined = async {
        match leaving.values() {
            Some(mut values) => {
                values.push(&JOINED_MAX);
                client
                    .query(ready.statement(statements::JOINED), &values)
                    .await
            }
            None => Ok(Vec::new()),
        }
    };
    let own = [&own.gates as &(dyn ToSql + Sync), &own.runs];
    // In one flight: the server works through them in order, and reads the clock once it holds all.
    let ((), gates, now, tickets, (line, others, joined)) = try_join5(
        client.batch_execute("BEGIN"),
        client.query(ready.statement(statements::HOLD), &[&ids]),
        client.query_one(ready.statement(clock::READ), &[]),
        client.query(ready.statement(statements::OWN), &own),
        try_join3(
            client.query(ready.statement(statements::LINE), &[&ids, &LINE_MAX]),
            client.query(ready.statement(statements::OTHERS), &[&ids]),
            joined,
        ),
    )
    .await?;
    let now: Timestamp = now.get(0);
    let mut books = Pages::new();
    for row in &gates {
        books.insert(GateId::from_uuid(row.get(0)), read_page(row, now));
    }
    for row in tickets.iter().chain(&others) {
        load(&mut books, row, |_, _| {});
    }
    for row in &line {
        load(&mut books, row, |page, _| page.in_line += 1);
    }
    for row in &joined {
        load(&mut books, row, |page, behind| {
            *page.joined.entry(behind).or_default() += 1;
        });
    }
    read_past(ready, calls, &mut books).await?;
    Ok((books, now))
}

fn read_page(row: &Row, now: Timestamp) -> Page {
    let count = |column: usize| {
        let number: Option<i32> = row.get(column);
        number.and_then(|number| u32::try_from(number).ok())
    };
    let mut book = AdmissionState::new(now);
    book.concurrency = count(1);
    let per: Option<i64> = row.get(3);
    book.rate = count(2).zip(per).map(|(most, per)| Rate {
        most,
        per: Span::from_millis(per.unsigned_abs()),
    });
    book.running = count(4).unwrap_or_default();
    book.granted = count(5).unwrap_or_default();
    book.free_starts.started = row.get(6);
    Page {
        book,
        in_line: 0,
        joined: BTreeMap::new(),
    }
}

fn load(books: &mut Pages, row: &Row, note: impl FnOnce(&mut Page, RunId)) {
    if let Some(page) = books.get_mut(&GateId::from_uuid(row.get(0))) {
        let ticket = read_entry(row, 1);
        note(page, ticket.related_run.unwrap_or(ticket.run));
        page.book.load(ticket);
    }
}

/// Reads the starts that count, of gates that have a rate.
async fn read_past(
    ready: PreparedClient<'_>,
    calls: &[GateRequest],
    books: &mut Pages,
) -> Result<(), Error> {
    for call in calls {
        if let (GateOperation::Enter { rules, .. }, Some(page)) =
            (call.operation, books.get_mut(&call.gate))
        {
            page.book.rate = rules.rate;
        }
    }
    let (mut ids, mut firsts, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for (gate, page) in books.iter_mut() {
        let Some(rate) = page.book.rate else { continue };
        let count = rate.most.min(FreeStarts::LOADED_MAX);
        page.book.free_starts.past = vec![None; count as usize].into();
        let first = page.book.free_starts.started - i64::from(rate.most);
        ids.push(*gate.as_uuid());
        firsts.push(first);
        behind.push(first + i64::from(count));
    }
    if ids.is_empty() {
        return Ok(());
    }
    let values: [&(dyn ToSql + Sync); 3] = [&ids, &firsts, &behind];
    let rows = ready
        .client
        .query(ready.statement(statements::PAST), &values)
        .await?;
    for row in &rows {
        let index: i32 = row.get(1);
        let page = books.get_mut(&GateId::from_uuid(row.get(0)));
        let past = page.and_then(|page| {
            let index = usize::try_from(index).ok()?;
            page.book.free_starts.past.get_mut(index)
        });
        if let Some(past) = past {
            *past = Some(row.get(2));
        }
    }
    Ok(())
}

/// Writes down what changed, and lets the gates go.
async fn close(ready: PreparedClient<'_>, books: &Pages, now: Timestamp) -> Result<(), Error> {
    let (mut put, mut gone) = (
        statements::GateEntryRows::default(),
        statements::Pairs::default(),
    );
    let (mut gates, mut starts) = (
        statements::Gates::default(),
        statements::GateStartRows::default(),
    );
    let mut empty: Vec<Uuid> = Vec::new();
    for (gate, page) in books {
        for (run, ticket) in &page.book.changed {
            match ticket {
                Some(ticket) => put.push(*gate, ticket),
                None => gone.push(*gate, *run),
            }
        }
        starts.push(*gate, &page.book, now);
        match page.book.is_empty() && page.book.free_starts.started == 0 {
            true => empty.push(*gate.as_uuid()),
            false => gates.push(*gate, &page.book),
        }
    }
    let closed: Option<Vec<&(dyn ToSql + Sync)>> = (!empty.is_empty()).then(|| vec![&empty as _]);
    let writes = [
        (statements::PUT, put.values()),
        (statements::REMOVE, gone.values()),
        (statements::START, starts.values()),
        (statements::PASS, starts.passed()),
        (statements::KEEP, gates.values()),
        (statements::CLOSE, closed),
    ];
    let client = ready.client;
    let sent = writes.into_iter().filter_map(|(text, values)| {
        let statement = ready.statement(text);
        values.map(|values| async move { client.execute(statement, &values).await })
    });
    let sent: Vec<_> = sent.collect();
    let commit = client.batch_execute("COMMIT");
    let (written, committed) = join(join_all(sent), commit).await;
    for answer in written {
        answer?;
    }
    committed
}
