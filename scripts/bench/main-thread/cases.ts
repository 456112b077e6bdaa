import { setTimeout as sleep } from "node:timers/promises";

import type { Ask, Caller } from "../../kit/client.ts";
import { claimedTasks, type LeasedTask } from "../../kit/http.ts";
import { until } from "../../kit/until.ts";
import { row, type Case, type Request } from "./case.ts";
import { HOOK, LATER, TAG, untilNone, type World } from "./world.ts";

const LISTED = "a thousand rows come from the reader's thread and are written as JSON";
const RECEIVED = "16 MiB are read from the socket in some 300 pieces, other requests in between";
const PARSED = "it goes to the parser's thread, to the writer's, and out as the response";
const LEASED = "1000 leases go from the parser's thread to the writer's, with one outcome each";
const SENT = "4 MiB come from another thread, and go to the next or to a socket, in pieces";

/**
 * Every operation, and the work that is done without a request. An operation that exceeds its bound on an idle machine
 * must be fixed, and its bound not raised. Other threads parse, read and compose what is long: the main thread has some
 * hundred rows, or the way of some MiB to or from a socket.
 */
export async function prepareCases(world: World): Promise<readonly Case[]> {
  return [
    ...publicReads(world, await largestAsset(world)),
    ...(await accountReads(world)),
    ...(await posts(world)),
    ...keys(world),
    ...signIns(world),
    ...(await workers(world)),
    ...statistics(world),
    ...(await redeliveries(world)),
    ...(await accounts(world)),
    ...(await accessRequests(world)),
    ...(await pauses(world)),
    ...runs(world),
  ];
}

function publicReads({ anybody }: World, asset: string): readonly Case[] {
  return [
    row("isAlive", 2, anybody.get("/livez")),
    row("isReady", 2, anybody.get("/readyz")),
    row("getOpenApi", 3, anybody.get("/openapi.json")),
    row("GET /dashboard/", 2, anybody.get("/dashboard/")),
    row("GET /dashboard/assets: the largest file", 3, plain(anybody.get(asset))),
    row("GET /docs", 3, plain(anybody.get("/docs"))),
    row("listStatusCodes", 2, anybody.get("/v1/appendix/status_codes")),
    row("listMarketplaces", 2, anybody.get("/v1/appendix/marketplaces")),
  ];
}

function plain(ask: Ask): Ask {
  return { ...ask, headers: { "accept-encoding": "identity" } };
}

async function largestAsset({ anybody }: World): Promise<string> {
  const page = await anybody.done(anybody.get("/dashboard/"));
  const paths = [...page.matchAll(/"(\/dashboard\/assets\/[^"]+)"/g)].map(([, path = ""]) => path);
  const size = async (path: string) => (await anybody.done(plain(anybody.get(path)))).length;
  const sizes = await Promise.all(paths.map(size));
  return paths[sizes.indexOf(Math.max(...sizes))] ?? "/dashboard/";
}

const DAY_MS = 86_400_000;
const SINCE = new Date(Date.now() - 30 * DAY_MS).toISOString();
// Many tasks match these words, and all have a webhook.
const WORDS = "type:echo state:delayed delivery:waiting after:365d host:example.com";
const ATTEMPTS = "200 attempts, each with the receiver's response, are written as JSON";
const SIGNED = "the postback is signed again, to show what was sent: twice over 4 MiB";

