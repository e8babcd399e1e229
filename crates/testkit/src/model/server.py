"""A language model that answers as its prompt says, in both protocols, and records its requests.

The prompt is JSON and says what to answer:
  {"text": "…"}        that text
  {"json": …}          that structured answer
  {"stop": "cut"}      an answer that stops at its limit; or "declined", or "filtered"
  {"status": 503}      that status, and no answer
  {"raw": …}           exactly this, whatever the language
Asked in plain words with a schema, it takes the first of each property's `enum`, or the words where it has
none; without a schema, it repeats the words.

GET /requests gives everything that was asked so far.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

requests = []
lock = threading.Lock()


def openai(body, told):
    stop = told.get("stop")
    text = told.get("text", json.dumps(told["json"]) if "json" in told else "half an ans")
    reason = {"cut": "length", "filtered": "content_filter"}.get(stop, "stop")
    message = {"role": "assistant", "content": text, "refusal": None}
    if stop == "declined":
        message = {"role": "assistant", "content": None, "refusal": "I will not"}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": body["model"] + "-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200},
    }


def anthropic(body, told):
    stop = told.get("stop")
    reason = {"cut": "max_tokens", "declined": "refusal", "filtered": "refusal"}.get(stop, "end_turn")
    content = [{"type": "text", "text": told.get("text", "half an ans")}]
    if "json" in told:
        reason = "tool_use"
        content = [{"type": "tool_use", "id": "t1", "name": body["tools"][0]["name"], "input": told["json"]}]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": body["model"] + "-2026",
        "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": 1000, "output_tokens": 200},
    }


def read(body):
    words = body["messages"][-1]["content"]
    try:
        return json.loads(words)
    except ValueError:
        asked = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if not asked:
            return {"text": words}
        return {"json": {name: of.get("enum", [words])[0] for name, of in asked["properties"].items()}}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append({"path": self.path, "headers": headers, "body": body})
            count = len(requests)
        told = read(body)
        if "status" in told:
            return self.answer(told["status"], {"error": {"message": "as I was told"}})
        if told.get("text") == "count":
            told["text"] = f"answer {count}"
        speak = openai if self.path.endswith("/chat/completions") else anthropic
        self.answer(200, told["raw"] if "raw" in told else speak(body, told))

    def do_GET(self):
        with lock:
            self.answer(200, requests)

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(f"listening on {server.server_address[0]}:{server.server_address[1]}", flush=True)
sys.stdin.close()
server.serve_forever()
