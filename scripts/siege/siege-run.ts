import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

import type { DaemonPlace } from "../kit/daemon-file.ts";
import type { AttackJob } from "./attack-job.ts";
import { Attacker } from "./attacker.ts";
import { othersFigures, type RowResult } from "./figures.ts";
import { Other } from "./other.ts";
import type { SiegeRow } from "./row.ts";
import { Target } from "./target.ts";
import { VitalsWatch } from "./vitals.ts";
import { OthersWebhooks, type WebhookLatencies } from "./webhooks.ts";

/** The options of a measurement. */
export interface SiegeOptions {
  readonly place: DaemonPlace;
  /** How long the attack lasts, and how long the other is measured alone before it. */
  readonly seconds: number;
  readonly aloneSeconds: number;
  /** How long to wait, after an attack, until all is as before. */
  readonly settledSecondsMax: number;
}

export const OTHER_LOGIN = "other";
const AS_BEFORE_MS = 50;

/** Measures one row against a daemon of its own. */
export async function runRow(row: SiegeRow, options: SiegeOptions): Promise<RowResult> {
  await using target = await Target.create(options.place, row.limits ?? []);
  await row.fill?.(target);
  await target.start();
  const job = await row.prepare(target);
  const measuring = new RowRun(row, { target, options, account: await prepareOther(target) });
  using _ = measuring;
  return await measuring.run(job);
}

/** Makes the other account, with a finished task. */
export async function prepareOther(target: Target): Promise<{ key: string; taskId: string }> {
  const { key } = await target.account(OTHER_LOGIN);
  const [taskId = ""] = await target.post(OTHER_LOGIN, [{ type: "echo", input: { n: 1 } }]);
  await target.completed(OTHER_LOGIN, taskId);
  return { key, taskId };
}

interface RowDeps {
  readonly target: Target;
  readonly options: SiegeOptions;
  readonly account: { readonly key: string; readonly taskId: string };
}

class RowRun {
  readonly #row: SiegeRow;
  readonly #target: Target;
  readonly #options: SiegeOptions;
  readonly #other: Other;
  readonly #vitals: VitalsWatch;
  readonly #attacker = new Attacker();
  readonly #webhooks: OthersWebhooks | null;
  readonly #danger = Promise.withResolvers<void>();
  readonly #ownDelay = monitorEventLoopDelay({ resolution: 10 });
  readonly #notes: string[] = [];

  constructor(row: SiegeRow, { target, options, account }: RowDeps) {
    this.#row = row;
    this.#target = target;
    this.#options = options;
    const { daemon } = target;
    this.#other = new Other(account, daemon.port);
    this.#vitals = new VitalsWatch(daemon.pid, (why) => this.#onDanger(why));
    const { webhooks } = row;
    this.#webhooks =
      webhooks === undefined ? null : new OthersWebhooks(target, webhooks, OTHER_LOGIN);
  }

  async run(job: AttackJob): Promise<RowResult> {
    const { name, who, what, after } = this.#row;
    const aloneFrom = performance.now();
    const webhooksAlone = await this.#measure(this.#options.aloneSeconds);
    const from = performance.now();
    const alone = othersFigures(this.#other.between(aloneFrom, from), from);
    const rssBytesBefore = this.#vitals.seen.rssBytes;
    this.#vitals.reset();
    this.#ownDelay.enable();
    const webhooksDuring = await this.#attack(job);
    const to = performance.now();
    const attacker = await this.#attacker.ask("end");
    if (after !== undefined) await this.#note(after);
    const msMax = Math.max(AS_BEFORE_MS, alone.get.maxMs);
    const waitMs = this.#target.daemon.isRunning ? this.#options.settledSecondsMax * 1000 : 0;
    const settledMs = await this.#other.settled(to, { msMax, waitMs });
    this.#ownDelay.disable();
    if (!this.#target.daemon.isRunning) this.#notes.push("the daemon died");
    const during = othersFigures(this.#other.between(from, to), performance.now());
    return {
      name,
      who,
      what,
      alone,
      during,
      attacker,
      rssBytesBefore,
      settledMs,
      webhooks: this.#webhooks && { alone: webhooksAlone, during: webhooksDuring },
      vitals: this.#vitals.seen,
      rssBytesAfter: this.#vitals.seen.rssBytes,
      ownDelayMs: this.#ownDelay.max / 1e6,
      notes: this.#notes,
    };
  }

  [Symbol.dispose](): void {
    this.#attacker[Symbol.dispose]();
    this.#other[Symbol.dispose]();
    this.#vitals[Symbol.dispose]();
  }

  async #attack(job: AttackJob): Promise<WebhookLatencies> {
    await this.#attacker.ask("begin", job);
    const until = sleep(this.#options.seconds * 1000, undefined, { ref: false });
    if (this.#row.webhooks?.isRestarted === true) await this.#restart();
    const webhooks = this.#measure(this.#options.seconds);
    if (this.#row.meanwhile !== undefined) await this.#note(this.#row.meanwhile);
    await Promise.race([until, this.#danger.promise]);
    return webhooks;
  }

  async #restart(): Promise<void> {
    await this.#target.restart();
    const { port, pid } = this.#target.daemon;
    this.#other.moveTo(port);
    this.#vitals.moveTo(pid);
  }

  /** Measures the other's webhooks where the row has them; else waits for as many seconds. */
  async #measure(seconds: number): Promise<WebhookLatencies> {
    if (this.#webhooks !== null) return this.#webhooks.measure(seconds);
    await Promise.race([sleep(seconds * 1000), this.#danger.promise]);
    return [];
  }

  async #note(what: (target: Target) => Promise<string>): Promise<void> {
    this.#notes.push(await what(this.#target));
  }

  #onDanger(why: string): void {
    if (this.#notes.length === 0) this.#notes.push(`ended early: ${why}`);
    this.#danger.resolve();
  }
}
