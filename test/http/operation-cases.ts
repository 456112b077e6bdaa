import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { ACTIVE_KEYS_MAX, newWebhookSecret } from "../../src/domain/account/key.ts";
import { listCursors, newCursorKey } from "../../src/http/list-cursor.ts";
import type { OperationDeps } from "../../src/http/operation-deps.ts";
import type { Operation } from "../../src/http/operation.ts";
import { operations } from "../../src/http/operations.ts";
import {
  createTestAccount,
  startTestDaemon,
  type TestDaemon,
  type TestDaemonOptions,
} from "../helpers/daemon.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { RawConnection, RawRequest } from "../helpers/raw-http.ts";
import { newTaskId } from "../helpers/store.ts";
import { makeKey } from "./account.ts";
import { bearer, complaints, JSON_TYPE, toAnswer, type Answer } from "./answer.ts";
import { atStore, cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";
import { createTestWorker } from "./worker-requests.ts";

/** What sound requests are about: made before, so that they find something. */
interface Made {
  readonly id: string;
  readonly key_id: string;
  /** Of an account with a rotation that nobody ends. */
  readonly login: string;
  /** Of an access request that was denied. */
  readonly request_id: string;
  /** Of a redelivery order of the account that was cancelled. */
  readonly order_id: string;
}

/** A cursor for each operation whose cursors the daemon's key seals, by its name. */
type Cursors = Readonly<Record<string, string>>;

/** Who calls: an account by its key, a worker by its token, the operator by a session. */
interface Callers extends Pick<TestDaemon, "account"> {
  readonly token: string;
  /** The header line. */
  readonly cookie: string;
}

/** What goes with a sound request beyond its path. */
interface Sound {
  readonly body?: unknown;
  /** Values of the path's parts, where they are others than those that were made for all. */
  readonly params?: Partial<Made>;
  /** Values of query parameters beside {@link SOUND_VALUES}. */
  readonly values?: Readonly<Record<string, string>>;
  /** What it is answered; 200 unless told. */
  readonly status?: number;
}

// Of no task: it is lost, as often as it is asked.
const LEASE = { id: "01890a5d-ac96-774b-bcce-b302099a8057", lease_id: "x" };

/**
 * A sound request for every operation, by its name in the API's document. Each may be sent again and again: the
 * account has all the keys that it may have, so createKey says that.
 */
const SOUND: Readonly<Record<string, Sound>> = {
  postTasks: { body: { type: "echo", input: 1, tag: "t", start_at: farStart() } },
  getTask: {},
  listReadyTasks: {},
  listTasks: {},
  cancelTask: { body: {} },
  cancelTasks: { body: { tag: "none" } },
  listDeliveries: {},
  listAttempts: {},
  redeliver: { body: {} },
  createKey: { body: { label: "ci" }, status: 409 },
  revokeKey: {},
  getUserData: {},
  listMarketplaces: {},
  listTypes: {},
  getStatus: {},
  listStatusCodes: {},
  requestAccess: { body: { email: "ada@example.com", name: "Ada" } },
  claimTasks: { body: { types: ["print"] } },
  heartbeatLeases: { body: { leases: [LEASE], progress: { progress: 0.5 } } },
  completeTasks: { body: { tasks: [{ ...LEASE, result: 1 }] } },
  failTasks: { body: { tasks: [{ ...LEASE, message: "No." }] } },
  releaseLeases: { body: { tasks: [LEASE] } },
  searchTasks: {},
  getTimeline: {},
  previewRedelivery: { body: { since: "2026-01-01T00:00:00Z" } },
  // A second order would be refused until the first is worked off: one that is too fast is refused always.
  orderRedelivery: { body: { since: "2026-01-01T00:00:00Z", per_second: 51 }, status: 400 },
  listRedeliveries: {},
  cancelRedelivery: {},
  getOverview: {},
  getSeries: {},
  listHosts: {},
  // With a link that works once, a second request is refused.
  signInByLink: { body: { token: "pbd_link_x" }, status: 401 },
  getSession: {},
  signOut: {},
  listAccounts: { values: { cursor: "YWNjb3VudHMtYWxpY2U" } },
  // What can be done once is refused here: it has been done.
  createAccount: { body: { login: "tester" }, status: 400 },
  disableAccount: {},
  enableAccount: {},
  rotateSecret: { status: 400 },
  finishRotation: { params: { login: "tester" }, status: 400 },
  listAccessRequests: {},
  approveAccessRequest: { body: { login: "bob" }, status: 400 },
  denyAccessRequest: { status: 400 },
  listRunners: {},
  listNodes: {},
  listDeliveryPauses: {},
  pauseDeliveries: { body: { host: "hooks.example.com", reason: "maintenance" } },
  // The hold of an account is never made here.
  resumeDeliveries: { body: { login: "tester" }, status: 404 },
  listAudit: {},
  getSystem: {},
  isAlive: {},
  isReady: {},
  getOpenApi: {},
};

/** A value that every parameter of a query takes, by its name, where all operations take the same. */
const SOUND_VALUES: Readonly<Record<string, string>> = {
  limit: "1",
  q: "t",
  time_zone: "Europe/Berlin",
  which: "all",
  tag: "t",
  type: "echo",
  state: "queued",
  action: "key.created",
  account: "alice",
  collect: "false",
  from: new Date(Date.now() - 3_600_000).toISOString(),
  to: new Date().toISOString(),
  since: new Date(Date.now() - 3_600_000).toISOString(),
  created_after: "2026-01-01T00:00:00Z",
  created_before: "2026-01-01T00:00:00Z",
};

/** The parts of a request, to be changed one by one. */
export interface Parts {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Header lines. */
  readonly host: readonly string[];
  readonly credentials: readonly string[];
  readonly media: readonly string[];
  readonly others: readonly string[];
  readonly body: string | Uint8Array | null;
}

/** An operation of the daemon and a sound request for it. */
export interface Case {
  readonly operation: Operation;
  readonly name: string;
  readonly sound: Parts;
  /** A sound value for each parameter of its query, by name. */
  readonly values: Readonly<Record<string, string>>;
  /** What the sound request is answered. */
  readonly status: number;
}

/** The request of these parts. */
export function toRequest({ method, path, query, body, ...lines }: Parts): RawRequest {
  const headers = [...lines.host, ...lines.credentials, ...lines.media, ...lines.others];
  const request = { method, target: path + query, host: false as const, headers };
  return body === null ? request : { ...request, body };
}

/** A daemon with a case for each of its operations. */
export interface Tested {
  readonly daemon: TestDaemon;
  /** A worker's token. */
  readonly token: string;
  readonly cases: readonly Case[];
  /** Sends a request, and makes sure that its connection serves the next one, or is closed. */
  readonly send: (parts: Parts) => Promise<Answer>;
}

const NO_LIMITS = "failed_authentications_per_minute = 0\naccess_requests_per_hour = 0\n";

// A type of each kind that there is for tests: what has tables of its own stands last in a file.
const TYPES = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';

/** Starts a daemon, without limits by address unless told, and makes its cases. */
export async function startTested(
  t: TestContext,
  { toml = `[limits]\n${NO_LIMITS}`, ...options }: TestDaemonOptions = {},
): Promise<Tested> {
  const daemon = await startTestDaemon(t, { ...options, toml: `${toml}\n${TYPES}` });
  const made = await makeFixtures(daemon);
  const token = await createTestWorker(daemon.file, ["print"]);
  const cookie = cookieLine(daemon.url, await createOperatorSession(daemon.file));
  const callers = { account: daemon.account, token, cookie };
  const cursors = await makeCursors(daemon);
  const cases = apiOperations().map((operation) => toCase(operation, { callers, made, cursors }));
  return { daemon, token, cases, send: createSender(t, daemon) };
}

/** A limit of bodies that holds for those with results too, four times the least limit of results. */
export const BODY_LIMIT = 4096;

/** The settings for {@link BODY_LIMIT}, without limits by address. */
export const LIMITED_BODIES = `[limits]\nbody = ${BODY_LIMIT}\nresult = ${BODY_LIMIT / 4}\n${NO_LIMITS}`;

/** Nothing went wrong inside, and nothing secret was logged. */
export function assertQuiet({ daemon, token }: Pick<Tested, "daemon" | "token">): void {
  assert.deepEqual(complaints(daemon), []);
  const log = daemon.logLines.join("");
  for (const secret of [daemon.account.key, daemon.account.secret, token])
    assert.ok(!log.includes(secret));
}

/** The table that the daemon serves. */
export function apiOperations(): readonly Operation[] {
  const values = {
    ...{ marketplaces: [], retentionDays: 30, limits: { tasksPerPost: 100 } },
    servesDashboard: true,
    webhooks: { timeoutMs: 10_000, retryAfterMs: [] },
    dev: null,
  };
  // Only what the operations say of themselves is read here: what they are given is used in `handle` alone.
  const all = operations(values as unknown as OperationDeps);
  // An answer that is no JSON has tests of its own: events.test.ts, metrics.test.ts.
  return all.filter(({ doc }) => doc.answerType === undefined);
}

/** The names of the operations that have a sound request here. */
export function soundNames(): readonly string[] {
  return [...Object.keys(SOUND), "signIn"];
}

function soundOf(name: string, { account: { login, key } }: Callers): Sound {
  return name === "signIn" ? { body: { login, key } } : (SOUND[name] ?? {});
}

async function makeFixtures(daemon: TestDaemon): Promise<Made> {
  const { tasks } = await daemon.post({ type: "echo", start_at: farStart() });
  const id = tasks[0]?.id ?? "";
  // Cancelled, it may be cancelled again and again.
  await daemon.call(`/v1/tasks/task_cancel/${id}`, { method: "POST" });
  const { key_id } = await makeKey(daemon);
  for (let keys = 2; keys < ACTIVE_KEYS_MAX; keys++) await makeKey(daemon);
  // Revoked, it may be revoked again and again.
  await daemon.call(`/v1/appendix/keys/${key_id}`, { method: "DELETE" });
  await makeKey(daemon);
  return { id, key_id, ...(await makeOperatorFixtures(daemon)) };
}

async function makeOperatorFixtures({ file, account }: TestDaemon) {
  const login = "alice";
  await createTestAccount(file, login);
  const [request_id, order_id] = [newTaskId(), newTaskId()];
  const fields = { email: "ada@example.com", name: null, company: null, message: null };
  await atStore(file, async (store) => {
    await store.rotateSecret({ login, next: newWebhookSecret() });
    await store.insertAccessRequest({ id: request_id, fields, createdAt: 0, pendingMax: 1 });
    await store.denyAccessRequest({ id: request_id, decidedAt: Date.now() });
    const filter = deliveryFilter({ login: account.login });
    await store.orderRedelivery({ ...newOrder({ id: order_id, filter }), openMax: null });
    await store.cancelRedeliveryOrder({ id: order_id, login: null, now: Date.now() });
  });
  return { login, request_id, order_id };
}

async function makeCursors({ file, account }: TestDaemon): Promise<Cursors> {
  return atStore(file, async (store) => {
    const fresh = newCursorKey();
    const { seal } = listCursors(await store.keepSecret({ name: "cursors", fresh }));
    const scope = (await store.findAccount(account.login))?.accountId ?? null;
    const place = { timeMs: 1, seq: 1 };
    return {
      listReadyTasks: seal(place, { list: "ready", scope }),
      listTasks: seal(place, { list: "tasks", scope }),
      searchTasks: seal(place, { list: "search", scope }),
      listAttempts: seal(place, { list: "webhooks", scope }),
      listAudit: seal(place, { list: "audit", scope: null }),
    };
  });
}

function toCase(
  operation: Operation,
  {
    callers,
    made,
    cursors,
  }: { readonly callers: Callers; readonly made: Made; readonly cursors: Cursors },
): Case {
  const { method, access, doc } = operation;
  const { body, values, params, status = 200 } = soundOf(doc.id, callers);
  const path = operation.path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = Object.entries({ ...made, ...params }).find(([each]) => each === name)?.[1];
    assert.ok(value !== undefined, `nothing was made for the path's ${name}`);
    return value;
  });
  const sound = {
    ...{ method, path, query: "" },
    // What is about sessions asks from where a request comes before anything else.
    host: ["Host: 127.0.0.1", ...(operation.isSignIn === true ? FROM_PAGE : [])],
    credentials: credentialsFor(access, callers),
    media: body === undefined ? [] : [JSON_TYPE],
    others: [],
    body: body === undefined ? null : JSON.stringify(body),
  };
  return {
    operation,
    name: `${method} ${operation.path}`,
    sound,
    values: soundValues(operation, { cursor: cursors[doc.id] ?? "", ...values }),
    status,
  };
}

