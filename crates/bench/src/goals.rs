//! Which measurement serves which goal.

use anyhow::Result;

use crate::goal::Goal;
use crate::measure::Course;
use crate::quiet_vacuum;

/// Measures every wanted goal but F8, which needs no server.
pub(crate) async fn measure(course: &mut Course<'_>, wanted: &[Goal]) -> Result<()> {
    let wants = |goals: &[Goal]| goals.iter().any(|goal| wanted.contains(goal));
    if wants(&[Goal::F1]) {
        course.accepts().await?;
    }
    if wants(&[Goal::F2]) {
        course.duplicates().await?;
    }
    if wants(&[Goal::F3]) {
        course.runs(Goal::F3, 32).await?;
    }
    if wants(&[Goal::F4, Goal::F6, Goal::F7]) {
        course.runs(Goal::F4, 256).await?;
    }
    for goal in [Goal::F4q, Goal::F4s] {
        if wants(&[goal]) {
            quiet_vacuum::measure(course, goal).await?;
        }
    }
    if wants(&[Goal::F5]) {
        course.alone().await?;
    }
    if wants(&[Goal::F9]) {
        course.calls().await?;
    }
    Ok(())
}
