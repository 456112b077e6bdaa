"""A worker that sleeps as long as each task says. Python 3.8 or newer, nothing to install:
POSTBACKD_URL=https://tasks.example.com POSTBACKD_TOKEN=pbd_work_... python3 worker.py
"""
import json, os, sys, threading, time
from urllib.request import Request, urlopen

URL = os.environ.get("POSTBACKD_URL", "http://127.0.0.1:8787")
TOKEN = os.environ["POSTBACKD_TOKEN"]
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
BEAT_SECONDS = float(os.environ.get("BEAT_SECONDS", "10"))  # a third of the type's lease

def work(given, over):  # your own work; `over` is set when nobody wants its result any more
    over.wait(given["seconds"])
    return {"slept": given["seconds"]}

def ask(operation, body):  # until there is an answer: the daemon may restart at any time
    request = Request(f"{URL}/v1/worker/{operation}", json.dumps(body).encode(), HEADERS)
    while True:
        try:
            with urlopen(request, timeout=60) as answer: return json.load(answer)["tasks"]
        except Exception as error:
            if getattr(error, "code", 0) in (400, 401, 403, 404, 413):
                sys.exit(error.read().decode())  # the token or the type is wrong
            print("no answer:", error, file=sys.stderr)
        time.sleep(1)

def keep(lease, over):  # a lease without heartbeats runs out, and another worker gets the task
    while not over.wait(BEAT_SECONDS):
        if ask("heartbeat", {"leases": [lease]})[0]["outcome"] != "ok": over.set()

while True:
    for task in (tasks := ask("claim", {"types": ["sleep"], "max": 1, "wait_seconds": 30})):
        lease, over = {"id": task["id"], "lease_id": task["lease_id"]}, threading.Event()
        threading.Thread(target=keep, args=(lease, over), daemon=True).start()
        try: operation, end = "complete", {"result": work(task["input"], over)}
        except Exception as error: operation, end = "fail", {"message": repr(error)}
        ask(operation, {"tasks": [{**lease, **end}]})  # again is safe: a lease ends only once
        over.set()
    if not tasks: time.sleep(1)  # a daemon that stops answers at once
