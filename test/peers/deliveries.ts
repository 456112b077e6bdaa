import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import type { Envelope, TestAccount, TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { atStore } from "../http/session-requests.ts";
import { IDN_HOST_ENCODED } from "./matrix.ts";
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
