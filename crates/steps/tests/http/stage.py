"""A destination in a process of its own: it answers as the path says, and counts who came.

Usage: stage.py [--host HOST] [--cert FILE --key FILE [--client-ca FILE]] [--proxy-password USER:PASSWORD]
"""

import argparse
import base64
import gzip
import hashlib
import json
import socket
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

COUNTS = {"connections": 0, "requests": 0, "tokens": 0, "messages": 0, "paths": {}, "tunnels": []}
LOCK = threading.Lock()
TOKENS = {"taken_back": set()}
LET_GO = threading.Event()
PROXY = {"password": None}


def zeros(bytes_count):
    """gzip of so many zero bytes: one member of 10 MiB, again and again."""
    member = gzip.compress(bytes(10 * 2**20))
    return member * (bytes_count // (10 * 2**20))


def pump(source, sink):
    while piece := source.recv(2**16):
        sink.sendall(piece)
    sink.shutdown(socket.SHUT_WR)


class Stage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, value, headers=(), status=200):
        body = json.dumps(value).encode()
        self.answer(status, body, [("content-type", "application/json"), *headers])

    def read_body(self, digest):
        left = int(self.headers.get("content-length") or 0)
        begun = b""
        while left > 0:
            piece = self.rfile.read(min(left, 2**16))
            if not piece:
                return None
            digest.update(piece)
            begun += piece[: max(0, 65536 - len(begun))]
            left -= len(piece)
        return begun

    def act(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/_/counts":
            with LOCK:
                # The connection that asks does not count.
                counts = dict(COUNTS, connections=COUNTS["connections"] - 1)
                COUNTS["connections"] -= 1
            return self.answer_json(counts)
        digest = hashlib.sha256()
        body = self.read_body(digest)
        if body is None:
            return None
        # Only now: half a request is none.
        with LOCK:
            COUNTS["requests"] += 1
            COUNTS["paths"][url.path] = COUNTS["paths"].get(url.path, 0) + 1
        name = "on_" + url.path.split("/")[1].replace("-", "_")
        return getattr(self, name, self.on_echo)(url, query, body, digest)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = act

    def do_CONNECT(self):
        """A proxy's tunnel, which is opened by a password where the stage has one."""
        authorization = self.headers.get("proxy-authorization")
        with LOCK:
            COUNTS["tunnels"].append({"to": self.path, "authorization": authorization,
                                      "client": self.headers.get("user-agent")})
        wanted = PROXY["password"]
        if wanted and authorization != "Basic " + base64.b64encode(wanted.encode()).decode():
            return self.answer(407)
        host, port = self.path.rsplit(":", 1)
        other = socket.create_connection((host, int(port)))
        self.send_response(200)
        self.end_headers()
        back = threading.Thread(target=pump, args=(other, self.connection), daemon=True)
        back.start()
        pump(self.connection, other)
        back.join()
        self.close_connection = True

    def on_echo(self, _url, _query, body, digest):
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": base64.b64encode(body).decode(),
            "sha256": digest.hexdigest(),
            "connections": COUNTS["connections"],
        }
        if isinstance(self.connection, ssl.SSLSocket):
            seen["client"] = str((self.connection.getpeercert() or {}).get("subject", ""))
        self.answer_json(seen)

    def on_api(self, _url, _query, body, _digest):
        """Slack, which says in its body whether it posted."""
        if json.loads(body)["channel"] == "#refused":
            return self.answer_json({"ok": False, "error": "channel_not_found"})
        with LOCK:
            COUNTS["messages"] += 1
        return self.answer_json({"ok": True, "ts": "1.2"})

    def on_status(self, url, query, _body, _digest):
        self.answer(int(url.path.split("/")[2]), query.get("text", "").encode())

    def on_echo_big(self, *_):
        """Twice who asks, with two MiB in between."""
        who = self.headers.get("authorization", "").encode()
        self.answer(200, who + b"\n" + b"x" * 2**21 + who)

    def on_refuse(self, _url, query, _body, _digest):
        who = self.headers.get("authorization", "").encode()
        self.answer(400, b"y" * int(query["pad"]) + who)

    def on_redirect(self, _url, query, _body, _digest):
        self.answer(int(query.get("code", "302")), b"", [("location", query["to"])])

    def on_hang(self, _url, _query, _body, _digest):
        time.sleep(600)

    def on_break(self, _url, _query, _body, _digest):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def on_big(self, _url, query, _body, _digest):
        self.send_response(200)
        self.send_header("content-type", "application/x-big")
        left = int(query["mib"])
        self.send_header("content-length", str(left * 2**20))
        self.end_headers()
        piece = bytes(range(256)) * 4096
        for _ in range(left):
            self.wfile.write(piece)

    def on_bomb(self, _url, query, _body, _digest):
        self.answer(200, zeros(int(query["mib"]) * 2**20), [("content-encoding", "gzip")])

    def on_gzip(self, _url, _query, _body, _digest):
        body = gzip.compress(json.dumps({"packed": True, "pad": "ab" * 4000}).encode())
        self.answer(200, body, [("content-encoding", "gzip")])

    def on_empty_members(self, _url, _query, _body, _digest):
        """gzip members without content, one after the other and without end."""
        self.send_response(200)
        self.send_header("content-encoding", "gzip")
        self.end_headers()
        self.close_connection = True
        members = gzip.compress(b"") * 20_000
        while True:
            self.wfile.write(members)

    def on_not_gzip(self, _url, _query, _body, _digest):
        self.answer(200, b"this is not gzip at all", [("content-encoding", "gzip")])

    def on_link(self, _url, query, _body, _digest):
        page = int(query.get("page", "1"))
        items = {"data": {"items": [{"n": page * 10 + i} for i in range(3)]}}
        headers = []
        if page < 4:
            there = query.get("there", "/link")
            link = f'<{there}?page={page + 1}>; rel="next", </link?page=1>; rel="first"'
            headers = [("link", link)]
        self.answer_json(items, headers)

    def on_cursor(self, _url, query, _body, _digest):
        at = int(query.get("after", "0"))
        following = f"{at + 2}" if at < 6 else None
        pad = "x" * int(query.get("pad", "0"))
        page = {"rows": [at + 1, at + 2], "page": {"next": following}, "pad": pad}
        self.answer_json(dict(page, filter=query.get("filter")))

    def on_token(self, _url, query, body, _digest):
        if "down" in query:
            return self.answer(503)
        who = base64.b64encode(b"semel%3A1:s3cret+%26+more").decode()
        asked = parse_qs(body.decode())
        if self.headers.get("authorization") != "Basic " + who:
            return self.answer_json({"error": "invalid_client"}, status=401)
        if asked.get("grant_type") != ["client_credentials"]:
            return self.answer_json({"error": "unsupported_grant_type"}, status=400)
        with LOCK:
            COUNTS["tokens"] += 1
            text = f"token-{COUNTS['tokens']}-{asked.get('scope', [''])[0]}"
        life = int(query.get("life", "3600"))
        return self.answer_json({"access_token": text, "token_type": "Bearer", "expires_in": life})

    def on_guarded(self, _url, _query, _body, _digest):
        token = self.headers.get("authorization", "")
        if not token.startswith("Bearer token-") or token in TOKENS["taken_back"]:
            return self.answer(401, b"no")
        return self.answer_json({"token": token, "number": int(token.split("-")[1])})

    def on_held(self, *request):
        """The same once it is let go."""
        LET_GO.wait(600)
        return self.on_guarded(*request)

    def on_let_go(self, *_):
        LET_GO.set()
        self.answer(204)

    def on_give_back(self, _url, query, _body, _digest):
        TOKENS["taken_back"].discard("Bearer " + query["token"])
        self.answer(204)

    def on_take_back(self, _url, query, _body, _digest):
        TOKENS["taken_back"].add("Bearer " + query["token"])
        self.answer(204)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    context = None

    def __init__(self, address, handler):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler, bind_and_activate=False)
        if ":" in address[0]:
            # Connections over IPv4 are counted as well.
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.server_bind()
        self.server_activate()

    def finish_request(self, request, client_address):
        with LOCK:
            COUNTS["connections"] += 1
        if self.context is not None:
            # Here, in the connection's own thread: a handshake may take its time, or fail.
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except (ssl.SSLError, OSError):
                return
        self.RequestHandlerClass(request, client_address, self)

    def handle_error(self, *_):
        pass


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--host", "--cert", "--key", "--client-ca", "--proxy-password"):
        arguments.add_argument(name)
    given = arguments.parse_args()
    PROXY["password"] = given.proxy_password
    server = Server((given.host or "127.0.0.1", 0), Stage)
    if given.cert:
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(given.cert, given.key)
        if given.client_ca:
            server.context.load_verify_locations(given.client_ca)
            server.context.verify_mode = ssl.CERT_REQUIRED
    print("listening", server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # Ends with the process that started it.
    sys.stdin.read()


main()
