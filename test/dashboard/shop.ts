import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { signInOperator } from "../http/session-requests.ts";
import {
  askAsWorker,
  createTestWorker,
  tasksOf,
  type ClaimedTask,
} from "../http/worker-requests.ts";

/** A daemon after an hour of work, with data on every screen. */
export interface Shop {
  readonly daemon: TestDaemon;
  /** A task whose webhook was given up. */
  readonly failedId: string;
}

const MINUTES = 60;

const toml = (dnsServer: string): string => `
[types.thumbnail]
runner = "echo"
[types.invoice]
runner = "worker"
[types.transcode]
runner = "worker"
lease = "1h"
[webhooks]
allow = ["127.0.0.1"]
dns_servers = ["${dnsServer}"]
retry_after = ["1m", "5m"]
[limits]
access_requests_per_hour = 0
`;

/** Hosts by how they respond. */
const FINE = "hooks.shop.example";
const FLAKY = "api.partner.example";
const GONE = "old.billing.example";
const INSIDE = "intranet.shop.example";

/** Runs a shop for an hour of virtual time that ends now. */
export async function openShop(t: TestContext): Promise<Shop> {
  const dns = await startDnsServer(t);
  for (const host of [FINE, FLAKY]) dns.script(host, { A: addresses("127.0.0.1") });
  dns.script(INSIDE, { A: addresses("10.0.0.7") });
  const fine = await startReceiver(t);
  const flaky = await startReceiver(t, {
    reply: (_request, i) => ({
      kind: "status",
      status: i % 3 === 0 ? 204 : 503,
      ...(i % 3 === 0 ? {} : { body: '{"error":"maintenance until 14:00"}' }),
    }),
  });
  const clock = createFakeClock({ now: Date.now() - MINUTES * MINUTE_MS });
  const daemon = await startTestDaemon(t, { clock, toml: toml(dns.servers[0] ?? "") });
  for (let minute = 0; minute < MINUTES; minute++) {
    await daemon.post(ordersOf(minute, { fine, flaky }));
    await daemon.daemon.idle();
    clock.advance(MINUTE_MS);
    await daemon.daemon.idle();
  }
  await work(daemon);
  await administer(daemon, clock);
  await daemon.daemon.idle();
  const failed = await daemon.call("/v1/tasks/search?limit=1&q=delivery:given_up+code:20000");
  const failedId = /"id":"([^"]+)"/.exec(await failed.text())?.[1];
  assert(failedId !== undefined);
  return { daemon, failedId };
}

interface Receivers {
  readonly fine: Receiver;
  readonly flaky: Receiver;
}

function ordersOf(minute: number, { fine, flaky }: Receivers): readonly object[] {
  const input = { image: `https://cdn.shop.example/p/${1000 + minute}.jpg`, width: 640 };
  const order = (i: number) => ({
    type: "thumbnail",
    tag: `order-${1000 + minute * 4 + i}`,
    input,
  });
  const at = (host: string, { port }: Receiver) => `http://${host}:${port}/hooks/postbackd`;
  return [
    { ...order(0), postback_url: at(FINE, fine) },
    ...(minute % 3 === 0 ? [{ ...order(1), postback_url: at(FINE, fine) }] : []),
    ...(minute % 5 === 0
      ? [{ ...order(2), postback_url: at(FLAKY, flaky), pingback_url: at(FINE, fine) }]
      : []),
    ...(minute % 30 === 0 ? [{ ...order(3), postback_url: at(GONE, fine) }] : []),
    ...(minute % 45 === 0 ? [{ ...order(3), postback_url: `http://${INSIDE}/internal` }] : []),
    ...(minute % 20 === 0 ? [{ type: "thumbnail", tag: "nightly-report" }] : []),
  ];
}

/** Leaves running, failed, queued and cancelled tasks. */
async function work(daemon: TestDaemon): Promise<void> {
  const token = await createTestWorker(daemon.file, ["transcode"], "transcoder-1");
  const called = { url: daemon.url, token };
  const videos = ["intro.mov", "trailer.mov", "broken.mov"];
  await daemon.post(videos.map((tag) => ({ type: "transcode", tag, input: { file: tag } })));
  const body = { types: ["transcode"], max: 3 };
  const claimed = tasksOf<ClaimedTask>(await askAsWorker(called, "claim", body));
  const [intro, , broken] = claimed;
  assert(intro !== undefined && broken !== undefined);
  const lease = ({ id, lease_id }: ClaimedTask) => ({ id, lease_id });
  const progress = { ...lease(intro), progress: 0.42, note: "frame 1,260 of 3,000" };
  await askAsWorker(called, "heartbeat", { tasks: [progress] });
  const detail = { exit_code: 1, stderr: "moov atom not found" };
  const failed = { ...lease(broken), retry: false, message: "ffmpeg ended with 1", detail };
  await askAsWorker(called, "fail", { tasks: [failed] });
  const { tasks } = await daemon.post([
    ...[1, 2, 3].map((i) => ({ type: "invoice", tag: `invoice-${i}` })),
    { type: "invoice", tag: "invoice-4", start_at: new Date(Date.now() + 9e6).toISOString() },
  ]);
  await daemon.call(`/v1/tasks/task_cancel/${tasks[2]?.id}`, { method: "POST" });
}

async function administer(daemon: TestDaemon, clock: FakeClock): Promise<void> {
  const operator = await signInOperator(daemon, clock.now());
  for (const login of ["acme", "globex", "initech"]) {
    assert.equal((await operator.post("/accounts", { login })).code, 20000);
  }
  await operator.post("/accounts/rotate/acme");
  await operator.post("/accounts/disable/initech");
  const reason = "moves to another machine";
  assert.equal((await operator.post("/delivery_pauses", { host: GONE, reason })).code, 20000);
  for (const [name, message] of [
    [
      "Ada Lovelace",
      "We would like to report finished analyses to our notebooks.\nAbout 200 a day.",
    ],
    ["Grace Hopper", null],
  ]) {
    await fetch(`${daemon.url}/v1/access_requests`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ email: "someone@example.com", name, company: "Example Ltd", message }),
    });
  }
  const { fields } = await operator.get("/access_requests?which=pending");
  await operator.post(`/access_requests/deny/${fields.requests[1]?.id}`);
  const body = JSON.stringify({ label: "billing server" });
  const headers = { "content-type": "application/json" };
  await daemon.call("/v1/appendix/keys", { method: "POST", headers, body });
}
