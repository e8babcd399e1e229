"""The providers that the recipes talk to, behind one address: /NAME/… is the API of the provider NAME.

Each is a small REST API over what it holds. POST adds to a collection, PUT and DELETE set and remove
what is at a path, GET reads a path, or the items of a collection whose fields the query names. A
provider in KEYED answers a repeated Idempotency-Key with its first answer. What changed something is
an effect, recorded in order.

POST /_/hold     {path: value, …}    what is there already
POST /_/next     {method, path, status}   refuses the next such request; with "lost" for the status it
                                          acts and closes the connection without an answer
GET  /_/effects  what happened
GET  /_/requests what was asked
GET  /_/held     what is there now
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

# Who honours Idempotency-Key.
KEYED = {"payments", "sms", "mailer"}
# What an id begins with.
PREFIX = {"invoices": "inv", "deals": "d", "refunds": "re", "seats": "s", "messages": "m", "emails": "m"}

held, effects, requests, firsts, faults = {}, [], [], {}, []
lock = threading.Lock()


def described(path, value):
    """What a provider adds of its own."""
    provider, *_, name = path.strip("/").split("/")
    own = {"id": name}
    if provider == "directory":
        own["login"] = value.get("name", "").lower()
    if provider == "mailboxes":
        own["address"] = f"{name}@house.example"
    return {**own, **value} if isinstance(value, dict) else value


def items(path, query):
    """The items of a collection that have these fields."""
    below = [held[at] for at in sorted(held) if at.rpartition("/")[0] == path]
    wanted = dict(query)
    name = path.rpartition("/")[2]
    found = [one for one in below if all(str(one.get(key)) == value for key, value in wanted.items())]
    return {name: found, "items": found}


def orders(query):
    """A page of what changed at the shop between two changes: at most `limit` orders, and fifteen."""
    asked = dict(query)
    meant = range(int(asked["after"]) + 1, int(asked["until"]) + 1)
    every = [one for one in held["/shop/orders"] if one["change"] in meant]
    first = int(asked.get("page", 0))
    last = first + min(int(asked["limit"]), 15)
    more = {"next": str(last)} if last < len(every) else {"next": None}
    return {"orders": every[first:last], **more}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def handle_one(self):
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qsl(url.query)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        value = json.loads(body) if body else {}
        with lock:
            if path.startswith("/_/"):
                return self.answer(200, self.control(path, value))
            key = self.headers.get("Idempotency-Key")
            requests.append({"method": self.command, "path": path, "query": dict(query), "key": key})
            fault = self.fault(path)
            if fault and fault != "lost":
                return self.answer(fault, {"error": "as it was told"})
            status, answer = self.act(path, query, value, key)
        if fault == "lost":
            self.close_connection = True
            return self.connection.close()
        self.answer(status, answer)

    do_GET = do_POST = do_PUT = do_DELETE = handle_one

    def fault(self, path):
        for fault in faults:
            if fault["method"] == self.command and path.startswith(fault["path"]):
                faults.remove(fault)
                return fault["status"]

    def act(self, path, query, value, key):
        provider, _, name = path.strip("/").partition("/")
        if self.command == "GET":
            if path == "/shop/orders":
                return 200, orders(query)
            if path in held:
                return 200, held[path]
            collection = any(at.startswith(path + "/") for at in held) or query
            return (200, items(path, query)) if collection else (404, {"error": "not here"})
        if self.command == "POST":
            if provider in KEYED and key in firsts:
                return 201, firsts[key]
            kind = name.rpartition("/")[2]
            made = {**value, "id": f"{PREFIX.get(kind, 'x')}_{len(effects) + 1}", "ok": True}
            held[f"{path}/{made['id']}"] = firsts[key] = made
            self.done(path, value, key)
            return 201, made
        before = held.pop(path, None)
        if self.command == "DELETE":
            if before is not None:
                self.done(path, None, key)
            return (200, {}) if before is not None else (404, {"error": "not here"})
        held[path] = described(path, value)
        if held[path] != before:
            self.done(path, value, key)
        return 200, held[path]

    def done(self, path, body, key):
        effects.append({"method": self.command, "path": path, "body": body, "key": key})

    def control(self, path, value):
        if path == "/_/hold":
            held.update(value)
        if path == "/_/next":
            faults.append(value)
        return {"/_/effects": effects, "/_/requests": requests, "/_/held": held}.get(path)

    def answer(self, status, value):
        text = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
server.daemon_threads = True
print(f"listening on {server.server_address[0]}:{server.server_address[1]}", flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
