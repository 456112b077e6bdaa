import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

import type { AttackJob, AttackTally } from "./attack-job.ts";
import { Attacker } from "./attacker.ts";
import { othersFigures, type AttackResult } from "./figures.ts";
import { Other } from "./other.ts";
import type { SiegeRow, WebhookRule } from "./row.ts";
import type { Target } from "./target.ts";
import { VitalsWatch } from "./vitals.ts";
import { OthersWebhooks, type WebhookLatencies } from "./webhooks.ts";

/** One attack or several at once, and how the other is measured beside them. */
export interface AttackPlan {
  readonly target: Target;
  readonly attacks: readonly { readonly row: SiegeRow; readonly job: AttackJob }[];
  /** The other's webhooks that are measured too, and for how many seconds of the attack. */
  readonly webhooks: (WebhookRule & { readonly seconds: number }) | null;
  readonly seconds: number;
  readonly aloneSeconds: number;
  /** How long to wait, after the attack, until all is as before: gets within so many milliseconds, or those of before. */
  readonly settledSecondsMax: number;
  readonly asBeforeMs: number;
  /** Does something when the attack is over, and says what came of it. */
  readonly after?: (target: Target) => Promise<string>;
  /** Called before the other is measured alone, before the attack, and when it is over. */
  readonly onPhase?: (phase: "alone" | "attack" | "over") => Promise<void>;
}

const OTHER_LOGIN = "other";

/** Measures what the other sees, alone and then beside the attacks. The daemon serves. */
export async function runAttack(plan: AttackPlan): Promise<AttackResult> {
  using run = new AttackRun(plan, await prepareOther(plan.target));
  return await run.run();
}

/** Makes the other account, with a finished task. */
async function prepareOther(target: Target): Promise<{ key: string; taskId: string }> {
  const { key } = await target.account(OTHER_LOGIN);
  const [taskId = ""] = await target.post(OTHER_LOGIN, [{ type: "echo", input: { n: 1 } }]);
  await target.completed(OTHER_LOGIN, taskId);
  return { key, taskId };
}

class AttackRun {
  readonly #plan: AttackPlan;
  readonly #other: Other;
  readonly #vitals: VitalsWatch;
  readonly #attackers: readonly (AttackPlan["attacks"][number] & { readonly attacker: Attacker })[];
  readonly #webhooks: OthersWebhooks | null;
  readonly #danger = Promise.withResolvers<void>();
  readonly #ownDelay = monitorEventLoopDelay({ resolution: 10 });
  readonly #notes: string[] = [];

  constructor(plan: AttackPlan, account: { readonly key: string; readonly taskId: string }) {
    const { target, webhooks } = plan;
    const { pid, port } = target.daemon;
    this.#plan = plan;
    this.#other = new Other(account, port);
    this.#vitals = new VitalsWatch(pid, (why) => this.#onDanger(why));
    this.#attackers = plan.attacks.map((attack) => ({ ...attack, attacker: new Attacker() }));
    this.#webhooks = webhooks === null ? null : new OthersWebhooks(target, webhooks, OTHER_LOGIN);
  }

  async run(): Promise<AttackResult> {
    const { target, aloneSeconds, settledSecondsMax, asBeforeMs, after, onPhase } = this.#plan;
    await onPhase?.("alone");
    const aloneFrom = performance.now();
    const webhooksAlone = await this.#measure(aloneSeconds);
    const from = performance.now();
    const alone = othersFigures(this.#other.between(aloneFrom, from), from);
    const rssBytesBefore = this.#vitals.seen.rssBytes;
    await onPhase?.("attack");
    this.#vitals.reset();
    this.#ownDelay.enable();
    const webhooksDuring = await this.#attack();
    const to = performance.now();
    await onPhase?.("over");
    const attackers: Record<string, AttackTally> = {};
    for (const { row, attacker } of this.#attackers)
      attackers[row.name] = await attacker.ask("end");
    if (after !== undefined) this.#notes.push(await after(target));
    const msMax = Math.max(asBeforeMs, alone.get.maxMs);
    const waitMs = target.daemon.isRunning ? settledSecondsMax * 1000 : 0;
    const settledMs = await this.#other.settled(to, { msMax, waitMs });
    this.#ownDelay.disable();
    if (!target.daemon.isRunning) this.#notes.push("the daemon died");
    return {
      seconds: (to - from) / 1000,
      alone,
      during: othersFigures(this.#other.between(from, to), performance.now()),
      webhooks: this.#webhooks && { alone: webhooksAlone, during: webhooksDuring },
      attackers,
      vitals: this.#vitals.seen,
      rssBytesBefore,
      rssBytesAfter: this.#vitals.seen.rssBytes,
      settledMs,
      ownDelayMs: this.#ownDelay.max / 1e6,
      notes: this.#notes,
    };
  }

  [Symbol.dispose](): void {
    for (const { attacker } of this.#attackers) attacker[Symbol.dispose]();
    this.#other[Symbol.dispose]();
    this.#vitals[Symbol.dispose]();
  }

  async #attack(): Promise<WebhookLatencies> {
    const { target, webhooks, seconds } = this.#plan;
    await Promise.all(this.#attackers.map(({ attacker, job }) => attacker.ask("begin", job)));
    const until = sleep(seconds * 1000, undefined, { ref: false });
    if (webhooks?.isRestarted === true) await this.#restart();
    const measured = this.#measure(webhooks?.seconds ?? seconds);
    const meanwhile = this.#attackers.map(async ({ row }) => {
      if (row.meanwhile !== undefined) this.#notes.push(await row.meanwhile(target));
    });
    await Promise.race([until, this.#danger.promise]);
    await Promise.all(meanwhile);
    return measured;
  }

  async #restart(): Promise<void> {
    const { target } = this.#plan;
    await target.restart();
    this.#other.moveTo(target.daemon.port);
    this.#vitals.moveTo(target.daemon.pid);
  }

  /** Measures the other's webhooks where that is wished; else waits for as many seconds. */
  async #measure(seconds: number): Promise<WebhookLatencies> {
    if (this.#webhooks !== null) return this.#webhooks.measure(seconds);
    await Promise.race([sleep(seconds * 1000), this.#danger.promise]);
    return [];
  }

  #onDanger(why: string): void {
    if (!this.#notes.some((note) => note.startsWith("ended")))
      this.#notes.push(`ended early: ${why}`);
    this.#danger.resolve();
  }
}
