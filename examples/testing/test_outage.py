"""A receiver is down for 21 minutes, in a moment: pytest test_outage.py

Python 3.8 or newer, pytest, and postbackd on the PATH. Each test has a daemon that ends with it.
"""
import hashlib
import hmac
import json
import subprocess
from urllib.request import Request, urlopen

import pytest


class Daemon:
    def __init__(self, ready):
        self.ready, self.inbox_url = ready, ready["inbox_url"]
        self.inbox = "/dev/inbox/" + ready["account"]

    def call(self, method, path, body=None):
        headers = {"Authorization": "Bearer " + self.ready["key"]}
        headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.ready["url"] + path, data, headers, method=method)
        with urlopen(request, timeout=90) as answer:
            return json.load(answer)

    def is_genuine(self, message):
        secret, body = self.ready["webhook_secret"].encode(), message["body"].encode()
        signature = dict(message["headers"])["x-signature"]
        expected = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(signature, expected)


@pytest.fixture
def daemon():
    command = "postbackd dev --port 0 --clock manual --stop-with-stdin".split()
    pipe = subprocess.PIPE
    # Whatever ends the test closes the daemon's stdin, and with it the daemon.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        yield Daemon(json.loads(process.stdout.readline()))


def test_what_is_given_up_in_an_outage_can_be_redelivered(daemon):
    daemon.call("PUT", daemon.inbox + "/answers", {"then": 503})
    tasks = [{"input": 42, "postback_url": daemon.inbox_url}]
    [task] = daemon.call("POST", "/v1/tasks/task_post", tasks)["tasks"]
    daemon.call("POST", "/dev/clock/advance", {"by": "21m"})
    messages = daemon.call("GET", daemon.inbox)["messages"]
    assert [message["attempt"] for message in messages] == [1, 2, 3, 4]
    [delivery] = daemon.call("GET", "/v1/tasks/deliveries/" + task["id"])["deliveries"]
    assert delivery["state"] == "given_up"
    daemon.call("DELETE", daemon.inbox)
    daemon.call("POST", "/v1/tasks/redeliver/" + task["id"])
    [message] = daemon.call("GET", daemon.inbox + "?count=1&wait=10")["messages"]
    assert daemon.is_genuine(message)
