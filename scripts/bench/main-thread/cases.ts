import { setTimeout as sleep } from "node:timers/promises";

import type { Ask, Caller } from "../../kit/client.ts";
import { claimedTasks, type LeasedTask } from "../../kit/http.ts";
import { until } from "../../kit/until.ts";
import type { BoundName } from "./bounds.ts";
import type { Case, Cases } from "./main-thread.ts";
import { HOOK, LATER, TAG, untilNone, type World } from "./world.ts";

/** A case for each row of the table. */
export async function prepareCases(world: World): Promise<Readonly<Record<BoundName, Case>>> {
  const cases: Readonly<Record<BoundName, Cases[string]>> = {
    ...(await readCases(world)),
    ...(await postCases(world)),
    ...(await workerCases(world)),
    ...(await operatorCases(world)),
    ...runCases(world),
  };
  const whole = Object.entries(cases).map(([name, each]) => {
    return [name, "ask" in each ? each : { ask: each }];
  });
  // The names are those of the cases: entries() only forgets it.
  return Object.fromEntries(whole) as Record<BoundName, Case>;
}

const UNENDED = "tasks WHERE state IN ('queued', 'running') AND type =";

/** Work without a request, except for the one that begins it. */
function runCases({ owner, view, receiver, ids }: World) {
  const ended = (type: string) => async (): Promise<void> =>
    untilNone(view, `${UNENDED} '${type}'`);
  const post = (task: object, count = 1) =>
    owner.post(
      "/v1/tasks/task_post",
      Array.from({ length: count }, () => task),
    );
  const input = "x".repeat(10 * 1024);
  return {
    runEcho: { ask: post({ type: "echo", input }, 100), done: ended("echo") },
    runCommand: { ask: post({ type: "ascii" }), done: ended("ascii") },
    runService: { ask: post({ type: "service" }), done: ended("service") },
    postback: {
      ask: owner.post(`/v1/tasks/redeliver/${ids.ascii}`, {}),
      done: async () => {
        const before = await receiver.ask("requests", HOOK);
        const isThere = async () => (await receiver.ask("requests", HOOK)) > before;
        await until(isThere, { msMax: 60_000, everyMs: 2, fault: () => "no webhook arrived" });
      },
    },
  } as const satisfies Cases;
}

const DAY_MS = 86_400_000;
// An account makes at most 100 keys an hour, and the measurements make 46 of them.
const REVOKED_KEYS = 50;
// A computed overview is shown again for this long.
const OVERVIEW_MS = 1001;

// Many tasks match them, and all have a webhook.
const WORDS = "type:echo state:delayed delivery:waiting after:365d host:example.com";

/** The reads of accounts and of everybody. */
async function readCases(world: World) {
  const { anybody, owner, operator, ids } = world;
  const tag = encodeURIComponent(TAG);
  const from = new Date(Date.now() - 30 * DAY_MS).toISOString();
  await fillKeys(world);
  return {
    livez: anybody.get("/livez"),
    readyz: anybody.get("/readyz"),
    openapi: anybody.get("/openapi.json"),
    page: anybody.get("/dashboard/"),
    pageScript: plain(anybody.get(await largestAsset(world))),
    reference: plain(anybody.get("/docs")),
    statusCodes: anybody.get("/v1/appendix/status_codes"),
    marketplaces: anybody.get("/v1/appendix/marketplaces"),
    types: owner.get("/v1/appendix/types"),
    status: anybody.get("/v1/appendix/status"),
    taskGetAscii: owner.get(`/v1/tasks/task_get/${ids.ascii}`),
    taskGetWide: owner.get(`/v1/tasks/task_get/${ids.wide}`),
    taskGetInput: owner.get(`/v1/tasks/task_get/${ids.parked}`),
    tasks: owner.get("/v1/tasks?limit=1000"),
    tasksFiltered: owner.get(`/v1/tasks?limit=1000&tag=${tag}&type=echo&state=completed`),
    ready: owner.get("/v1/tasks/tasks_ready?limit=1000"),
    readyHundred: owner.get("/v1/tasks/tasks_ready?limit=100"),
    readyFiltered: owner.get(`/v1/tasks/tasks_ready?limit=1000&tag=${tag}&type=echo`),
    search: operator.get(`/v1/tasks/search?limit=200&q=${encodeURIComponent(WORDS)}`),
    deliveries: owner.get(`/v1/tasks/deliveries/${ids.tried}`),
    attempts: owner.get("/v1/tasks/attempts?limit=1000"),
    timeline: owner.get(`/v1/tasks/timeline/${ids.tried}?time_zone=Europe%2FBerlin`),
    userData: owner.get("/v1/appendix/user_data"),
    overview: {
      pace: "slow",
      ask: async () => {
        await sleep(OVERVIEW_MS);
        return operator.get("/v1/stats/overview");
      },
    },
    series: operator.get(`/v1/stats/series?from=${from}`),
    hosts: operator.get(`/v1/stats/hosts?since=${from}`),
    events: { ask: operator.get("/v1/events"), isStream: true },
  } as const satisfies Cases;
}

