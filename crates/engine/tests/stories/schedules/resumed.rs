//! Resuming a schedule over a database that fails in between: the answer says what was done.

use semel_testkit::Cut;

use super::*;

/// A schedule that is paused, with an instant that passed meanwhile.
async fn pause(world: &World) -> Result<()> {
    let (namespace, flow) = names()?;
    set_clock(world, "2027-01-10T00:30:00Z").await?;
    schedule(world, "every: 1h, missed: all").await?;
    until_decided(world, "2027-01-10T00:30:00Z").await?;
    let (engine, by) = (&world.engine, world.by());
    engine.pause_schedule(by, &namespace, &flow, None).await?;
    set_clock(world, "2027-01-10T01:30:00Z").await
}

/// Giving the schedule back comes after the commit that resumed it.
const REFUSE_TO_TAKE_BACK: &str = "
    CREATE FUNCTION refuse_to_take_back() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_query() LIKE '%SET holder = NULL, leased_until = NULL WHERE id = ANY%' THEN
            RAISE EXCEPTION 'not now';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER refuse_to_take_back BEFORE UPDATE ON schedules
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_take_back()";

#[tokio::test]
async fn a_schedule_that_was_resumed_is_said_to_be_although_it_cannot_be_given_back() -> Result<()>
{
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    pause(&world).await?;
    let client = world.database().connect().await?;
    client.batch_execute(REFUSE_TO_TAKE_BACK).await?;

    let engine = &world.engine;
    let resumed = engine
        .resume_schedule(world.by(), &namespace, &flow, None)
        .await?;
    let again = engine
        .resume_schedule(world.by(), &namespace, &flow, None)
        .await?;

    assert!(resumed && !again, "{resumed} {again}");
    assert_eq!(told(&world).await?, ["-2027-01-10T01:00:00Z 1 paused"]);
    Ok(())
}

#[tokio::test]
async fn a_schedule_is_said_to_be_resumed_where_the_answer_to_the_commit_was_lost() -> Result<()> {
    let mut world = World::start().await?;
    let (namespace, flow) = names()?;
    pause(&world).await?;
    let client = world.database().connect().await?;
    let proxy = world.go_behind_a_proxy().await?;

    proxy.hold_commits();
    let resuming = world
        .engine
        .resume_schedule(world.by(), &namespace, &flow, None);
    let cutting = async {
        let open = "SELECT count(*) FROM schedules WHERE paused_at IS NULL";
        let look = async || Ok(client.query_one(open, &[]).await?.get::<_, i64>(0));
        until("the schedule to be resumed", look, |open| *open == 1).await?;
        proxy.cut(Cut::Reset);
        proxy.resume();
        anyhow::Ok(())
    };
    let (resumed, cut) = tokio::join!(resuming, cutting);

    cut?;
    assert!(resumed?);
    let done = "SELECT (SELECT count(*) FROM ticks WHERE reason = 'paused'),
                       (SELECT count(*) FROM audit WHERE action = 'schedule.resume')";
    let done = client.query_one(done, &[]).await?;
    assert_eq!((done.get::<_, i64>(0), done.get::<_, i64>(1)), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_pause_that_begins_while_the_answer_to_a_resume_is_lost_stays() -> Result<()> {
    let mut world = World::start().await?;
    let (namespace, flow) = names()?;
    pause(&world).await?;
    let client = world.database().connect().await?;
    let proxy = world.go_behind_a_proxy().await?;

    proxy.hold_commits();
    let resuming = world
        .engine
        .resume_schedule(world.by(), &namespace, &flow, None);
    let cutting = async {
        let open = "SELECT count(*) FROM schedules WHERE paused_at IS NULL";
        let look = async || Ok(client.query_one(open, &[]).await?.get::<_, i64>(0));
        until("the schedule to be resumed", look, |open| *open == 1).await?;
        let again = "UPDATE schedules SET paused_at = moment(), paused_by = 'another'";
        client.execute(again, &[]).await?;
        proxy.cut(Cut::Reset);
        proxy.resume();
        anyhow::Ok(())
    };
    let (resumed, cut) = tokio::join!(resuming, cutting);

    cut?;
    assert!(resumed?, "it was, and was paused again");
    let left = "SELECT (SELECT count(*) FROM schedules WHERE paused_by = 'another'),
                       (SELECT count(*) FROM audit WHERE action = 'schedule.resume')";
    let left = client.query_one(left, &[]).await?;
    assert_eq!((left.get::<_, i64>(0), left.get::<_, i64>(1)), (1, 1));
    Ok(())
}
