import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import {
  type Envelope,
  type TestAccount,
  type TestDaemon,
  createTestAccount,
  startTestDaemon,
} from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { atStore } from "../http/session-requests.ts";
import { OWN_ADDRESS } from "./peer-process.ts";

/** The stages of a rotation, in their order. */
export const PHASES = ["normal", "rotating", "finished"] as const;
export type Phase = (typeof PHASES)[number];

/** The secrets of X-Signature and X-Signature-Next; `next` is null if no secret rotates. */
export interface Signers {
  readonly current: string;
  readonly next: string | null;
}

/** The HTTP statuses of the first attempts of a task's webhooks, by kind. */
export type Statuses = Readonly<Record<string, number | null | undefined>>;

/** The real daemon, whose deliveries peers judge. */
export interface Deliveries {
  readonly account: TestAccount;
  /** Another account of the same daemon. */
  readonly stranger: TestAccount;
  /** Brings the account's secret into a phase. The phases are entered in their order. */
  enter(phase: Phase): Promise<Signers>;
  /** Posts a task for an account, the first one by default, and returns the task's id. */
  post(task: object, by?: TestAccount): Promise<string>;
  /** Posts tasks and returns the statuses of each. */
  statuses(tasks: readonly object[], by?: TestAccount): Promise<readonly Statuses[]>;
}

/** Starts the daemon. It may deliver to {@link OWN_ADDRESS} only, by the name {@link IDN_HOST_ENCODED} too. */
export async function startDeliveries(t: TestContext): Promise<Deliveries> {
  const names = await startDnsServer(t);
  names.script(IDN_HOST_ENCODED, { A: addresses(OWN_ADDRESS) });
  const toml = [
    "[webhooks]",
    `allow = ${JSON.stringify([OWN_ADDRESS, IDN_HOST_ENCODED])}`,
    `dns_servers = ${JSON.stringify(names.servers)}`,
  ].join("\n");
  const served = await startTestDaemon(t, { toml });
  const { account } = served;
  const stranger = await createTestAccount(served.file, "stranger");
  const next = newWebhookSecret();
  const post = (task: object, by = account): Promise<string> => postTask(served, { task, by });
  return {
    ...{ account, stranger, post },
    enter: (phase) => enterPhase(served, { phase, next }),
    async statuses(tasks, by = account) {
      const ids = await Promise.all(tasks.map((task) => post(task, by)));
      await served.daemon.idle();
      return Promise.all(ids.map((id) => statusesOf(served, { id, by })));
    },
  };
}

async function enterPhase(
  { account, file }: TestDaemon,
  { phase, next }: { readonly phase: Phase; readonly next: string },
): Promise<Signers> {
  if (phase === "normal") return { current: account.secret, next: null };
  const { login } = account;
  const outcome = await atStore(file, (store) =>
    phase === "rotating" ? store.rotateSecret({ login, next }) : store.finishRotation({ login }),
  );
  assert.equal(outcome, phase);
  return phase === "rotating" ? { current: account.secret, next } : { current: next, next: null };
}

async function postTask(
  served: TestDaemon,
  { task, by }: { readonly task: object; readonly by: TestAccount },
): Promise<string> {
  const response = await served.call("/v1/tasks/task_post", {
    method: "POST",
    headers: { authorization: `Bearer ${by.key}`, "content-type": "application/json" },
    body: JSON.stringify([task]),
  });
  // The contract has this shape.
  const { tasks } = (await response.json()) as Envelope;
  assert.equal(tasks[0]?.status_code, 20100, tasks[0]?.status_message);
  return tasks[0].id;
}

async function statusesOf(
  served: TestDaemon,
  { id, by }: { readonly id: string; readonly by: TestAccount },
): Promise<Statuses> {
  const headers = { authorization: `Bearer ${by.key}` };
  const response = await served.call(`/v1/tasks/deliveries/${id}`, { headers });
  // The contract has this shape.
  const { deliveries } = (await response.json()) as {
    readonly deliveries: readonly {
      readonly kind: string;
      readonly attempts: readonly { readonly http_status: number | null }[];
    }[];
  };
  return Object.fromEntries(
    deliveries.map(({ kind, attempts }) => [kind, attempts[0]?.http_status]),
  );
}

/** The target of the URLs of the cases. */
export interface Place {
  /** A loopback address. */
  readonly address: string;
  readonly port: number;
}