async function accountReads(world: World): Promise<readonly Case[]> {
  const { owner, operator, ids } = world;
  const tag = encodeURIComponent(TAG);
  const search = `/v1/tasks/search?limit=200&q=${encodeURIComponent(WORDS)}`;
  const filter = `tag=${tag}&type=echo`;
  const list = (query: string) => owner.get(`/v1/tasks?limit=1000${query}`);
  const ready = (query: string) => owner.get(`/v1/tasks/tasks_ready?limit=${query}`);
  const task = (id: string) => owner.get(`/v1/tasks/task_get/${id}`);
  const timeline = `/v1/tasks/timeline/${ids.tried}?time_zone=Europe%2FBerlin`;
  await fillKeys(owner);
  return [
    row("listTypes", 2, owner.get("/v1/appendix/types")),
    row("getStatus", 2, owner.get("/v1/appendix/status")),
    row("getTask: result of 4 MiB, ASCII", 5, task(ids.ascii)),
    row("getTask: result of 2.8 MB, not Latin-1", 5, task(ids.wide)),
    row("getTask: input of 1 MiB", 4, task(ids.parked)),
    row("listTasks: 1000 with long URLs, tags not Latin-1", [12, LISTED], list("")),
    row("listTasks: 1000, three filters", [12, LISTED], list(`&${filter}&state=completed`)),
    row("listReadyTasks: 1000, tags not Latin-1", [12, LISTED], ready("1000")),
    row("listReadyTasks: 100, read on the main thread", 4, ready("100")),
    row("listReadyTasks: 1000, two filters", [12, LISTED], ready(`1000&${filter}`)),
    row("searchTasks: 200, with webhooks", 5, operator.get(search)),
    row(
      "listDeliveries: 200 attempts",
      [10, ATTEMPTS],
      owner.get(`/v1/tasks/deliveries/${ids.tried}`),
    ),
    row("listAttempts: 1000 scheduled", [12, LISTED], owner.get("/v1/tasks/attempts?limit=1000")),
    row("getTimeline: 200 attempts, result of 4 MiB", [30, SIGNED], owner.get(timeline)),
    row("getUserData: a key and 50 revoked ones", 3, owner.get("/v1/appendix/user_data")),
  ];
}

// An account makes at most 100 keys an hour, and the measurements make 46 of them.
const REVOKED_KEYS = 50;

async function fillKeys(owner: Caller): Promise<void> {
  const makeAndRevoke = async () =>
    owner.done(revocation(owner, await owner.done(keyCreation(owner))));
  // An account has few active keys.
  for (let i = 0; i < REVOKED_KEYS; i += 5)
    await Promise.all(Array.from({ length: 5 }, makeAndRevoke));
}

function keyCreation(owner: Caller): Ask {
  return owner.post("/v1/appendix/keys", { label: "ш".repeat(64) });
}

function revocation(owner: Caller, created: string): Ask {
  return owner.delete(`/v1/appendix/keys/${/"key_id":"([^"]+)"/.exec(created)?.[1] ?? ""}`);
}

function keys({ owner }: World): readonly Case[] {
  const ask = keyCreation(owner);
  const after = async (created: string) => void (await owner.done(revocation(owner, created)));
  return [
    row("createKey: 50 revoked ones before", 3, { ask, after }),
    row("revokeKey: 50 revoked ones before", 3, async () =>
      revocation(owner, await owner.done(ask)),
    ),
  ];
}

const KIB = 1024;
const MIB = 1024 * KIB;
const NUMBERS = `${"1e9,".repeat((MIB - 200) / 4)}1]`;
const HELD = { type: "echo", start_at: LATER };
const DEEP = "1 MiB is read and goes to the parser's thread";
const SHORT = "64 KiB are the most that is parsed here; names that are all different are the worst";
const AGAIN = "1 MB is read, parsed elsewhere and hashed; the stored response is as large";
const CANCELLED = "a thousand are found and cancelled in ten steps, other requests in between";

