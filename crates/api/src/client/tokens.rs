//! Tokens.

use reqwest::Method;
use semel_model::TokenId;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    CreateToken, CreatedToken, Page, RevokeDerivedTokens, RevokeToken, RevokedDerivedTokens,
    RevokedToken, SignInCode, Token, TokenFilter,
};

impl Client {
    /// Lists the tokens of the namespace, the newest first.
    pub async fn list_tokens(&self, filter: &TokenFilter) -> Result<Page<Token>, ClientError> {
        read(self.get(&["v1", "tokens"]).query(filter)).await
    }

    /// Creates a token. The same again under the same key returns the same token, for 10 minutes.
    pub async fn create_token(
        &self,
        create: &CreateToken,
        key: &str,
    ) -> Result<Answer<CreatedToken>, ClientError> {
        carry_out(self.post(&["v1", "tokens"], key).json(create)).await
    }

    /// Revokes a token. Revoking it twice is the same as once.
    pub async fn revoke_token(
        &self,
        id: TokenId,
        revoke: &RevokeToken,
        key: &str,
    ) -> Result<Answer<RevokedToken>, ClientError> {
        let id = id.to_string();
        let path = ["v1", "tokens", &id, "revoke"];
        carry_out(self.post(&path, key).json(revoke)).await
    }

    /// Revokes the tokens of the namespace that may have been derived from the installation's secret key.
    pub async fn revoke_derived_tokens(
        &self,
        revoke: &RevokeDerivedTokens,
    ) -> Result<RevokedDerivedTokens, ClientError> {
        let path = ["v1", "tokens", "revoke-derived"];
        read(self.ask(Method::POST, &path).json(revoke)).await
    }

    /// Makes a code that signs one browser in to the console, with the rights of this token. Each call
    /// makes another one.
    pub async fn make_sign_in_code(&self) -> Result<SignInCode, ClientError> {
        read(self.ask(Method::POST, &["v1", "sign-in-codes"])).await
    }
}
