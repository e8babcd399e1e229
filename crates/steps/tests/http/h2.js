// An HTTP/2 server behind TLS: it answers with what it saw, and never at /hang.
// Usage: node h2.js CERT KEY [STREAMS]

const { readFileSync } = require("node:fs");
const { createSecureServer } = require("node:http2");

const [cert, key] = process.argv.slice(2, 4).map((path) => readFileSync(path));
const maxConcurrentStreams = Number(process.argv[4] ?? 100);
const server = createSecureServer({ cert, key, settings: { maxConcurrentStreams } });
let sessions = 0;

server.on("session", () => (sessions += 1));
server.on("stream", (stream, headers) => {
  let body = "";
  stream.on("error", () => {});
  stream.on("data", (piece) => (body += piece));
  stream.on("end", () => {
    if (headers[":path"] === "/hang") return;
    stream.respond({ ":status": 200, "content-type": "application/json" });
    stream.end(JSON.stringify({ headers, body, sessions }));
  });
});
server.listen(0, "127.0.0.1", () => console.log(`listening ${server.address().port}`));

// Ends with the process that started it.
process.stdin.on("end", () => process.exit(0)).resume();