async function posts({ owner, url }: World): Promise<readonly Case[]> {
  const path = "/v1/tasks/task_post";
  const longUrl = `https://example.com/${"x".repeat(1900)}`;
  const urls = { tag: TAG, postback_url: longUrl, pingback_url: `${longUrl}?id=$id` };
  const megabyte = Array<object>(100).fill({ ...HELD, input: "x".repeat(10 * KIB) });
  const input = (text: string) =>
    owner.post(path, `[{"type":"echo","start_at":"${LATER}","input":${text}}]`);
  const again = owner.post(path, megabyte, { "idempotency-key": "used" });
  await owner.done(again);
  const one = async (task: object, then: string): Promise<Ask> => {
    const [id = ""] = await owner.postTasks({ ...HELD, ...task });
    return owner.post(`/v1/tasks/${then}/${id}`, {});
  };
  const large = { input: "ш".repeat(MIB / 2 - 200) };
  // As many different names as fit into 64 KiB.
  const names = Array.from({ length: 7200 }, (_, i) => [`n${i.toString(36)}`, 0]);
  const short = JSON.stringify(Object.fromEntries(names));
  const zeros = `[${"0,".repeat((MIB - 200) / 2)}1]`;
  return [
    row("postTasks: 100 tasks, 1 MB", [10, PARSED], owner.post(path, megabyte)),
    row(
      "postTasks: 100 tasks with long URLs and tags",
      [10, PARSED],
      owner.post(path, Array<object>(100).fill({ ...HELD, ...urls })),
    ),
    row("postTasks: 1 MiB of `1e9,`", [12, PARSED], input(`[${NUMBERS}`)),
    row("postTasks: 1 MiB of `0,`", [12, PARSED], input(zeros)),
    row("postTasks: 1 MiB of `[`", [8, DEEP], {
      ask: owner.post(path, "[".repeat(MIB - 10)),
      status: 400,
    }),
    row("postTasks: 64 KiB of names", [10, SHORT], input(short)),
    row("postTasks: 1 MB with a key that was used", [8, AGAIN], again),
    row("cancelTask: input of 1 MiB", 5, () => one(large, "task_cancel")),
    row("cancelTasks: 1000 queued tasks", [15, CANCELLED], async () => {
      await owner.postTasks({ ...HELD, tag: "bulk" }, 1000);
      return owner.post("/v1/tasks/cancel", { tag: "bulk" });
    }),
    row("redeliver: a queued task", 5, () => one({ postback_url: url(HOOK) }, "redeliver")),
  ];
}

/** The requests without a key, or before there is a session. */
function signIns({ anybody, account }: World): readonly Case[] {
  const message = "\\u0448".repeat(4000);
  const request = `{"email":"a@example.com","message":"${message}"}`;
  const wrong = { login: account.login, key: `${account.key}x` };
  const token = `pbd_link_${"x".repeat(43)}`;
  const page = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
  const signOut = anybody.delete("/v1/session");
  return [
    row("requestAccess: 4000 characters, escaped", 3, anybody.post("/v1/access_requests", request)),
    row("requestAccess: 1 MiB", 3, {
      ask: anybody.post("/v1/access_requests", `[${NUMBERS}`),
      status: 413,
    }),
    row("getSession", 2, anybody.get("/v1/session")),
    row("signIn: a wrong key", 3, { ask: anybody.post("/v1/session", wrong, page), status: 401 }),
    row("signInByLink: a wrong token", 3, {
      ask: anybody.post("/v1/session/link", { token }, page),
      status: 401,
    }),
    row("signOut: without a session", 2, { ...signOut, headers: page }),
  ];
}

const LEASES = 1000;
const BATCH = 100;
// Of 16 MiB, without the JSON around it and a message that is not Latin-1.
const RESULT_BYTES = Math.floor((16 * MIB) / BATCH) - 2400;
const LARGE_INPUTS = 20;
const CLAIMED = "100 tasks with 1 MB come from the writer's thread, and go out";
const OVERSHOT = "a claim ends with the input that makes 1 MiB of it: up to 2 MiB";

