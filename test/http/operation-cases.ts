import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { ACTIVE_KEYS_MAX } from "../../src/domain/account/key.ts";
import type { OperationDeps } from "../../src/http/operation-deps.ts";
import type { Operation } from "../../src/http/operation.ts";
import { operations } from "../../src/http/operations.ts";
import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { RawConnection, RawRequest } from "../helpers/raw-http.ts";
import { userDataOf } from "./account.ts";
import { bearer, complaints, JSON_TYPE, toAnswer, type Answer } from "./answer.ts";
import { makeCursors, makeFixtures, makeOthers } from "./operation-fixtures.ts";
import type { Callers, Cursors, Made, Named } from "./operation-fixtures.ts";
import { cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";
import { createTestWorker } from "./worker-requests.ts";

/** The parts of a good request beyond its path. */
interface Sound {
  readonly body?: unknown;
  readonly params?: Partial<Named>;
  /** Values of query parameters over {@link SOUND_VALUES}. */
  readonly values?: Readonly<Record<string, string>>;
  /** The HTTP status of the response; 200 by default. */
  readonly status?: number;
  /** The same without a body, if the body is optional; `status` by default. */
  readonly bodilessStatus?: number;
}

// No task has this id, so its lease is lost at each request.
const LEASE = { id: "01890a5d-ac96-774b-bcce-b302099a8057", lease_id: "x" };

/**
 * A good request for every operation, by its id in the OpenAPI document. Each can be repeated. The account has as many
 * keys as it may have, so createKey returns 409.
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
  // A task is redelivered thirty times a minute at most: a kind that it does not have uses up nothing.
  redeliver: { body: { kind: "postback" }, status: 400, bodilessStatus: 200 },
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
  // A second order is refused until the first has ended. An order that is too fast is always refused.
  orderRedelivery: { body: { since: "2026-01-01T00:00:00Z", per_second: 51 }, status: 400 },
  listRedeliveries: {},
  cancelRedelivery: {},
  getOverview: {},
  getSeries: {},
  listHosts: {},
  // An account signs in a hundred times an hour at most, and a link works once: refused ones can be repeated.
  signIn: { body: { login: "tester", key: "pbd_live_x" }, status: 401 },
  signInByLink: { body: { token: "pbd_link_x" }, status: 401 },
  getSession: {},
  signOut: {},
  listAccounts: { values: { cursor: "YWNjb3VudHMtYWxpY2U" } },
  // Refused because it can be done once and has been done.
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
  // No account is paused here.
  resumeDeliveries: { body: { login: "tester" }, status: 404 },
  listAudit: {},
  getSystem: {},
  isAlive: {},
  isReady: {},
  getOpenApi: {},
};

/** A valid value of each query parameter that means the same in all operations. */
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

/** An operation and a good request for it. */
export interface Case {
  readonly operation: Operation;
  readonly name: string;
  readonly sound: Parts;
  /** A valid value of each query parameter, by its name. */
  readonly values: Readonly<Record<string, string>>;
  /** The HTTP status of the response to `sound`. */
  readonly status: number;
  /** The same without a body, if the body is optional. */
  readonly bodilessStatus: number;
  /** Null if the path has no named part. */
  readonly unknown: Unknown | null;
}

/** Requests for things that the caller cannot see. */
interface Unknown {
  /** The id does not exist. */
  readonly sound: Parts;
  readonly code: number;
  /** The id belongs to a thing of another account; null if the operation has no such things. */
  readonly foreign: Parts | null;
  readonly malformed: readonly Parts[];
}

/** The request with these parts. */
export function toRequest({ method, path, query, body, ...lines }: Parts): RawRequest {
  const headers = [...lines.host, ...lines.credentials, ...lines.media, ...lines.others];
  const request = { method, target: path + query, host: false as const, headers };
  return body === null ? request : { ...request, body };
}

/** A daemon with a case for each of its operations. */
export interface Tested {
  readonly daemon: TestDaemon;
  readonly callers: Callers;
  readonly cases: readonly Case[];
  /** Sends a request and asserts that its connection serves the next request, or is closed. */
  readonly send: (parts: Parts) => Promise<Answer>;
  /** Asserts that requests of other accounts changed nothing. */
  readonly assertUntouched: () => Promise<void>;
}

const NO_LIMITS = "failed_authentications_per_minute = 0\naccess_requests_per_hour = 0\n";

// A proxy that no test is, so that forwarded headers must change nothing.
const PROXIES = 'trusted_proxies = ["10.0.0.0/8"]\n';

const TYPES = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';

/** Starts a daemon and makes its cases; without limits by address unless `toml` sets them. */
export async function startTested(
  t: TestContext,
  { toml = `[limits]\n${NO_LIMITS}`, ...options }: TestDaemonOptions = {},
): Promise<Tested> {
  const daemon = await startTestDaemon(t, { ...options, toml: `${PROXIES}${toml}\n${TYPES}` });
  const made = await makeFixtures(daemon);
  const token = await createTestWorker(daemon.file, ["print"]);
  const cookie = cookieLine(daemon.url, await createOperatorSession(daemon.file));
  const others = await makeOthers(daemon);
  const callers = { account: daemon.account, token, cookie, others };
  const cursors = await makeCursors(daemon);
  const cases = apiOperations().map((operation) => toCase(operation, { callers, made, cursors }));
  const assertUntouched = async (): Promise<void> => {
    assert.equal((await daemon.get(made.untouched.id)).state, "queued");
    const { keys } = await userDataOf(daemon);
    assert.equal(keys.filter(({ revoked_at }) => revoked_at === null).length, ACTIVE_KEYS_MAX);
  };
  return { daemon, callers, cases, send: createSender(t, daemon), assertUntouched };
}

/** A limit of all bodies. Bodies with results may have four times `limits.result`, which is at least 1 KiB. */
export const BODY_LIMIT = 4096;

/** The settings for {@link BODY_LIMIT}, without limits by address. */
export const LIMITED_BODIES = `[limits]\nbody = ${BODY_LIMIT}\nresult = ${BODY_LIMIT / 4}\n${NO_LIMITS}`;

/** Asserts that the log has no warning, no error and no secret. */
export function assertQuiet({ daemon, callers }: Pick<Tested, "daemon" | "callers">): void {
  assert.deepEqual(complaints(daemon), []);
  const log = daemon.logLines.join("");
  for (const secret of [daemon.account.key, daemon.account.secret, callers.token, "SECRET"])
    assert.ok(!log.includes(secret));
}

/** The operations that return JSON. events.test.ts and metrics.test.ts judge the others. */
export function apiOperations(): readonly Operation[] {
  const values = {
    ...{ marketplaces: [], retentionDays: 30, limits: { tasksPerPost: 100 } },
    servesDashboard: true,
    webhooks: { timeoutMs: 10_000, retryAfterMs: [] },
    dev: null,
  };
  // Only `handle` uses the dependencies, and no test calls it.
  const all = operations(values as unknown as OperationDeps);
  return all.filter(({ doc }) => doc.answerType === undefined);
}

/** The ids of the operations that have a good request here. */
export function soundNames(): readonly string[] {
  return Object.keys(SOUND);
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
  const { body, values, params, status = 200, bodilessStatus = status } = SOUND[doc.id] ?? {};
  const sound = {
    ...{ method, path: pathOf(operation, { ...made.used, ...params }), query: "" },
    // Operations about sessions refuse requests from other sites before anything else.
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
    ...{ status, bodilessStatus },
    unknown: unknownOf(operation, { callers, made, sound }),
  };
}

function pathOf({ path }: Operation, values: Partial<Named>): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = Object.entries(values).find(([each]) => each === name)?.[1];
    assert.ok(value !== undefined, `nothing was made for ${name}`);
    return value;
  });
}

