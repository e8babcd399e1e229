# Canaille, a whole identity provider, with people and clients that a test sets while it runs. People enter
# by its own forms, with a password, and are asked whether Semel may know them.
import datetime
import json
import sys

import canaille
from canaille.app import models
from canaille.backends import Backend
from werkzeug.serving import WSGIRequestHandler, make_server

folder, password = sys.argv[1:]
settings = {
    "SECRET_KEY": "hush-cookies",
    "PREFERRED_URL_SCHEME": "http",
    "CANAILLE": {"DATABASE": "sql", "SMTP": None, "JAVASCRIPT": False, "HTMX": False},
    "CANAILLE_SQL": {"DATABASE_URI": f"sqlite:///{folder}/canaille.sqlite"},
}
app = canaille.create_app(config=settings)


def put(model, key, said):
    """Stores a row, or changes the one that is there."""
    row = Backend.instance.get(model, **key) or model(**key)
    Backend.instance.update(row, **said)
    Backend.instance.save(row)
    return row


def set_person(name, said):
    groups = [put(models.Group, {"display_name": group}, {}) for group in said["groups"]]
    known = {"family_name": name, "formatted_name": said["name"], "password": password}
    put(models.User, {"user_name": name}, {**known, "groups": groups})


def lock_person(name, _):
    put(models.User, {"user_name": name}, {"lock_date": datetime.datetime.now(datetime.timezone.utc)})


def set_client(name, said):
    audience = [put(models.Client, {"client_id": other}, {}) for other in said.pop("audience")]
    put(models.Client, {"client_id": name}, {**said, "audience": audience})


def answer(environ, start):
    """What a test says, beside the provider's own addresses."""
    _, where, *rest = environ["PATH_INFO"].split("/")
    if where != "test":
        return app.wsgi_app(environ, start)
    said = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
    what, name = rest
    with app.app_context():
        {"account": set_person, "client": set_client, "lock": lock_person}[what](name, said)
    start("204 No Content", [])
    return []


class OneLine(WSGIRequestHandler):
    """A plain line for each request, without colours."""

    def log_request(self, code="-", size="-"):
        print(self.requestline, code, flush=True)


server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=OneLine)
print(f"issuer http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
