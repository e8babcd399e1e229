//! Auditing keys on a million recorded deliveries.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Options, Program};
use serde_json::Value;

use crate::campaign::is_measured;
use crate::invariants;
use crate::servers::{Home, serve};

/// How long an audit may take where it is measured.
const AUDIT_MAX: Duration = Duration::from_secs(30);

/// 900,000 runs; 999 pairs of them share a payload. Then 50,000 repeats, 50,000 payloads that
/// differ in `amount`, and ten repeats a month late.
const FILL: &str = r#"
    WITH numbered AS (
        SELECT n, md5(n::text)::uuid AS id, md5('p' || greatest(n, 1000 + n % 1000))::uuid AS print,
               now() - interval '40 days' AS at
          FROM generate_series(1, 900000) AS n),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key, delivery_id,
                          accepted_at, ended_at)
        SELECT id, id, 1, 1, current_date, 'succeeded', convert_to('order-' || n, 'UTF8'), id, at, at
          FROM numbered),
    claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT id, id, print, now() + interval '1 day' FROM numbered)
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT current_date, id, 1, 1, at,
           json_build_array(json_build_object('event', 'accepted', 'trigger', 'webhook', 'input',
               json_build_object('id', 'order-' || n, 'amount', n)))
      FROM numbered;
    INSERT INTO duplicates (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count,
                            first_at, last_at, payload)
    SELECT md5(n::text)::uuid, 'claim', md5('d' || n)::uuid, 1, md5(n::text)::uuid,
           CASE WHEN n % 2 = 0 THEN 'repeat' ELSE 'mismatch' END, 1,
           now() - interval '40 days', CASE WHEN n <= 10 THEN now() ELSE now() - interval '39 days' END,
           CASE WHEN n % 2 = 1 THEN json_build_object('id', 'order-' || n, 'amount', -n) END
      FROM generate_series(1, 100000) AS n;
    ANALYZE"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "fills a database with a million deliveries; .ci/long runs it"]
async fn a_million_deliveries_are_audited_in_half_a_minute() -> Result<()> {
    let cluster = Cluster::start(Options::durable()).await?;
    let home = Home::found(cluster.server()).await?;
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    let source = "flow: orders\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
                  steps:\n  - id: note\n    kv: { add: orders }\n";
    home.publish(&server, "orders", source).await?;
    home.connect().await?.batch_execute(FILL).await?;
    let bearer = format!("Bearer {}", home.token());
    let headers = [("authorization", bearer.as_str())];

    let begun = Instant::now();
    let path = "/v1/keys/orders/audit?window=3d";
    let answer = server
        .client
        .send(Method::GET, path, &headers, Vec::new().into())
        .await?;
    let took = begun.elapsed();

    println!("audited in {:.1} s", took.as_secs_f64());
    ensure!(answer.status == 200, "{}", answer.text());
    let audit: Value = answer.json()?;
    assert_eq!(audit["deliveries"], 1_000_000);
    assert_eq!(audit["differing"]["deliveries"], 50_000);
    assert_eq!(audit["differing"]["fields"][0]["path"], "amount");
    assert_eq!(audit["shared"]["payloads"], 999);
    assert_eq!(audit["late"]["count"], 10);
    ensure!(!is_measured() || took < AUDIT_MAX, "{took:?}");
    invariants::hold(&home, &[&server]).await
}
