"""Receives postbacks at /postback and pingbacks at /pingback?id=$id.

A genuine, new webhook becomes a file in the inbox before it is answered; the work is done later,
from the inbox. Python 3.8 or newer, nothing else.
"""

import hashlib
import hmac
import json
import os
import re
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

# One secret, or several while one is being replaced.
SECRETS = [s.encode() for s in re.split(r"[\s,]+", os.environ.get("WEBHOOK_SECRETS", "")) if s]
PORT = int(os.environ.get("PORT", "8080"))
INBOX = os.environ.get("INBOX", "inbox")
# More than a task's input and result can have together with the daemon's defaults.
BODY_BYTES_MAX = 8 * 1024 * 1024


def is_signed(message, headers):
    """Whether one of the secrets signed these bytes."""
    # While a secret is being replaced, X-Signature-Next is made with the new one.
    claims = [headers.get("X-Signature", ""), headers.get("X-Signature-Next", "")]
    for secret in SECRETS:
        expected = "sha256=" + hmac.new(secret, message, hashlib.sha256).hexdigest()
        for claim in claims:
            # As bytes: compare_digest refuses text that is not ASCII, which a sender may send.
            if hmac.compare_digest(expected.encode(), claim.encode("utf-8", "replace")):
                return True
    return False


def store(name, content):
    """Puts a file on disk, whole or not at all. False when it is there: the webhook came before.

    Keep the names for as long as a webhook may come again, also when the work is done.
    """
    handle, draft = tempfile.mkstemp(prefix=".", dir=INBOX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # Of two at the same time one makes the name, and the other fails.
            os.link(draft, os.path.join(INBOX, name))
            # The name must be on disk too.
            os.fsync(file.fileno())
        return True
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # How many seconds a sender may be silent.
    timeout = 30

    def do_POST(self):
        if self.target().split("?")[0] != "/postback":
            return self.answer(404)
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,18}", length):
            return self.answer(411)
        if int(length) > BODY_BYTES_MAX:
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_signed(body, self.headers):
            return self.answer(401)
        # Parse it only now. Signed bytes that are not JSON are a pingback's URL, sent as a body.
        try:
            envelope = json.loads(body)
        except ValueError:
            return self.answer(400)
        self.accept("postback", envelope["tasks"][0]["id"], body)

    def do_GET(self):
        path, _, query = self.target().partition("?")
        if path != "/pingback":
            return self.answer(404)
        url = (self.public_url() + self.target()).encode("latin-1")
        if not is_signed(url, self.headers):
            return self.answer(401)
        self.accept("pingback", parse_qs(query).get("id", [""])[0], url)

    def target(self):
        # Not self.path, where two slashes at the beginning have become one.
        return self.requestline.split()[1]

    def public_url(self):
        # The beginning of the task's webhook URLs, as the sender sees them. Never taken from Host
        # or X-Forwarded-*: the sender of the request writes these.
        own_url = "http://127.0.0.1:%d" % self.server.server_port
        return re.sub("/$", "", os.environ.get("PUBLIC_URL") or own_url)

    def accept(self, kind, task_id, content):
        if not re.fullmatch(r"[0-9a-f-]{36}", task_id):
            return self.answer(400)
        is_new = store(task_id + "." + kind, content)
        # Not print: when several threads print at once, lines get lost.
        os.write(1, ("%s %s %s\n" % ("new" if is_new else "again", kind, task_id)).encode())
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        # After an error an unread body may be left: it is not the next request.
        if status != 200:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing of each request: its URL may hold what is nobody's business."""


class Server(ThreadingHTTPServer):
    # How many senders may wait for a connection; with the default of 5 a burst waits for a second.
    request_queue_size = 128


if not SECRETS:
    sys.exit("Set WEBHOOK_SECRETS to the webhook secret, whsec_…")
os.makedirs(INBOX, exist_ok=True)
server = Server(("127.0.0.1", PORT), Receiver)
print("http://127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
