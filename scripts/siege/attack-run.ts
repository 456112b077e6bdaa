import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

import type { AttackOrder } from "./attack.ts";
import { Attacker } from "./attacker.ts";
import { Other, type OtherAccount, type OthersFigures } from "./other.ts";
import type { Tally } from "./outcome.ts";
import type { SiegeRow, WebhookRule } from "./rows.ts";
import type { Target } from "./target.ts";
import { VitalsWatch, type Vitals } from "./vitals.ts";
import { othersWebhooks, type WebhookLatencies } from "./webhooks.ts";

/** How long to measure. */
export interface SiegeTimes {
  /** How long the attack lasts, and how long the other is measured alone before it. */
  readonly seconds: number;
  readonly aloneSeconds: number;
  /** How long to wait, after an attack, until all is as before. */
  readonly settledSecondsMax: number;
}

/** One attack or several at once, and how the other is measured beside them. */
export interface AttackPlan extends SiegeTimes {
  readonly target: Target;
  readonly attacks: readonly { readonly row: SiegeRow; readonly order: AttackOrder }[];
  /** The other's webhooks that are measured too, and for how many seconds of the attack. */
  readonly webhooks: (WebhookRule & { readonly seconds: number }) | null;
  /** All is as before when gets take no more than so many milliseconds, or those of before. */
  readonly asBeforeMs: number;
  /** Does something when the attack is over, and says what came of it. */
  readonly after?: () => Promise<string>;
  /** Called before the other is measured alone, before the attack, and when it is over. */
  readonly onPhase?: (phase: "alone" | "attack" | "over") => Promise<void>;
}

/** What everybody saw before an attack, and while it lasted. */
export interface AttackResult {
  readonly alone: OthersFigures;
  readonly during: OthersFigures;
  /** The other's webhooks alone and meanwhile, from completion to arrival; null where they were not measured. */
  readonly webhooks: { readonly alone: WebhookLatencies; readonly during: WebhookLatencies } | null;
  /** The attackers' answers, by the names of their rows. */
  readonly attackers: Readonly<Record<string, Tally>>;
  readonly vitals: Vitals;
  /** The resident memory before the attack. */
  readonly rssBytesBefore: number;
  /** From the end of the attack until all was as before; null: not within the waiting time. */
  readonly settledMs: number | null;
  /** The longest time that this measuring process's own event loop stood still. */
  readonly ownDelayMs: number;
  readonly notes: readonly string[];
}

const OTHER_LOGIN = "other";

const FROM_MANY = Array.from({ length: 16 }, (_, i) => `127.0.3.${i + 1}`);
/**
 * Addresses of attackers: one of somebody without a key; many of an account, as its limits are not to go by address.
 */
const FROM = {
  "no key": ["127.0.0.2"],
  account: FROM_MANY,
  service: FROM_MANY,
  worker: ["127.0.0.4"],
} as const;

/** Makes what a row's attack needs. The daemon serves. */
export async function prepareAttack(row: SiegeRow, target: Target): Promise<AttackOrder> {
  const { name, who, attack } = row;
  const secret = await secretOf(row, target);
  const made = typeof attack === "function" ? await attack(target, name) : attack;
  return { attack: made, from: FROM[who], secret, port: target.daemon.port };
}

async function secretOf({ name, who }: SiegeRow, target: Target): Promise<string | undefined> {
  if (who === "no key") return undefined;
  if (who === "worker") return target.workerToken();
  return (await target.account(name)).key;
}

/** Measures what the other sees, alone and then beside the attacks. The daemon serves. */
export async function runAttack(plan: AttackPlan): Promise<AttackResult> {
  using run = new AttackRun(plan, await prepareOther(plan.target));
  return await run.run();
}

/** Makes the other account, with a finished task. */
async function prepareOther(target: Target): Promise<OtherAccount> {
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
  readonly #webhooks: ReturnType<typeof othersWebhooks> | null;
  readonly #danger = Promise.withResolvers<void>();
  readonly #ownDelay = monitorEventLoopDelay({ resolution: 10 });
  readonly #notes: string[] = [];

  constructor(plan: AttackPlan, account: OtherAccount) {
    const { target, webhooks } = plan;
    this.#plan = plan;
    this.#other = new Other(account, target.daemon.port);
    this.#vitals = new VitalsWatch(target.daemon.pid, (why) => this.#onDanger(why));
    this.#attackers = plan.attacks.map((attack) => ({ ...attack, attacker: new Attacker() }));
    this.#webhooks = webhooks && othersWebhooks(target, webhooks, OTHER_LOGIN);
  }

  async run(): Promise<AttackResult> {
    const { target, aloneSeconds, settledSecondsMax, asBeforeMs, after, onPhase } = this.#plan;
    await onPhase?.("alone");
    const aloneFrom = performance.now();
    const webhooksAlone = await this.#measure(aloneSeconds);
    const from = performance.now();
    const alone = this.#other.figures(aloneFrom, from);
    const rssBytesBefore = this.#vitals.seen.rssBytes;
    await onPhase?.("attack");
    this.#vitals.reset();
    this.#ownDelay.enable();
    const webhooksDuring = await this.#attack();
    const to = performance.now();
    await onPhase?.("over");
    const attackers: Record<string, Tally> = {};
    for (const { row, attacker } of this.#attackers)
      attackers[row.name] = await attacker.ask("end");
    if (after !== undefined) this.#notes.push(await after());
    const msMax = Math.max(asBeforeMs, alone.get.maxMs);
    const waitMs = target.daemon.isRunning ? settledSecondsMax * 1000 : 0;
    const settledMs = await this.#other.settled(to, { msMax, waitMs });
    this.#ownDelay.disable();
    if (!target.daemon.isRunning) this.#notes.push("the daemon died");
    return {
      alone,
      during: this.#other.figures(from, to),
      webhooks: this.#webhooks && { alone: webhooksAlone, during: webhooksDuring },
      attackers,
      vitals: this.#vitals.seen,
      rssBytesBefore,
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
    await Promise.all(this.#attackers.map(({ attacker, order }) => attacker.ask("begin", order)));
    const until = sleep(seconds * 1000, undefined, { ref: false });
    if (webhooks?.isRestarted === true) await this.#restart();
    const measured = this.#measure(webhooks?.seconds ?? seconds);
    const meanwhile = this.#attackers.map(async ({ row }) => {
      if (row.meanwhile !== undefined) this.#notes.push(await row.meanwhile(target, row.name));
    });
    await Promise.race([until, this.#danger.promise]);
    await Promise.all(meanwhile);
    return measured;
  }

  async #restart(): Promise<void> {
    const { target } = this.#plan;
    await target.restart();
    this.#other.moveTo(target.daemon.port);
    this.#vitals.pid = target.daemon.pid;
  }

  /** Measures the other's webhooks where that is wished; else waits for as many seconds. */
  async #measure(seconds: number): Promise<WebhookLatencies> {
    if (this.#webhooks !== null) return this.#webhooks(seconds);
    await Promise.race([sleep(seconds * 1000), this.#danger.promise]);
    return [];
  }

  #onDanger(why: string): void {
    if (!this.#notes.some((note) => note.startsWith("ended")))
      this.#notes.push(`ended early: ${why}`);
    this.#danger.resolve();
  }
}
