//! The origin of an act: the token and the address of the request that is being answered.
//!
//! A request has its origin from when it arrives, and its token from when that was checked; every act that is
//! put together meanwhile has both, without each command passing them on, so that none can leave them out.
//! An act that no request asked for has none: of an operator at the database, or of Semel itself.

use std::net::IpAddr;

use semel_model::TokenId;

tokio::task_local! {
    static ORIGIN: ActOrigin;
}

/// The token and the address that an act comes from. Both absent: no request asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActOrigin {
    /// The token; names of tokens are not unique.
    pub token: Option<TokenId>,
    /// The address of the client.
    pub address: Option<IpAddr>,
}

impl ActOrigin {
    /// The origin of the request that is being answered; empty outside of requests.
    #[must_use]
    pub fn current() -> Self {
        ORIGIN.try_with(|origin| *origin).unwrap_or_default()
    }

    /// The address as it is recorded.
    pub(crate) fn address_text(self) -> Option<String> {
        self.address
            .map(|address| address.to_canonical().to_string())
    }

    /// Runs `work` with this origin.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        ORIGIN.scope(self, work).await
    }

    /// Gives `work` the caller's origin, also if it is spawned as a task of its own.
    pub fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
        Self::current().scope(work)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn work_that_becomes_a_task_of_its_own_keeps_its_origin() {
        let here = ActOrigin {
            token: None,
            address: Some(Ipv4Addr::LOCALHOST.into()),
        };

        let (lost, kept) = here
            .scope(async {
                let lost = tokio::spawn(async { ActOrigin::current() }).await;
                let kept = tokio::spawn(ActOrigin::carry(async { ActOrigin::current() })).await;
                (lost.unwrap(), kept.unwrap())
            })
            .await;

        assert_eq!((lost, kept), (ActOrigin::default(), here));
        assert_eq!(ActOrigin::current(), ActOrigin::default());
    }
}
