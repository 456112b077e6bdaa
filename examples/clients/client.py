"""Posts a task, waits for its end, prints its result; verifies a webhook.

Python 3.8 or newer, nothing to install:

    export POSTBACKD_URL=https://tasks.example.com POSTBACKD_KEY=pbd_live_...
    python3 client.py run '{"type": "echo", "input": 42}'
    WEBHOOK_SECRETS=whsec_... python3 client.py verify sha256=... < body
"""
import hashlib, hmac, json, os, sys, time, uuid
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

TRIES = 7
# They say nothing about the request itself.
OF_A_MOMENT = (429, 502, 503, 504)


class NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_):
        """None: the key is for this daemon alone."""


OPENER = build_opener(NoRedirects)


def call(method, path, body=None, **headers):
    """Asks again what got no answer, or one of a moment: give posts an Idempotency-Key."""
    headers["Authorization"] = "Bearer " + os.environ["POSTBACKD_KEY"]
    headers["Content-Type"] = "application/json"
    data = None if body is None else json.dumps(body).encode()
    url = os.environ.get("POSTBACKD_URL", "http://127.0.0.1:8787") + path
    for tried in range(1, TRIES + 1):
        pause = 0.25 * 2**tried
        try:
            request = Request(url, data, headers, method=method)
            with OPENER.open(request, timeout=90) as answer:
                return json.load(answer)
        except HTTPError as error:
            if error.code not in OF_A_MOMENT or tried == TRIES:
                raise RuntimeError(error.read().decode()) from error
            pause = float(error.headers["Retry-After"] or pause)
        except (OSError, HTTPException, json.JSONDecodeError):
            if tried == TRIES:
                raise
        time.sleep(min(pause, 60))


def post(task):
    """The id of the task, which is on disk then: once, however often it had to be sent."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    [posted] = call("POST", "/v1/tasks/task_post", [task], **key)["tasks"]
    if posted["state"] == "failed":
        raise RuntimeError(posted["status_message"])
    return posted["id"]


def wait(task_id):
    """The task when it has ended: completed, failed or cancelled."""
    while True:
        [task] = call("GET", "/v1/tasks/task_get/" + task_id, Prefer="wait=60")["tasks"]
        if task["state"] not in ("queued", "running"):
            return task


def verify(message, signatures, secrets):
    """Whether one of the secrets signed it: the raw body of a postback, the full URL of a pingback.

    `signatures` are X-Signature and, while the secret is being replaced, X-Signature-Next.
    """
    for secret in secrets:
        expected = "sha256=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
        for signature in signatures:
            if hmac.compare_digest(expected.encode(), signature.encode()):
                return True
    return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["verify"]:
        secrets = os.environ["WEBHOOK_SECRETS"].split()
        sys.exit(0 if verify(sys.stdin.buffer.read(), sys.argv[2:], secrets) else "not genuine")
    if not os.environ.get("POSTBACKD_URL", "http").startswith("http"):
        sys.exit("POSTBACKD_URL is not a URL such as http://127.0.0.1:8787")
    task = wait(post(json.loads(sys.argv[2])))
    if task["state"] != "completed":
        sys.exit(task["status_message"] + " " + json.dumps(task["error"]))
    print(json.dumps(task["result"]))