const MALFORMED = ["x", "%00", "__proto__", "%27%20OR%201=1", "..%2f", "x".repeat(5000)];

function unknownOf(
  operation: Operation,
  {
    callers: { others },
    made: { untouched, unknown },
    sound,
  }: { readonly callers: Callers; readonly made: Made; readonly sound: Parts },
): Unknown | null {
  const name = /:(\w+)/.exec(operation.path)?.[1];
  if (name === undefined) return null;
  const at = (values: Partial<Named>): Parts => ({ ...sound, path: pathOf(operation, values) });
  const code = name === "id" ? 40401 : 40400;
  const own = Object.entries(untouched).find(([each]) => each === name)?.[1];
  const malformed = MALFORMED.map((each) => at({ [name]: each }));
  if (own === undefined) return { sound: at(unknown), code, foreign: null, malformed };
  const foreign = { ...at(untouched), credentials: [bearer({ account: others.stranger })] };
  const ids = [own.toUpperCase(), `${own}x`, `%7B${own}%7D`, own.slice(1)];
  const near = ids.map((each) => at({ [name]: each }));
  return { sound: at(unknown), code, foreign, malformed: [...near, ...malformed] };
}

/** True if the operation needs a session of the operator. */
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
    assert.ok(known[name] !== undefined, `no valid value of ${name} of ${doc.id}`);
  }
  return Object.fromEntries(names.map((name) => [name, known[name] ?? ""]));
}

function createSender(t: TestContext, { url }: TestDaemon): Tested["send"] {
  let connection: RawConnection | null = null;
  return async (parts) => {
    connection ??= await openRaw(t, url);
    const request = toRequest(parts);
    // The next request goes with it: a body that is read too far, or not far enough, breaks it.
    connection.send(Buffer.concat([toBytes(request), toBytes({ target: "/readyz" })]));
    const isHead = request.method === "HEAD";
    const answer = toAnswer(await connection.next(isHead ? { to: "HEAD" } : {}), request);
    assert.ok(answer.response.status < 500, JSON.stringify(answer.body));
    if (headerOf(answer.response, "connection") === "close") {
      assert.equal((await connection.closed()).length, 0, "a second response came");
      connection = null;
    } else {
      assert.equal((await connection.next()).body.toString(), '{"status":"ok"}');
    }
    return answer;
  };
}
