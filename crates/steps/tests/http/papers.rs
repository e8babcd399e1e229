//! Certificates for servers and for Semel.

use std::path::Path;

use semel_testkit::{Program, patience};
use tempfile::TempDir;

/// Certificates made by the `openssl` command.
pub(crate) struct Papers {
    folder: TempDir,
}

impl Papers {
    pub(crate) async fn issue() -> Self {
        let papers = Self {
            folder: TempDir::new().unwrap(),
        };
        let base = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ];
        let authority = [
            "-subj",
            "/CN=test root",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ];
        papers.openssl(&[&base[..], &authority[..]].concat()).await;
        let server = [
            "-subj",
            "/CN=stage",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            "server.key",
            "-out",
            "server.pem",
        ];
        let client = [
            "-subj",
            "/CN=semel",
            "-keyout",
            "client.key",
            "-out",
            "client.pem",
        ];
        let signed = [
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ];
        papers
            .openssl(&[&base[..], &signed[..], &server[..]].concat())
            .await;
        papers
            .openssl(&[&base[..], &signed[..], &client[..]].concat())
            .await;
        papers
    }

    async fn openssl(&self, arguments: &[&str]) {
        let program = Program::at("openssl")
            .args(arguments)
            .current_dir(self.folder.path());
        let finished = program.run(patience()).await.unwrap();
        assert!(finished.status.success(), "{:?}", finished.stderr);
    }

    pub(crate) fn path(&self, name: &str) -> String {
        Path::new(self.folder.path())
            .join(name)
            .display()
            .to_string()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}