function plain(ask: ReturnType<World["anybody"]["get"]>): typeof ask {
  return { ...ask, headers: { "accept-encoding": "identity" } };
}

async function largestAsset({ anybody }: World): Promise<string> {
  const page = await anybody.done(anybody.get("/dashboard/"));
  const found = page.matchAll(/"(\/dashboard\/assets\/[^"]+)"/g);
  const sizes = await Promise.all(
    [...found].map(async ([, path = ""]) => {
      const text = await anybody.done(plain(anybody.get(path)));
      return { path, size: text.length };
    }),
  );
  return sizes.toSorted((a, b) => b.size - a.size)[0]?.path ?? "/dashboard/";
}

async function fillKeys({ owner }: World): Promise<void> {
  const label = "ш".repeat(64);
  const makeAndRevoke = async (): Promise<void> => {
    const text = await owner.done(owner.post("/v1/appendix/keys", { label }));
    const id = /"key_id":"([^"]+)"/.exec(text)?.[1] ?? "";
    await owner.done(owner.delete(`/v1/appendix/keys/${id}`));
  };
  // An account has few keys at once.
  for (let i = 0; i < REVOKED_KEYS; i += 5) {
    await Promise.all(Array.from({ length: 5 }, makeAndRevoke));
  }
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** The posts of accounts and of everybody. */
async function postCases({ anybody, owner, account, url }: World) {
  const path = "/v1/tasks/task_post";
  const held = { type: "echo", start_at: LATER };
  const longUrl = `https://example.com/${"x".repeat(1900)}`;
  const hundred = (task: object): readonly object[] => Array.from({ length: 100 }, () => task);
  const megabyte = hundred({ ...held, input: "x".repeat(10 * KIB) });
  const input = (text: string): string => `[{"type":"echo","start_at":"${LATER}","input":${text}}]`;
  const used = { "idempotency-key": "used" };
  await owner.done(owner.post(path, megabyte, used));
  return {
    taskPost: owner.post(path, megabyte),
    taskPostUrls: owner.post(
      path,
      hundred({ ...held, tag: TAG, postback_url: longUrl, pingback_url: `${longUrl}?id=$id` }),
    ),
    taskPostDigits: owner.post(path, input(`[${"1e9,".repeat((MIB - 200) / 4)}1]`)),
    taskPostArray: owner.post(path, input(`[${"0,".repeat((MIB - 200) / 2)}1]`)),
    taskPostDeep: { ask: owner.post(path, "[".repeat(MIB - 10)), status: 400 },
    taskPostShort: owner.post(path, input(names(64 * KIB - 200))),
    taskPostAgain: owner.post(path, megabyte, used),
    taskCancel: async () => {
      const [id = ""] = await owner.postTasks({ ...held, input: "ш".repeat(MIB / 2 - 200) });
      return owner.post(`/v1/tasks/task_cancel/${id}`, {});
    },
    taskCancelMany: async () => {
      await owner.postTasks({ ...held, tag: "bulk" }, 1000);
      return owner.post("/v1/tasks/cancel", { tag: "bulk" });
    },
    redeliver: {
      ask: async () => {
        const [id = ""] = await owner.postTasks({ ...held, postback_url: url(HOOK) });
        return owner.post(`/v1/tasks/redeliver/${id}`, {});
      },
      status: 200,
    },
    ...keyCases(owner),
    ...signInCases({ anybody, account }),
  } as const satisfies Cases;
}

