"""A worker in another language: takes tasks over plain HTTP, with nothing but the standard library.

Usage: worker.py URL TOKEN QUEUE
"""

import json
import sys
import time
import urllib.error
import urllib.request
import uuid

URL, TOKEN, QUEUE = sys.argv[1:4]


def ask(path, body, key=None):
    """Posts JSON, and repeats it until there is an answer. Returns its status and body."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    data = json.dumps(body).encode()
    while True:
        request = urllib.request.Request(URL + path, data, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return error.code, json.load(error)
        except (OSError, ValueError):
            pass
        time.sleep(0.1)


def work(task):
    number = task["input"]["n"]
    time.sleep(0.002)
    result = {"square": number * number, "key": task["key"]}
    status, answer = ask(
        f"/v1/tasks/{task['task']}/complete", {"token": task["token"], "result": result}
    )
    # A worker that was too slow learns that another has the task.
    assert status in (200, 409), (status, answer)


while True:
    claim = {"queue": QUEUE, "max": 10, "wait": "1s", "worker": "worker.py"}
    status, answer = ask("/v1/tasks/claim", claim, key=str(uuid.uuid4()))
    assert status == 200, (status, answer)
    for claimed in answer["tasks"]:
        work(claimed)
