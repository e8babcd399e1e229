//! Routes about replays of many runs, events, subscriptions and alerts.

use semel_api::Code;
use semel_api::types::{
    Alerts, AlertsSet, AlertsUnset, ChangePlan, DeletedSubscription, Delivery, DeliveryFilter,
    EmittedEvent, EventDetail, EventFilter, KeptSubscription, PlanReplay, PlannedRun,
    PlannedRunFilter, PutSubscription, ReplayPlan, ReplayPlanFilter, RetriedDelivery, SetAlerts,
    Subscription, TestedAlerts,
};
use semel_model::Right::{Connect, Operate, Read, Replay};

use crate::access::Routes;
use crate::{alerts, events, replay_plans, subscriptions};

pub(super) fn routes() -> Routes {
    plans().merge(subscribing()).merge(alerting())
}

fn plans() -> Routes {
    let change = &[Code::PlanNotFound, Code::PlanUnfit, Code::ReasonInvalid];
    Routes::default()
        .get("/replay-plans", Read, replay_plans::list)
        .op("list_replay_plans", "List replay plans, newest first.")
        .query::<ReplayPlanFilter>()
        .page::<ReplayPlan>()
        .post("/replay-plans", Replay, replay_plans::plan)
        .op("plan_replay", "Freeze which runs are replayed together.")
        .keyed()
        .takes::<PlanReplay>()
        .created::<ReplayPlan>()
        .fails(&[Code::FlowNotFound, Code::PlanInvalid, Code::ReasonInvalid])
        .get("/replay-plans/{plan}", Read, replay_plans::show)
        .op("get_replay_plan", "Show a replay plan.")
        .ok::<ReplayPlan>()
        .fails(&[Code::PlanNotFound])
        .get("/replay-plans/{plan}/runs", Read, replay_plans::list_runs)
        .op("list_planned_runs", "List the runs of a replay plan.")
        .query::<PlannedRunFilter>()
        .page::<PlannedRun>()
        .fails(&[Code::PlanNotFound])
        .post("/replay-plans/{plan}/apply", Replay, replay_plans::apply)
        .op(
            "apply_replay_plan",
            "Apply a replay plan, or continue one that is paused.",
        )
        .keyed()
        .takes::<ChangePlan>()
        .accepted::<ReplayPlan>()
        .fails(change)
        .post("/replay-plans/{plan}/pause", Replay, replay_plans::pause)
        .op("pause_replay_plan", "Pause a replay plan.")
        .keyed()
        .takes::<ChangePlan>()
        .accepted::<ReplayPlan>()
        .fails(change)
        .post("/replay-plans/{plan}/stop", Replay, replay_plans::stop)
        .op("stop_replay_plan", "Stop a replay plan for good.")
        .keyed()
        .takes::<ChangePlan>()
        .accepted::<ReplayPlan>()
        .fails(change)
}

fn subscribing() -> Routes {
    let deliveries = "/subscriptions/{name}/deliveries";
    let retry = "/subscriptions/{name}/deliveries/{event}/retry";
    Routes::default()
        .get("/subscriptions", Read, subscriptions::list)
        .op(
            "list_subscriptions",
            "List the subscriptions of the namespace.",
        )
        .page::<Subscription>()
        .get("/subscriptions/{name}", Read, subscriptions::show)
        .op("get_subscription", "Show a subscription.")
        .ok::<Subscription>()
        .fails(&[Code::SubscriptionNotFound])
        .put("/subscriptions/{name}", Connect, subscriptions::put)
        .op("put_subscription", "Store a subscription.")
        .keyed()
        .takes::<PutSubscription>()
        .created::<KeptSubscription>()
        .ok::<KeptSubscription>()
        .fails(&[Code::SubscriptionInvalid, Code::SubscriptionDiffers])
        .delete("/subscriptions/{name}", Connect, subscriptions::delete)
        .op(
            "delete_subscription",
            "Delete a subscription. What is due to it fails.",
        )
        .keyed()
        .ok::<DeletedSubscription>()
        .fails(&[Code::SubscriptionNotFound])
        .get("/events", Read, events::list)
        .op(
            "list_events",
            "List the events that runs emitted, latest first.",
        )
        .query::<EventFilter>()
        .page::<EmittedEvent>()
        .get("/events/{event}", Read, events::show)
        .op("get_event", "Show an event, and who received it.")
        .ok::<EventDetail>()
        .fails(&[Code::EffectNotFound])
        .get(deliveries, Read, subscriptions::list_deliveries)
        .op(
            "list_deliveries",
            "List the deliveries of a subscription, latest first.",
        )
        .query::<DeliveryFilter>()
        .page::<Delivery>()
        .fails(&[Code::SubscriptionNotFound])
        .post(retry, Operate, subscriptions::retry)
        .op("retry_delivery", "Try a delivery again that failed.")
        .keyed()
        .ok::<RetriedDelivery>()
        .fails(&[
            Code::SubscriptionNotFound,
            Code::DeliveryNotFound,
            Code::DeliveryNotFailed,
            Code::DeliveryErased,
        ])
}

fn alerting() -> Routes {
    Routes::default()
        .get("/alerts", Read, alerts::show)
        .op("list_alerts", "Show where alerts go, and what happened.")
        .ok::<Alerts>()
        .put("/alerts", Connect, alerts::set)
        .op("set_alerts", "Set where alerts go.")
        .keyed()
        .takes::<SetAlerts>()
        .ok::<AlertsSet>()
        .fails(&[Code::AlertInvalid])
        .delete("/alerts", Connect, alerts::unset)
        .op("unset_alerts", "Let alerts go nowhere.")
        .keyed()
        .ok::<AlertsUnset>()
        .fails(&[Code::AlertNotSet])
        .post("/alerts/test", Connect, alerts::test)
        .op("test_alerts", "Send a test message to where alerts go.")
        .keyed()
        .ok::<TestedAlerts>()
        .fails(&[Code::AlertInvalid, Code::AlertNotSet])
}
