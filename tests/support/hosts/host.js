// A rollout server in another language: the rollout protocol of docs/rollouts.md and nothing else.
// Its agent asks the model once; its grader compares the answer with the label.
"use strict";
const http = require("node:http");
const { randomUUID } = require("node:crypto");

const FINISHED = ["success", "failure", "cancelled"];
const WAIT_S = 30;
const rollouts = new Map();

async function complete(rollout, request) {
  const reply = await fetch(`${request.chat_completions_url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${request.llm_api_key}` },
    body: JSON.stringify({ model: "any", messages: request.initial_messages }),
    signal: rollout.leaving.signal,
  });
  const body = await reply.json();
  if (!reply.ok) throw new Error(`the model answered ${reply.status}: ${body.error.message}`);
  return body.choices[0].message;
}

async function carryOut(rollout, request) {
  rollout.move("running");
  try {
    const mode = request.metadata?.mode;
    if (mode === "exit") process.exit(9);
    if (mode === "raise") throw new Error(`broke on purpose, in ${process.env.FLAVOUR}`);
    const answer = await complete(rollout, request);
    const reward = answer.content === request.label ? 1 : 0;
    const messages = [...request.initial_messages, answer];
    rollout.end({ status: "success", sample: { messages, label: request.label, reward, remove_sample: false } });
  } catch (error) {
    const cancelled = rollout.leaving.signal.aborted;
    rollout.end({
      status: cancelled ? "cancelled" : "failure",
      sample: null,
      err_message: String(error.message),
      err_category: cancelled ? null : "agent_error",
    });
  }
}

function admit(request) {
  if (rollouts.has(request.rollout_id)) return [409, { detail: "taken" }];
  const rollout = {
    lease: randomUUID(),
    status: "queued",
    result: null,
    waiting: [],
    leaving: new AbortController(),
    move(status) {
      this.status = status;
      for (const wake of this.waiting.splice(0)) wake();
    },
    end(result) {
      this.result = { rollout_id: request.rollout_id, ...result };
      this.move(result.status);
    },
  };
  rollouts.set(request.rollout_id, rollout);
  setImmediate(carryOut, rollout, request);
  return [
    202,
    {
      rollout_id: request.rollout_id,
      status: "queued",
      polling_lease_token: rollout.lease,
      result_wait_timeout_sec: WAIT_S,
      polling_lease_timeout_sec: 120,
    },
  ];
}

async function result(id, lease) {
  const rollout = rollouts.get(id);
  if (!rollout) return [404, { detail: "unknown" }];
  if (lease !== rollout.lease) return [403, { detail: "wrong lease" }];
  const seen = rollout.status;
  if (!FINISHED.includes(seen)) {
    await Promise.race([
      new Promise((wake) => rollout.waiting.push(wake)),
      new Promise((wake) => setTimeout(wake, WAIT_S * 1000).unref()),
    ]);
  }
  return [200, rollout.result ?? { rollout_id: id, status: rollout.status }];
}

function cancel({ ids, prefix, all }) {
  const dispositions = {};
  for (const [id, rollout] of rollouts) {
    const meant = all || ids?.includes(id) || (prefix && id.startsWith(prefix));
    if (!meant || FINISHED.includes(rollout.status)) continue;
    dispositions[id] = "cancelled_running";
    rollout.leaving.abort();
  }
  return [200, { dispositions }];
}

async function answer(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString("utf8")) : {};
  const { pathname } = new URL(request.url, "http://host");
  const polled = /^\/rollout\/([^/]+)\/result$/.exec(pathname);
  if (polled) return result(decodeURIComponent(polled[1]), request.headers["x-osmosis-rollout-lease"]);
  if (pathname === "/health") return [200, { status: "ok", max_queue_depth: 8 }];
  if (pathname === "/rollout") return admit(body);
  if (pathname === "/rollout/cancel") return cancel(body);
  return [404, { detail: "not found" }];
}

const server = http.createServer(async (request, response) => {
  const [status, body] = await answer(request);
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
});
server.keepAliveTimeout = 600_000;
server.listen(Number(process.env._OSMOSIS_ROLLOUT_PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