/** An account has few active keys: each one that is made is revoked. */
function keyCases(owner: Caller) {
  const create = owner.post("/v1/appendix/keys", { label: "ш".repeat(64) });
  const revoke = (made: string): Ask =>
    owner.delete(`/v1/appendix/keys/${/"key_id":"([^"]+)"/.exec(made)?.[1] ?? ""}`);
  return {
    keyCreate: {
      ask: create,
      after: async (made) => {
        await owner.done(revoke(made));
      },
    },
    keyRevoke: async () => revoke(await owner.done(create)),
  } as const satisfies Cases;
}

/** The requests without a key, or before there is a session. */
function signInCases({ anybody, account }: Pick<World, "anybody" | "account">) {
  const message = "\\u0448".repeat(4000);
  return {
    accessRequest: anybody.post(
      "/v1/access_requests",
      `{"email":"a@example.com","message":"${message}"}`,
    ),
    accessRequestLarge: {
      ask: anybody.post("/v1/access_requests", `[${"1e9,".repeat((MIB - 200) / 4)}1]`),
      status: 413,
    },
    session: anybody.get("/v1/session"),
    signIn: {
      ask: fromPage(anybody.post("/v1/session", { login: account.login, key: `${account.key}x` })),
      status: 401,
    },
    signInByLink: {
      ask: fromPage(anybody.post("/v1/session/link", { token: `pbd_link_${"x".repeat(43)}` })),
      status: 401,
    },
    signOut: fromPage(anybody.delete("/v1/session")),
  } as const satisfies Cases;
}

function fromPage<Of extends { readonly headers?: Readonly<Record<string, string>> }>(ask: Of): Of {
  const more = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
  return { ...ask, headers: { ...ask.headers, ...more } };
}

/** An object with as many different names as fit. */
function names(bytes: number): string {
  const members: string[] = [];
  for (let i = 0, length = 2; length < bytes - 16; i++) {
    const member = `"${i.toString(36)}":0`;
    members.push(member);
    length += member.length + 1;
  }
  return `{${members.join(",")}}`;
}

const LEASES = 1000;
const BATCH = 100;
// Of 16 MiB, without the JSON around it and a message that is not Latin-1.
const RESULT_BYTES = Math.floor((16 * MIB) / BATCH) - 2400;
const LARGE_INPUTS = 20;

/** The requests of workers. */
async function workerCases({ owner, worker }: World) {
  const order = (type: string) => ({ types: [type], max: BATCH, wait_seconds: 10 });
  const giveBack = async (text: string): Promise<void> => {
    await worker.done(worker.post("/v1/worker/release", { tasks: claimedTasks(text) }));
  };
  const ended = async (with_: object): Promise<readonly object[]> => {
    await owner.postTasks({ type: "leased" }, BATCH);
    const leases = await worker.claim("leased", BATCH);
    return leases.map((lease) => ({ ...lease, ...with_ }));
  };
  const long = "x".repeat(RESULT_BYTES);
  const failed = { message: "ш".repeat(1000), detail: long, retry: false };
  await owner.postTasks({ type: "batch", input: "x".repeat(10 * KIB) }, BATCH);
  for (let i = 0; i < LARGE_INPUTS; i++) {
    await owner.postTasks({ type: "large", input: "ш".repeat(MIB / 2 - 200) });
  }
  await owner.postTasks({ type: "kept" }, LEASES);
  let kept: readonly LeasedTask[] = await worker.claim("kept", LEASES);
  const progress = { progress: 0.5, note: "ш".repeat(200) };
  return {
    claim: { ask: worker.post("/v1/worker/claim", order("batch")), after: giveBack },
    claimLarge: { ask: worker.post("/v1/worker/claim", order("large")), after: giveBack },
    heartbeat: async () => {
      const leases = kept.map((lease) => ({ ...lease, progress }));
      return worker.post("/v1/worker/heartbeat", { leases });
    },
    complete: {
      pace: "slow",
      ask: async () => {
        return worker.post("/v1/worker/complete", { tasks: await ended({ result: long }) });
      },
    },
    completeDigits: {
      pace: "very slow",
      ask: worker.post("/v1/worker/complete", `{"tasks":[${"1e9,".repeat(4 * MIB - 20)}1]}`),
      status: 400,
    },
    fail: {
      pace: "slow",
      ask: async () => worker.post("/v1/worker/fail", { tasks: await ended(failed) }),
    },
    release: {
      ask: async () => worker.post("/v1/worker/release", { tasks: kept }),
      after: async () => {
        kept = await worker.claim("kept", LEASES);
      },
    },
  } as const satisfies Cases;
}