/** One kind of delivery whose signature often fails. */
export interface Case {
  readonly name: string;
  /** Whether the host is written as a name, {@link IDN_HOST}. */
  readonly isNamed?: true;
  /** Whether the receiver is at port 80. */
  readonly isAtDefaultPort?: true;
  /** Path, query and fragment as they are posted, as postback and as pingback. */
  readonly path: string;
  /** The request target that each arrives with; `ID` stands for the task's id. */
  readonly arrives: { readonly postback: string; readonly pingback: string };
  readonly tag?: string;
  readonly input: unknown;
}

export type Kind = "postback" | "pingback";

/** A host name as a client posts it, and as the request has it. */
export const IDN_HOST = "BÜCHER.example";
export const IDN_HOST_ENCODED = "xn--bcher-kva.example";

const UTF8_PATH = "/gr%C3%B6%C3%9Fe/%E6%97%A5%E6%9C%AC?q=%C3%BC%E2%82%AC%F0%9F%98%80&tag=";
const ESCAPED_PATH = "/a%2Fb%20c/%e2%82%ac/%24id?x=%26y%3D1+2&z=%25&latin1=%e4";

// Just under `limits.body`, the URLs and the tag included. The envelope holds it as input and as result.
const LARGE = "ß".repeat(520_000);

export const MATRIX: readonly Case[] = [
  {
    name: "ASCII",
    path: "/plain?id=$id&tag=$tag",
    arrives: { postback: "/plain?id=$id&tag=$tag", pingback: "/plain?id=ID&tag=order-1" },
    tag: "order-1",
    input: { order: 1, note: "plain" },
  },
  {
    name: "UTF-8",
    path: "/größe/日本?q=ü€😀&tag=$tag",
    arrives: {
      postback: `${UTF8_PATH}$tag`,
      pingback: `${UTF8_PATH}%C3%9Cbergr%C3%B6%C3%9Fe%2F%E2%98%83%20%F0%9F%98%80`,
    },
    tag: "Übergröße/☃ 😀",
    input: { text: "Grüße, 日本, 😀, \u2028 and \u0000", schlüssel: ["\\", '"', "/"] },
  },
  {
    name: "1 MB body",
    path: "/large",
    arrives: { postback: "/large", pingback: "/large" },
    tag: "large",
    input: LARGE,
  },
  {
    name: "no tag",
    path: "/untagged/$tag?tag=$tag&id=$id",
    arrives: {
      postback: "/untagged/$tag?tag=$tag&id=$id",
      pingback: "/untagged/?tag=&id=ID",
    },
    input: null,
  },
  {
    name: "IDN host",
    isNamed: true,
    path: "/named?id=$id",
    arrives: { postback: "/named?id=$id", pingback: "/named?id=ID" },
    tag: "named",
    input: [1],
  },
  {
    name: "percent-encoded path and query",
    path: ESCAPED_PATH,
    arrives: { postback: ESCAPED_PATH, pingback: ESCAPED_PATH },
    tag: "escaped",
    input: [2],
  },
  {
    name: "default port",
    isAtDefaultPort: true,
    path: "/default?id=$id",
    arrives: { postback: "/default?id=$id", pingback: "/default?id=ID" },
    tag: "default",
    input: [3],
  },
  {
    name: "fragment",
    path: "/part?x=1#part-$id",
    arrives: { postback: "/part?x=1", pingback: "/part?x=1" },
    tag: "fragment",
    input: [4],
  },
  {
    name: "empty query",
    path: "/empty?",
    arrives: { postback: "/empty?", pingback: "/empty?" },
    tag: "empty",
    input: [5],
  },
];

/** The task of a case. Its URLs name the port, the default port too. */
export function taskOf(each: Case, place: Place & { readonly scheme?: "http" | "https" }): object {
  const { scheme = "http", address, port } = place;
  const host = each.isNamed === true ? IDN_HOST : address;
  const url = `${scheme}://${host}:${port}${each.path}`;
  const tag = each.tag === undefined ? {} : { tag: each.tag };
  return { input: each.input, ...tag, postback_url: url, pingback_url: url };
}

/** The Host header and the request target that a delivery of a case has to arrive with. */
export function arrivalOf(
  each: Case,
  { kind, id, place }: { readonly kind: Kind; readonly id: string; readonly place: Place },
): { readonly host: string; readonly target: string } {
  const name = each.isNamed === true ? IDN_HOST_ENCODED : place.address;
  const host = each.isAtDefaultPort === true ? name : `${name}:${place.port}`;
  return { host, target: each.arrives[kind].replace("ID", id) };
}