async function workers({ owner, worker }: World): Promise<readonly Case[]> {
  const post = (operation: string, body: string | object) =>
    worker.post(`/v1/worker/${operation}`, body);
  const claim = (type: string): Request => ({
    ask: post("claim", { types: [type], max: BATCH, wait_seconds: 10 }),
    after: async (text) => void (await worker.done(post("release", { tasks: claimedTasks(text) }))),
  });
  const ended = async (with_: object): Promise<object> => {
    await owner.postTasks({ type: "leased" }, BATCH);
    const leases = await worker.claim("leased", BATCH);
    return { tasks: leases.map((lease) => ({ ...lease, ...with_ })) };
  };
  const long = "x".repeat(RESULT_BYTES);
  const failed = { message: "ш".repeat(1000), detail: long, retry: false };
  await owner.postTasks({ type: "batch", input: "x".repeat(10 * KIB) }, BATCH);
  for (let i = 0; i < LARGE_INPUTS; i++)
    await owner.postTasks({ type: "large", input: "ш".repeat(MIB / 2 - 200) });
  await owner.postTasks({ type: "kept" }, LEASES);
  let kept: readonly LeasedTask[] = await worker.claim("kept", LEASES);
  const progress = { progress: 0.5, note: "ш".repeat(200) };
  return [
    row("claimTasks: 100 tasks, 1 MB", [8, CLAIMED], claim("batch")),
    row("claimTasks: inputs of 1 MiB", [15, OVERSHOT], claim("large")),
    row("heartbeatLeases: 1000 leases with progress", [8, LEASED], async () =>
      post("heartbeat", { leases: kept.map((lease) => ({ ...lease, progress })) }),
    ),
    row("completeTasks: 100 results, 16 MiB", [60, RECEIVED], {
      pace: "slow",
      ask: async () => post("complete", await ended({ result: long })),
    }),
    row("completeTasks: 16 MiB of `1e9,`", [60, RECEIVED], {
      pace: "very slow",
      ask: post("complete", `{"tasks":[${"1e9,".repeat(4 * MIB - 20)}1]}`),
      status: 400,
    }),
    row("failTasks: 100 with details, 16 MiB", [100, RECEIVED], {
      pace: "slow",
      ask: async () => post("fail", await ended(failed)),
    }),
    row("releaseLeases: 1000 leases", [8, LEASED], {
      ask: async () => post("release", { tasks: kept }),
      after: async () => void (kept = await worker.claim("kept", LEASES)),
    }),
  ];
}

// A computed overview is shown again for this long.
const OVERVIEW_MS = 1001;
const MINUTES = "1,440 minutes are added up, once a second for all who look";
const HOURS = "1,500 minutes and 700 hours are added up";
const SERIES = "two megabytes of text are composed when every type has a dozen series";

function statistics({ operator }: World): readonly Case[] {
  const overview = async (): Promise<Ask> => {
    await sleep(OVERVIEW_MS);
    return operator.get("/v1/stats/overview");
  };
  const get = (path: string) => operator.get(`/v1/operator/${path}`);
  return [
    row("streamEvents: up to the first event", 3, {
      ask: operator.get("/v1/events"),
      isStream: true,
    }),
    row("getOverview: 200 hosts", [15, MINUTES], { pace: "slow", ask: overview }),
    row("getSeries: 30 days", [15, HOURS], operator.get(`/v1/stats/series?from=${SINCE}`)),
    row("listHosts: 200 hosts", 5, operator.get(`/v1/stats/hosts?since=${SINCE}`)),
    row("listRunners", 3, get("runners")),
    row("listNodes", 3, get("nodes")),
    row("listAudit: 200 entries", 5, get("audit?limit=200")),
    row("getSystem", 3, get("system")),
    row("getMetrics: 1000 types", [10, SERIES], operator.get("/metrics")),
  ];
}

const ORDERS = 50;

async function redeliveries({ operator }: World): Promise<readonly Case[]> {
  const path = "/v1/redeliveries";
  const order = operator.post(path, { since: SINCE, host: "nobody.example.com" });
  await Promise.all(Array.from({ length: ORDERS }, () => operator.done(order)));
  return [
    row("previewRedelivery: every attempt", 5, operator.post(`${path}/preview`, { since: SINCE })),
    row("orderRedelivery", 3, order),
    row("listRedeliveries: 50", 3, operator.get(path)),
    row("cancelRedelivery", 3, async () => {
      const text = await operator.done(order);
      return operator.delete(`${path}/${/"id":"([^"]+)"/.exec(text)?.[1] ?? ""}`);
    }),
  ];
}

const ACCOUNTS = 200;
let created = 0;

function nextLogin(): string {
  return `account-${String(++created).padStart(55, "0")}`;
}