/** True where an account's key is not enough, and a session of the operator is. */
export function isOperators(access: Operation["access"]): boolean {
  return access === "operator" || access === "scraper";
}

function credentialsFor(access: Operation["access"], callers: Callers): readonly string[] {
  if (access === "public") return [];
  if (isOperators(access)) return [callers.cookie, ...FROM_PAGE];
  return access === "worker" ? [`Authorization: Bearer ${callers.token}`] : [bearer(callers)];
}

function soundValues(
  { takes: { query = {} }, doc }: Operation,
  own: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const names = Object.keys(query);
  const known: Readonly<Record<string, string>> = { ...SOUND_VALUES, ...own };
  for (const name of names) {
    assert.ok(known[name] !== undefined, `no sound value for the parameter ${name} of ${doc.id}`);
  }
  return Object.fromEntries(names.map((name) => [name, known[name] ?? ""]));
}

function createSender(t: TestContext, { url }: TestDaemon): Tested["send"] {
  let connection: RawConnection | null = null;
  return async (parts) => {
    connection ??= await openRaw(t, url);
    const request = toRequest(parts);
    // Sent ahead, so that a body which is read too far, or not far enough, shows.
    connection.send(Buffer.concat([toBytes(request), toBytes({ target: "/readyz" })]));
    const isHead = request.method === "HEAD";
    const answer = toAnswer(await connection.next(isHead ? { to: "HEAD" } : {}), request);
    assert.ok(answer.response.status < 500, JSON.stringify(answer.body));
    if (headerOf(answer.response, "connection") === "close") {
      assert.equal((await connection.closed()).length, 0, "a second answer came");
      connection = null;
    } else {
      assert.equal((await connection.next()).body.toString(), '{"status":"ok"}');
    }
    return answer;
  };
}
