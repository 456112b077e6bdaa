import { setTimeout as sleep } from "node:timers/promises";

import type { AttackJob, AttackTally } from "./attack-job.ts";
import { Attacker } from "./attacker.ts";
import { othersFigures, type OthersFigures } from "./figures.ts";
import { Honest, type HonestReport } from "./honest.ts";
import { Other } from "./other.ts";
import type { SiegeRow } from "./row.ts";
import { OTHER_LOGIN, prepareOther, type SiegeOptions } from "./siege-run.ts";
import { Target } from "./target.ts";
import { VitalsWatch, type Vitals } from "./vitals.ts";
import { OthersWebhooks, type WebhookLatencies } from "./webhooks.ts";

/** The options of a run of all rows together. */
export interface TogetherOptions extends SiegeOptions {
  readonly rows: readonly SiegeRow[];
  readonly honest: number;
  readonly onNews: (text: string) => void;
}

/** What everybody saw while all rows ran together. */
export interface TogetherResult {
  readonly seconds: number;
  readonly honestAccounts: number;
  readonly honest: { readonly alone: HonestReport; readonly during: HonestReport };
  readonly other: { readonly alone: OthersFigures; readonly during: OthersFigures };
  readonly webhooks: { readonly alone: WebhookLatencies; readonly during: WebhookLatencies };
  readonly attackers: Readonly<Record<string, AttackTally>>;
  readonly vitals: Vitals;
  readonly rssBytesAfter: number;
  readonly settledMs: number | null;
  readonly notes: readonly string[];
}

const HONEST_PER_SECOND = 10;
const CLI_AT_ONCE = 4;
const AS_BEFORE_MS = 100;
// The first requests of every connection and account pay for code that is not compiled yet.
const WARM_UP_MS = 3000;
// An attacker that finds no limit must not fill the disk.
const LIMITS = ['database_size = "8GiB"'];

/** Runs all rows that need no restart against one daemon, beside honest accounts. */
export async function runTogether(options: TogetherOptions): Promise<TogetherResult> {
  const rows = options.rows.filter(({ webhooks }) => webhooks?.isRestarted !== true);
  await using target = await Target.create(options.place, LIMITS);
  for (const row of rows) await row.fill?.(target);
  await target.start();
  const account = await prepareOther(target);
  const keys = await honestKeys(target, options.honest);
  const jobs = [];
  for (const row of rows) jobs.push({ row, job: await row.prepare(target) });
  options.onNews(`${jobs.length} attacks and ${keys.length} honest accounts are prepared`);
  using other = new Other(account, target.daemon.port);
  using honest = new Honest();
  await honest.ask("begin", { port: target.daemon.port, keys, perSecond: HONEST_PER_SECOND });
  const attackers = jobs.map(({ row, job }) => ({ row, job, attacker: new Attacker() }));
  try {
    return await new Together({ options, target, other, honest, attackers }).run();
  } finally {
    for (const { attacker } of attackers) attacker[Symbol.dispose]();
  }
}

async function honestKeys(target: Target, count: number): Promise<readonly string[]> {
  const keys: string[] = [];
  for (let made = 0; made < count; made += CLI_AT_ONCE) {
    const logins = Array.from({ length: Math.min(CLI_AT_ONCE, count - made) }, (_, i) => made + i);
    const some = await Promise.all(logins.map((index) => target.account(`honest-${index}`)));
    keys.push(...some.map(({ key }) => key));
  }
  return keys;
}

interface TogetherDeps {
  readonly options: TogetherOptions;
  readonly target: Target;
  readonly other: Other;
  readonly honest: Honest;
  readonly attackers: readonly {
    readonly row: SiegeRow;
    readonly job: AttackJob;
    readonly attacker: Attacker;
  }[];
}

class Together {
  readonly #deps: TogetherDeps;
  readonly #webhooks: OthersWebhooks;
  readonly #danger = Promise.withResolvers<void>();
  readonly #notes: string[] = [];

  constructor(deps: TogetherDeps) {
    this.#deps = deps;
    this.#webhooks = new OthersWebhooks(deps.target, { to: "new" }, OTHER_LOGIN);
  }

  async run(): Promise<TogetherResult> {
    const { target, other, honest, options } = this.#deps;
    using vitals = new VitalsWatch(target.daemon.pid, (why) => this.#onDanger(why));
    await sleep(WARM_UP_MS);
    await honest.ask("mark");
    const aloneFrom = performance.now();
    const webhooksAlone = await this.#webhooks.measure(options.aloneSeconds);
    const from = performance.now();
    const alone = othersFigures(other.between(aloneFrom, from), from);
    const honestAlone = await honest.ask("mark");
    const webhooksDuring = await this.#attack();
    const to = performance.now();
    const honestDuring = await honest.ask("end");
    const attackers: Record<string, AttackTally> = {};
    for (const { row, attacker } of this.#deps.attackers)
      attackers[row.name] = await attacker.ask("end");
    const waitMs = target.daemon.isRunning ? options.settledSecondsMax * 1000 : 0;
    const settledMs = await other.settled(to, { msMax: AS_BEFORE_MS, waitMs });
    if (!target.daemon.isRunning) this.#notes.push("the daemon died");
    return {
      seconds: (to - from) / 1000,
      honestAccounts: options.honest,
      settledMs,
      attackers,
      honest: { alone: honestAlone, during: honestDuring },
      other: { alone, during: othersFigures(other.between(from, to), performance.now()) },
      webhooks: { alone: webhooksAlone, during: webhooksDuring },
      vitals: vitals.seen,
      rssBytesAfter: vitals.seen.rssBytes,
      notes: this.#notes,
    };
  }

  async #attack(): Promise<WebhookLatencies> {
    const { options, attackers, target } = this.#deps;
    const until = sleep(options.seconds * 1000);
    await Promise.all(attackers.map(({ attacker, job }) => attacker.ask("begin", job)));
    options.onNews("all attacks are under way");
    const webhooks = this.#webhooks.measure(options.seconds / 2);
    const meanwhile = attackers.map(async ({ row }) => {
      if (row.meanwhile !== undefined) this.#notes.push(await row.meanwhile(target));
    });
    await Promise.race([until, this.#danger.promise]);
    await Promise.all(meanwhile);
    return webhooks;
  }

  #onDanger(why: string): void {
    if (!this.#notes.some((note) => note.startsWith("ended"))) {
      this.#notes.push(`ended early: ${why}`);
    }
    this.#danger.resolve();
  }
}
