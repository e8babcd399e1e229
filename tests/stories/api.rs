//! `semel api`: any operation of the API from the command line.

use anyhow::{Result, ensure};

use crate::asked::object;
use crate::desk::Desk;

const COUNT: &str = "flow: count
trigger: { manual: {} }
steps:
  - { id: add, kv: { add: counted } }
result: steps.add.result
";

#[tokio::test]
async fn any_operation_is_called_and_a_repeated_post_starts_one_run() -> Result<()> {
    let desk = Desk::open(&[("count", COUNT)]).await?;
    let start = "semel api post '/v1/flows/count/runs?wait=30s' \
                 --body '{\"trigger\": \"manual\", \"input\": 1}'";

    let (seen, whoami) = object(&desk, "semel api GET /v1/whoami").await?;
    let (first, run) = object(&desk, start).await?;
    let (again, same) = object(&desk, start).await?;
    let other = format!("{start} --idempotency-key other");
    let (third, another) = object(&desk, &other).await?;
    let (missing, unknown) = object(&desk, "semel api GET /v1/flows/nothing").await?;
    let (outside, refused) = object(&desk, "semel api POST /hooks/default/count").await?;
    let text = desk.say("semel api GET /v1/flows").await?;

    assert_eq!((seen, first, again, third), (0, 0, 0, 0), "{run} {same}");
    assert_eq!(whoami["data"]["namespace"], "default", "{whoami}");
    assert_eq!(run["data"]["state"], "succeeded", "{run}");
    assert_eq!(run["data"]["run"], same["data"]["run"]);
    ensure!(run["data"]["run"] != another["data"]["run"], "{another}");
    assert_eq!((missing, outside), (5, 2), "{unknown} {refused}");
    assert_eq!(unknown["error"]["code"], "flow-not-found");
    ensure!(text.contains("\"name\": \"count\""), "{text}");
    Ok(())
}
