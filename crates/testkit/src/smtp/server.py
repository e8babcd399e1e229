"""A mail server that keeps what it takes in a Maildir, and can be told to refuse.

server.py PORT MAILDIR [USER PASSWORD]. The local part of a recipient says what becomes of it:
`refused` and `busy` are turned away at once, `spam` and `full` after the data was read, `slow` is
taken and answered late.
"""

import asyncio
import sys

from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import AuthResult

AT_ONCE = {"refused": "550 no such user", "busy": "450 try again later"}
AFTER_DATA = {"spam": "554 we do not want this", "full": "452 no room at the moment"}
SLOW_S = 5


def local(address):
    return address.split("@")[0]


class Keeper(Mailbox):
    async def handle_RCPT(self, server, session, envelope, address, options):
        refusal = AT_ONCE.get(local(address))
        if refusal:
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        for address in envelope.rcpt_tos:
            refusal = AFTER_DATA.get(local(address))
            if refusal:
                return refusal
        answer = await super().handle_DATA(server, session, envelope)
        if any(local(address) == "slow" for address in envelope.rcpt_tos):
            await asyncio.sleep(SLOW_S)
        return answer


def authenticator(user, password):
    def check(server, session, envelope, mechanism, data):
        known = (data.login, data.password) == (user.encode(), password.encode())
        return AuthResult(success=known, handled=False)

    return check


port, maildir, *account = sys.argv[1:]
options = {}
if account:
    options = {
        "authenticator": authenticator(*account),
        "auth_required": True,
        "auth_require_tls": False,
    }
controller = Controller(Keeper(maildir), hostname="127.0.0.1", port=int(port), **options)
controller.start()
print("taking mail", flush=True)
# For as long as the test holds our input open.
sys.stdin.read()
controller.stop()
