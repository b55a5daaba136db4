"""A rollout server that knows nothing of our packages: the rollout protocol of docs/rollouts.md, standard library only.

Its agent asks the model once; its grader compares the answer with the label. It names itself in /health, asks for a
bearer when it has a key, and leaves no trajectory.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_S = 2.0
KEY = os.environ.get("HOST_KEY")


class Rollout:
    """One rollout: its lease, and its result once it has one."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.lease = secrets.token_hex(8)
        self.over = threading.Event()
        self.result: dict[str, Any] = {"rollout_id": request["rollout_id"], "status": "running"}

    def carry_out(self) -> None:
        try:
            answer = self.complete()
            messages = [*self.request["initial_messages"], answer]
            reward = 1.0 if answer["content"] == self.request.get("label") else 0.0
            self.end("success", sample={"messages": messages, "reward": reward, "metrics": {"turns": 1}})
        except (OSError, KeyError, ValueError) as error:
            self.end("failure", err_message=str(error), err_category="agent_error")

    def complete(self) -> dict[str, Any]:
        mode = (self.request.get("metadata") or {}).get("mode")
        if mode == "exit":
            os._exit(9)
        if mode == "raise":
            raise ValueError(f"broke on purpose, in {os.environ.get('FLAVOUR')}")
        asked = urllib.request.Request(
            f"{self.request['chat_completions_url']}/chat/completions",
            data=json.dumps({"model": "any", "messages": self.request["initial_messages"]}).encode(),
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {self.request['llm_api_key']}",
            },
        )
        with urllib.request.urlopen(asked) as reply:
            return json.load(reply)["choices"][0]["message"]

    def end(self, status: str, **more: Any) -> None:
        if not self.over.is_set():
            self.result.update(status=status, **more)
            self.over.set()


ROLLOUTS: dict[str, Rollout] = {}


class Protocol(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self.allowed():
            return
        if path == "/health":
            self.reply(200, {"status": "ok", "instance_id": os.environ.get("_OSMOSIS_ROLLOUT_INSTANCE_ID")})
            return
        rollout = ROLLOUTS.get(path.split("/")[2]) if path.startswith("/rollout/") else None
        if rollout is None:
            self.reply(404, {"detail": "unknown"})
        elif self.headers["x-osmosis-rollout-lease"] != rollout.lease:
            self.reply(403, {"detail": "wrong lease"})
        else:
            rollout.over.wait(WAIT_S)
            self.reply(200, dict(rollout.result))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.allowed():
            return
        if self.path == "/rollout/cancel":
            for rollout_id, rollout in list(ROLLOUTS.items()):
                if body.get("all") or rollout_id in body.get("ids", ()):
                    rollout.end("cancelled")
            self.reply(200, {"dispositions": {}})
            return
        rollout = ROLLOUTS[body["rollout_id"]] = Rollout(body)
        threading.Thread(target=rollout.carry_out, daemon=True).start()
        promise = {"polling_lease_token": rollout.lease, "result_wait_timeout_sec": WAIT_S}
        self.reply(
            202, {"rollout_id": body["rollout_id"], "status": "queued", "polling_lease_timeout_sec": 120.0}
            | promise,
        )  # fmt: skip

    def allowed(self) -> bool:
        if KEY is None or self.headers["authorization"] == f"Bearer {KEY}":
            return True
        self.reply(401, {"detail": "unauthorized"})
        return False

    def reply(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 128
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    with ThreadingHTTPServer(("127.0.0.1", port), Protocol) as server:
        server.serve_forever(0.05)