async function accounts({ operator, account }: World): Promise<readonly Case[]> {
  const path = "/v1/operator/accounts";
  const change = (how: string, name: string) => operator.post(`${path}/${how}/${name}`, "");
  const create = async (): Promise<string> => {
    const login = nextLogin();
    await operator.done(operator.post(path, { login }));
    return login;
  };
  for (let i = 0; i < ACCOUNTS; i += 50) await Promise.all(Array.from({ length: 50 }, create));
  return [
    row("listAccounts: 200", 5, operator.get(`${path}?limit=200`)),
    row("createAccount", 3, async () => operator.post(path, { login: nextLogin() })),
    row("disableAccount", 3, async () => change("disable", await create())),
    row("enableAccount", 3, change("enable", account.login)),
    row("rotateSecret", 3, async () => change("rotate", await create())),
    row("finishRotation", 3, async () => {
      const login = await create();
      await operator.done(change("rotate", login));
      return change("finish", login);
    }),
  ];
}

const REQUESTS = 501;
const PAGE = "a page holds 256 Ki characters, of two bytes each";

async function accessRequests({ operator, anybody }: World): Promise<readonly Case[]> {
  const body = { email: "a@example.com", name: "ш".repeat(255), message: "ш".repeat(4000) };
  const ask = anybody.post("/v1/access_requests", body);
  for (let left = REQUESTS; left > 0; left -= 50)
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => anybody.done(ask)));
  const path = "/v1/operator/access_requests";
  const text = await operator.done(operator.get(path));
  const ids = [...text.matchAll(/"id":"([^"]+)"/g)].map(([, id = ""]) => id);
  const decide = (how: string, decision: string | object) =>
    operator.post(`${path}/${how}/${ids.pop() ?? ""}`, decision);
  return [
    row("listAccessRequests: of 4000 characters", [10, PAGE], operator.get(`${path}?which=all`)),
    row("approveAccessRequest", 3, async () => decide("approve", { login: nextLogin() })),
    row("denyAccessRequest", 3, async () => decide("deny", "")),
  ];
}

const PAUSES_OF_OTHERS = 999;
const COUNTED = "a hundred of a thousand are counted, each in the reader's thread by itself";

async function pauses({ operator }: World): Promise<readonly Case[]> {
  const path = "/v1/operator/delivery_pauses";
  // Of hosts that nothing is sent to.
  const pause = (i: number) => operator.post(path, { host: `host-${i}.example.com` });
  for (let i = 1; i <= PAUSES_OF_OTHERS; i++) await operator.done(pause(i));
  return [
    row("listDeliveryPauses: 1000", [10, COUNTED], operator.get(path)),
    row("pauseDeliveries: a host, 999 others", 5, pause(0)),
    row("resumeDeliveries: a host, 999 others", 5, async () => {
      await operator.done(pause(0));
      return operator.post(`${path}/resume`, { host: "host-0.example.com" });
    }),
  ];
}

const RUN = "each run is claimed, ended and recorded";
const POSTBACK = "4 MiB are read, signed twice and sent";

/** Work in the background, each with the request that begins it. */
function runs({ owner, view, receiver, ids }: World): readonly Case[] {
  const run = (task: { readonly type: string; readonly input?: string }, count = 1): Request => ({
    ask: owner.post("/v1/tasks/task_post", Array<object>(count).fill(task)),
    done: () =>
      untilNone(view, `tasks WHERE state IN ('queued', 'running') AND type = '${task.type}'`),
  });
  const arrival = async (): Promise<void> => {
    const before = await receiver.ask("requests", HOOK);
    const isThere = async () => (await receiver.ask("requests", HOOK)) > before;
    await until(isThere, { msMax: 60_000, everyMs: 2, fault: () => "no webhook arrived" });
  };
  const echo = { type: "echo", input: "x".repeat(10 * KIB) };
  return [
    row("100 tasks run: posted, claimed, run and recorded; 1 MB", [40, RUN], run(echo, 100)),
    row("a command's run: result of 4 MiB", [40, SENT], run({ type: "ascii" })),
    row("a service's run: response of 4 MB", [50, SENT], run({ type: "service" })),
    row("a postback: 4 MiB, ordered, signed, sent", [40, POSTBACK], {
      ask: owner.post(`/v1/tasks/redeliver/${ids.ascii}`, {}),
      done: arrival,
    }),
  ];
}
