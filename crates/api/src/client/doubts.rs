//! Doubts of one step that are settled together, and what is said of one while it is looked into.

use semel_model::EffectId;
use serde::Serialize;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    AssignDoubt, AttendedEffect, GroupedDoubts, NoteDoubt, SettleGroup, SnoozeDoubt,
};

impl Client {
    /// Lists the doubts of one step, with the digest by which they can be settled.
    pub async fn preview_settlement(
        &self,
        group: &SettleGroup,
    ) -> Result<GroupedDoubts, ClientError> {
        let key = semel_model::DeliveryId::generate().to_string();
        let path = ["v1", "doubts", "settle", "preview"];
        read(self.post(&path, &key).json(group)).await
    }

    /// Settles the doubts of one step, where they are those of the digest.
    pub async fn settle_group(
        &self,
        group: &SettleGroup,
        key: &str,
    ) -> Result<Answer<GroupedDoubts>, ClientError> {
        carry_out(self.post(&["v1", "doubts", "settle"], key).json(group)).await
    }

    /// Says who looks into a doubt.
    pub async fn assign_doubt(
        &self,
        effect: EffectId,
        assign: &AssignDoubt,
        key: &str,
    ) -> Result<Answer<AttendedEffect>, ClientError> {
        self.attend(effect, "assign", assign, key).await
    }

    /// Notes something about a doubt.
    pub async fn note_doubt(
        &self,
        effect: EffectId,
        note: &NoteDoubt,
        key: &str,
    ) -> Result<Answer<AttendedEffect>, ClientError> {
        self.attend(effect, "note", note, key).await
    }

    /// Puts a doubt off.
    pub async fn snooze_doubt(
        &self,
        effect: EffectId,
        snooze: &SnoozeDoubt,
        key: &str,
    ) -> Result<Answer<AttendedEffect>, ClientError> {
        self.attend(effect, "snooze", snooze, key).await
    }

    async fn attend(
        &self,
        effect: EffectId,
        verb: &str,
        said: &(impl Serialize + Sync),
        key: &str,
    ) -> Result<Answer<AttendedEffect>, ClientError> {
        let path = ["v1", "effects", &effect.to_string(), verb];
        carry_out(self.post(&path, key).json(said)).await
    }
}
