//! What the latest route takes and returns, said in the list of routes.

use semel_api::Code;
use utoipa::ToSchema;

use super::Routes;
use crate::operation::{Content, KeyUse, QueryParameter, TypeSchema};

impl Routes {
    /// Takes the fields of a type as parameters of its query.
    pub(crate) fn query<T: ToSchema>(self) -> Self {
        self.describe(|operation| operation.queries.push(TypeSchema::of::<T>()))
    }

    /// May take a parameter of its query.
    pub(crate) fn param<T: ToSchema>(self, name: &'static str, about: &'static str) -> Self {
        self.parameter::<T>(name, about, false)
    }

    /// Needs a parameter of its query.
    pub(crate) fn needs<T: ToSchema>(self, name: &'static str, about: &'static str) -> Self {
        self.parameter::<T>(name, about, true)
    }

    fn parameter<T: ToSchema>(
        self,
        name: &'static str,
        about: &'static str,
        required: bool,
    ) -> Self {
        let schema = TypeSchema::of::<T>();
        self.describe(|operation| {
            operation.parameters.push(QueryParameter {
                name,
                about,
                schema,
                required,
            });
        })
    }

    /// Takes a type as its body.
    pub(crate) fn takes<T: ToSchema>(self) -> Self {
        self.takes_content(Content::Json(TypeSchema::of::<T>()))
    }

    /// Takes something else as its body.
    pub(crate) fn takes_content(self, content: Content) -> Self {
        self.describe(|operation| operation.bodies.push(content))
    }

    /// Returns 200 with a type.
    pub(crate) fn ok<T: ToSchema>(self) -> Self {
        self.answers::<T>(200)
    }

    /// Returns 201 with a type.
    pub(crate) fn created<T: ToSchema>(self) -> Self {
        self.answers::<T>(201)
    }

    /// Returns 202 with a type.
    pub(crate) fn accepted<T: ToSchema>(self) -> Self {
        self.answers::<T>(202)
    }

    /// Returns 200 with a page of a list.
    pub(crate) fn page<T: ToSchema>(self) -> Self {
        self.answers_content(200, Content::Page(TypeSchema::of::<T>()))
    }

    /// Returns a status with a type.
    pub(crate) fn answers<T: ToSchema>(self, status: u16) -> Self {
        self.answers_content(status, Content::Json(TypeSchema::of::<T>()))
    }

    /// Returns a status with something else.
    pub(crate) fn answers_content(self, status: u16, content: Content) -> Self {
        self.describe(|operation| operation.answers.push((status, content)))
    }

    /// Returns these errors as well.
    pub(crate) fn fails(self, codes: &[Code]) -> Self {
        self.describe(|operation| operation.problems.extend(codes))
    }

    /// Is a command that happens once per `Idempotency-Key`.
    pub(crate) fn keyed(self) -> Self {
        self.fails(&[
            Code::KeyInvalid,
            Code::CommandMismatch,
            Code::CommandUnderWay,
        ])
        .describe(|operation| operation.key = Some(KeyUse::Derived))
    }

    /// Needs a key.
    pub(crate) fn needs_key(self) -> Self {
        self.describe(|operation| operation.key = Some(KeyUse::Required))
    }
}
