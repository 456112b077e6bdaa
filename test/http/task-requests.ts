import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import type { FieldsOf } from "../../src/api/operations.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { type RawRequest, type RawResponse, exchange, headerOf } from "../helpers/raw-http.ts";
import { type HeldProcess, openHeldProcesses } from "../run/command-run.ts";
import { JSON_TYPE, ask, bearer } from "./answer.ts";
import { FROM_PAGE, cookieLine, createOperatorSession } from "./session-requests.ts";

const HOLD = fileURLToPath(new URL("../fixtures/commands/hold.mjs", import.meta.url));

/** The path of task_cancel for an id. */
export function cancelPath(id: string): string {
  return `/v1/tasks/task_cancel/${id}`;
}

/** Tasks of the type `hold`, which run one after the other, each until the test ends it. */
export interface HeldTasks {
  /** For the configuration: the type `hold`, and `fail` and `retried`, whose tasks fail. */
  readonly toml: string;
  /** The process of the next task that runs. */
  next(): Promise<HeldProcess>;
}

/**
 * Opens what tasks of the type `hold` connect to; `mode` is an argument of test/fixtures/commands/hold.mjs. To be
 * called before the daemon is started: after the test it ends all of them, so that the daemon can stop.
 */
export async function openHeldTasks(t: TestContext, mode = "plain"): Promise<HeldTasks> {
  const held = await openHeldProcesses(t);
  const all: HeldProcess[] = [];
  const wanted: ((process: HeldProcess) => void)[] = [];
  let isOver = false;
  let handedOut = 0;
  const takeAll = async (): Promise<never> => {
    for (;;) {
      const process = await held.next();
      all.push(process);
      if (isOver) process.socket.end();
      wanted.shift()?.(process);
    }
  };
  void takeAll();
  t.after(() => {
    isOver = true;
    for (const { socket } of all) socket.end();
  });
  return {
    toml: holdTypes(held.socketPath, mode),
    async next() {
      const process = all[handedOut++];
      return process ?? new Promise((resolve) => wanted.push(resolve));
    },
  };
}

function holdTypes(socketPath: string, mode: string): string {
  const hold = JSON.stringify([process.execPath, HOLD, socketPath, mode]);
  const fail = JSON.stringify([process.execPath, "-e", "process.exit(1)"]);
  return `[types.hold]
    command = ${hold}
    concurrency = 1
    [types.fail]
    command = ${fail}
    [types.retried]
    command = ${fail}
    retries = 3
  `;
}

/** An answer's status, code and bytes. */
export interface PlainAnswer {
  readonly status: number;
  /** Null without a body. */
  readonly code: number | null;
  readonly text: string;
  readonly response: RawResponse;
  header(name: string): string | null;
}

/** A request with the account's key on a connection of its own; its answer may be of any shape. */
export async function request(
  daemon: Pick<TestDaemon, "url" | "account">,
  { headers = [], ...rest }: RawRequest,
): Promise<PlainAnswer> {
  const response = await exchange(daemon.url, { ...rest, headers: [bearer(daemon), ...headers] });
  return toPlainAnswer(response);
}

/** A response, for tests that look at its bytes. */
export function toPlainAnswer(response: RawResponse): PlainAnswer {
  const text = response.body.toString();
  const code = /^\{"status_code":(\d{5}),/.exec(text)?.[1];
  return {
    status: response.status,
    code: code === undefined ? null : Number(code),
    text,
    response,
    header: (name) => headerOf(response, name),
  };
}

/** The header lines of a caller's credentials. */
export type Asker = readonly string[];

type SearchPage = FieldsOf<"GET /v1/tasks/search">;

/** The account of a daemon, by its key. */
export function byKey(daemon: Pick<TestDaemon, "account">): Asker {
  return [bearer(daemon)];
}

/** The operator, by a session. */
export async function byOperator({ url, file }: TestDaemon, now?: number): Promise<Asker> {
  return [cookieLine(url, await createOperatorSession(file, now)), ...FROM_PAGE];
}

/** The body of a response that must be 20000. */
export async function asked<Body>(
  { url }: Pick<TestDaemon, "url">,
  request: RawRequest,
): Promise<Body> {
  const answer = await ask(url, request);
  assert.equal(answer.code, 20000, answer.response.body.toString());
  return JSON.parse(answer.response.body.toString()) as Body;
}

/** A page of a search. */
export function search(
  daemon: Pick<TestDaemon, "url">,
  who: Asker,
  query: Readonly<Record<string, string>>,
): Promise<SearchPage> {
  const target = `/v1/tasks/search?${new URLSearchParams(query).toString()}`;
  return asked(daemon, { target, headers: who });
}

/** A POST of JSON. */
export function postJson(target: string, who: Asker, body: unknown): RawRequest {
  return { method: "POST", target, headers: [...who, JSON_TYPE], body: JSON.stringify(body) };
}
