import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import type { Envelope, TestAccount, TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { IDN_HOST_ENCODED } from "./matrix.ts";
import { OWN_ADDRESS } from "./peer-process.ts";

/** The stages of a rotation, in their order. */
export const PHASES = ["normal", "rotating", "finished"] as const;
export type Phase = (typeof PHASES)[number];

/** What X-Signature and X-Signature-Next have to be made with; `next` null: no X-Signature-Next. */
export interface Signers {
  readonly current: string;
  readonly next: string | null;
}

/** The real daemon, whose deliveries are to be judged by others. */
export interface Deliveries {
  readonly account: TestAccount;
  /** Another account of the same daemon. */
  readonly stranger: TestAccount;
  /** Brings the account's secret into a phase; call it in their order. */
  enter(phase: Phase): Promise<Signers>;
  /** Posts a task, by the account unless told; gives the task's id. */
  post(task: object, by?: TestAccount): Promise<string>;
}

/**
 * Starts the daemon. It may deliver to {@link OWN_ADDRESS} alone, and asks a name server of the test's,
 * which knows the one name {@link IDN_HOST_ENCODED}, that address's.
 */
export async function startDeliveries(t: TestContext): Promise<Deliveries> {
  const names = await startDnsServer(t);
  names.script(IDN_HOST_ENCODED, { A: addresses(OWN_ADDRESS) });
  const toml = [
    "[webhooks]",
    `allow = ${JSON.stringify([OWN_ADDRESS, IDN_HOST_ENCODED])}`,
    `dns_servers = ${JSON.stringify(names.servers)}`,
  ].join("\n");
  const served = await startTestDaemon(t, { toml });
  const stranger = await createTestAccount(served.file, "stranger");
  const rotation = new Rotation(served);
  return {
    account: served.account,
    stranger,
    enter: (phase) => rotation.enter(phase),
    post: (task, by = served.account) => post(served, { task, by }),
  };
}

class Rotation {
  readonly #served: TestDaemon;
  readonly #next = newWebhookSecret();

  constructor(served: TestDaemon) {
    this.#served = served;
  }

  async enter(phase: Phase): Promise<Signers> {
    const { account } = this.#served;
    if (phase === "normal") return { current: account.secret, next: null };
    // As `admin secret` does it: from outside, while the daemon serves.
    const store = await openSqliteStore({
      ...{ file: this.#served.file, writer: "inline", backlogMax: 100 },
    });
    const { login } = account;
    const outcome =
      phase === "rotating"
        ? await store.rotateSecret({ login, next: this.#next })
        : await store.finishRotation({ login });
    await store.close();
    assert.equal(outcome, phase);
    if (phase === "rotating") return { current: account.secret, next: this.#next };
    return { current: this.#next, next: null };
  }
}

async function post(
  served: TestDaemon,
  { task, by }: { readonly task: object; readonly by: TestAccount },
): Promise<string> {
  const response = await served.call("/v1/tasks/task_post", {
    method: "POST",
    headers: { authorization: `Bearer ${by.key}`, "content-type": "application/json" },
    body: JSON.stringify([task]),
  });
  // The shape is the contract's; what is not there fails below.
  const { tasks } = (await response.json()) as Envelope;
  assert.equal(tasks[0]?.status_code, 20100, tasks[0]?.status_message);
  return tasks[0].id;
}