const ACCOUNTS = 200;
const REQUESTS = 501;
const ORDERS = 50;
const SINCE = new Date(Date.now() - 30 * DAY_MS).toISOString();

/** The requests of the operator. */
async function operatorCases({ operator, anybody, account }: World) {
  let made = 0;
  const login = (): string => `account-${String(++made).padStart(55, "0")}`;
  const makeAccount = async (): Promise<string> => {
    const name = login();
    await operator.done(operator.post("/v1/operator/accounts", { login: name }));
    return name;
  };
  for (let i = 0; i < ACCOUNTS; i += 50) await Promise.all(Array.from({ length: 50 }, makeAccount));
  const filter = { since: SINCE, host: "nobody.example.com" };
  const order = operator.post("/v1/redeliveries", filter);
  await Promise.all(Array.from({ length: ORDERS }, () => operator.done(order)));
  const requests = await fillRequests(anybody, operator);
  const nextRequest = (): string => requests.pop() ?? "";
  const change = (how: string, name: string) =>
    operator.post(`/v1/operator/accounts/${how}/${name}`, "");
  const requestsPath = "/v1/operator/access_requests";
  return {
    preview: operator.post("/v1/redeliveries/preview", { since: SINCE }),
    order: order,
    orders: operator.get("/v1/redeliveries"),
    orderCancel: async () => {
      const text = await operator.done(order);
      return operator.delete(`/v1/redeliveries/${/"id":"([^"]+)"/.exec(text)?.[1] ?? ""}`);
    },
    accounts: operator.get("/v1/operator/accounts?limit=200"),
    accountCreate: async () => operator.post("/v1/operator/accounts", { login: login() }),
    accountDisable: async () => change("disable", await makeAccount()),
    accountEnable: change("enable", account.login),
    rotateSecret: async () => change("rotate", await makeAccount()),
    finishRotation: async () => {
      const name = await makeAccount();
      await operator.done(change("rotate", name));
      return change("finish", name);
    },
    accessRequests: operator.get(`${requestsPath}?which=all`),
    approve: async () =>
      operator.post(`${requestsPath}/approve/${nextRequest()}`, { login: login() }),
    deny: async () => operator.post(`${requestsPath}/deny/${nextRequest()}`, ""),
    runners: operator.get("/v1/operator/runners"),
    nodes: operator.get("/v1/operator/nodes"),
    ...(await pauseCases(operator)),
    audit: operator.get("/v1/operator/audit?limit=200"),
    system: operator.get("/v1/operator/system"),
    metrics: operator.get("/metrics"),
  } as const satisfies Cases;
}

const PAUSES_OF_OTHERS = 999;

async function pauseCases(operator: Caller) {
  const path = "/v1/operator/delivery_pauses";
  // Of hosts that nothing is sent to.
  const pause = (i: number) => operator.post(path, { host: `host-${i}.example.com` });
  for (let i = 1; i <= PAUSES_OF_OTHERS; i++) await operator.done(pause(i));
  return {
    pauses: operator.get(path),
    pause: pause(0),
    resume: async () => {
      await operator.done(pause(0));
      return operator.post(`${path}/resume`, { host: "host-0.example.com" });
    },
  } as const satisfies Cases;
}

async function fillRequests(anybody: Caller, operator: Caller): Promise<string[]> {
  const body = { email: "a@example.com", name: "ш".repeat(255), message: "ш".repeat(4000) };
  for (let left = REQUESTS; left > 0; left -= 50) {
    const ask = anybody.post("/v1/access_requests", body);
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => anybody.done(ask)));
  }
  const text = await operator.done(operator.get("/v1/operator/access_requests"));
  return [...text.matchAll(/"id":"([^"]+)"/g)].map(([, id = ""]) => id);
}
